# SPDX-License-Identifier: Apache-2.0
"""ONE's quantizer part by part: recorded ranges and scales, layers, conversions, moved elements."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from circlekit.api.models import parse
from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import DType, f32, i8, i16, u8
from circlekit.ir.value import Array, Quantization, Value
from circlekit.quant.one.activations import recorded_range
from circlekit.quant.one.borders import _same_parameters
from circlekit.quant.one.layers import _recorded
from circlekit.quant.one.settings import CHANNEL, LAYER, LayerSetting, Settings
from circlekit.quant.one.with_minmax import quantize_with_minmax, remove_ranges
from tests.quant.one.one_models import FC, ONE_TO_ONE, kinds, on_floats, quantized, value_of


def form(scales: int = 1, zero_point: int = 0) -> Quantization:
    """Return quantization parameters with ``scales`` scales of 0.5."""
    return Quantization(np.full(scales, 0.5, np.float32), np.full(scales, zero_point))


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ((u8, form()), (u8, form()), True),
        ((u8, form(zero_point=1)), (u8, form()), False),
        ((u8, form()), (u8, replace(form(), scale=np.ones(1, np.float32))), False),
        ((u8, form()), (i8, form()), False),
        ((u8, form(2)), (u8, form(2)), False),  # several scales
        ((u8, form()), (u8, None), False),
        ((u8, None), (u8, form()), False),
        ((u8, None), (u8, None), False),
    ],
)
def test_parameters_are_the_same_if_dtype_and_a_single_scale_are_equal(
    first: tuple[DType, Quantization | None], second: tuple[DType, Quantization | None], is_same: bool
) -> None:
    a, b = (Value("v", dtype, (1, 2), None, parameters) for dtype, parameters in (first, second))
    assert _same_parameters(a, b) == is_same


def test_a_recorded_range_has_both_ends() -> None:
    end, none = np.ones(1, np.float32), np.zeros(0, np.float32)
    cases: list[tuple[Array | None, Array | None]] = [(end, None), (None, end), (end, none), (none, end)]
    for low, high in cases:
        assert recorded_range(Value("v", f32, (1,), None, Quantization(min=low, max=high))) is None
    assert recorded_range(Value("v", f32, (1,))) is None
    found = recorded_range(Value("v", f32, (1,), None, Quantization(min=end, max=end)))
    assert found is not None
    assert [float(number) for number in found] == [1, 1]
    for numbers in ((-np.inf, 1), (0, np.inf), (2, 1)):
        lowest, highest = np.array(numbers, np.float32).reshape(2, 1)
        wrong = Quantization(min=lowest, max=highest)
        with pytest.raises(CirclekitError, match="expected a recorded range of finite numbers"):
            recorded_range(Value("v", f32, (1,), None, wrong))


@pytest.mark.parametrize("scales", [0, 1])
@pytest.mark.parametrize("low", [None, np.zeros(1, np.float32)])
@pytest.mark.parametrize("high", [None, np.zeros(1, np.float32)])
def test_removing_ranges_keeps_scales(scales: int, low: Array | None, high: Array | None) -> None:
    model = parse("graph main(%x: f32[1]) -> %x { }")
    (value,) = model.main.inputs
    value.quantization = replace(form(scales), min=low, max=high)
    remove_ranges(model.main)
    if scales or low is high is None:
        assert value.quantization == form(scales)
    else:
        assert value.quantization is None


@pytest.mark.parametrize("operands", ["%w", "%w, none"])
def test_a_layer_without_bias_is_quantized(operands: str) -> None:
    text = re.sub(r" +%b = .*\n", "", FC.format(w=0.25, b=0.5, r=4.0)).replace("%w, %b", operands)
    model = quantized(text)
    assert kinds(model) == ["FULLY_CONNECTED"]
    (y,) = on_floats(model, np.array([[1.0, 0.5]], np.float32))
    assert y == pytest.approx(np.array([[0.375, 0.5]]), abs=0.05)


@pytest.mark.parametrize(
    ("shape", "count"), [("3", 3), ("1,1,3", 3), ("2,1,3", 1), ("2,2,3", 1), ("1,1,1", 1), ("2,2,1", 1)]
)
@pytest.mark.parametrize("granularity", [CHANNEL, LAYER])
def test_each_slope_has_a_scale_if_there_is_one_slope_per_channel(
    shape: str, count: int, granularity: str
) -> None:
    model = quantized(
        f"""graph main(%x: f32[1,2,2,3] {ONE_TO_ONE}) -> %y {{
          %a = const f32[{shape}] uniform(-0.5, 0.5)
          %y = PRelu(%x, %a) : f32[1,2,2,3] {ONE_TO_ONE}
        }}""",
        Settings(LayerSetting(u8, granularity)),
    )
    slopes = value_of(model, "a")
    assert slopes.dtype is u8
    assert slopes.quantization is not None
    assert slopes.quantization.scale.size == (count if granularity == CHANNEL else 1)


# the ranges of u8 with RECORDED: (0 to 255) * 0.5 for channel 0, (-128 to 127) * 0.25 for channel 1
LOW, HIGH = np.array([[0, -32], [127.5, 31.75]], np.float32)
RECORDED = Quantization(np.array([0.5, 0.25], np.float32), np.array([0, 128]), 0, LOW, HIGH)


@pytest.mark.parametrize(
    ("change", "axis", "dtype", "is_recorded"),
    [
        ({}, 0, u8, True),
        ({"min": None}, 0, u8, False),
        ({"max": None}, 0, u8, False),
        ({"zero_point": np.zeros(1, np.int64)}, 0, u8, False),
        ({"scale": np.ones(1, np.float32)}, 0, u8, False),
        ({}, 1, u8, False),
        ({}, None, u8, False),
        ({}, 0, i16, False),  # the ranges have the 255 steps of u8
        ({"max": np.array([127.5, 31.0], np.float32)}, 0, u8, False),
    ],
)
def test_scales_that_an_earlier_rounding_recorded_are_used(
    change: dict[str, Any], axis: int | None, dtype: DType, is_recorded: bool
) -> None:
    value = Value.constant("w", np.ones((2, 3), np.float32))
    value.quantization = replace(RECORDED, **change)
    found = _recorded(value, axis, dtype)
    assert (found is not None) == is_recorded
    if found is not None:
        assert found.scale.tolist() == [[0.5], [0.25]]
        assert (found.low.tolist(), found.high.tolist()) == ([[0], [-32]], [[127.5], [31.75]])
    value.quantization = None
    assert _recorded(value, axis, dtype) is None


def test_a_scale_of_all_weights_is_recorded_for_no_axis() -> None:
    value = Value.constant("w", np.ones((2, 3), np.float32))
    value.quantization = Quantization(RECORDED.scale[:1], RECORDED.zero_point[:1], 0, LOW[:1], HIGH[:1])
    assert _recorded(value, 0, u8) is None
    found = _recorded(value, None, u8)
    assert found is not None
    assert (found.scale.tolist(), found.low.tolist(), found.high.tolist()) == ([0.5], [0], [127.5])


@pytest.mark.parametrize(
    ("granularity", "reason"), [(CHANNEL, "range of each channel"), (LAYER, "range of all weights")]
)
def test_reasons_of_weights(granularity: str, reason: str) -> None:
    settings, raised = (
        Settings(LayerSetting(u8, granularity)),
        "; larger scales where bias or multiplier would not fit",
    )
    for b, more in ((0.5, ""), (1e6, raised)):
        plan = quantize_with_minmax(parse(FC.format(w=0.25, b=b, r=4.0)), settings)
        assert plan.main.tensors["w"].reason == reason + more


MINE = 'Opaque(%{}) {{code: "CUSTOM", custom_code: "Mine"}} : f32[2]'


@pytest.mark.parametrize(
    ("form", "outputs", "expected"),
    [
        ("", None, ["DEQUANTIZE", "CUSTOM", "CUSTOM"]),
        (ONE_TO_ONE, None, ["DEQUANTIZE", "CUSTOM", "CUSTOM", "QUANTIZE"]),
        (ONE_TO_ONE, [f32], ["DEQUANTIZE", "CUSTOM", "CUSTOM"]),
        (ONE_TO_ONE, [i16], ["DEQUANTIZE", "CUSTOM", "CUSTOM", "QUANTIZE"]),
    ],
)
def test_floats_stay_between_operators_that_stay_float(
    form: str, outputs: list[DType] | None, expected: list[str]
) -> None:
    """An output is quantized if it has a range, unless it shall be float."""
    text = f"""graph main(%x: f32[2] {ONE_TO_ONE}) -> %c {{
      %b = {MINE.format("x")} {form}
      %c = {MINE.format("b")} {form}
    }}"""
    model = quantized(text, Settings(LayerSetting(u8, CHANNEL), output_types=outputs))
    assert kinds(model) == expected
    (output,) = model.main.outputs
    last = (outputs or [u8])[0]
    is_quantized = expected[-1] == "QUANTIZE"
    assert output.dtype is (last if is_quantized else f32)
    assert output.name == ("c_Quantize" if is_quantized else "c")
    assert value_of(model, "b").dtype is f32


def test_an_output_has_another_dtype_than_the_users_of_its_float_operator() -> None:
    text = f"""graph main(%x: f32[2] {ONE_TO_ONE}) -> %b, %c {{
      %b = {MINE.format("x")} {ONE_TO_ONE}
      %c = Neg(%b) : f32[2] {ONE_TO_ONE}
    }}"""
    model = quantized(text, Settings(LayerSetting(u8, CHANNEL), output_types=[i16, u8]))
    assert kinds(model) == ["DEQUANTIZE", "CUSTOM", "QUANTIZE", "QUANTIZE", "NEG"]
    assert [(v.name, v.dtype) for v in model.main.outputs] == [("b_Quantize", i16), ("c", u8)]
    assert all(op.inputs[0] is value_of(model, "b") for op in model.main if op.code == "QUANTIZE")
    first, second = (v.quantization for v in (model.main.outputs[0], model.main.ops[-1].inputs[0]) if v)
    assert [q and q.scale.tolist() for q in (first, second)] == [
        [pytest.approx(1 / 32767)], [pytest.approx(2 / 255)]
    ]  # fmt: skip


@pytest.mark.parametrize("outputs", [[u8], [i16]])
def test_an_output_of_a_given_integer_dtype_needs_a_range(outputs: list[DType]) -> None:
    """Without ``output_types``, such an output of an operator that stays float is float (the test above)."""
    text = f"graph main(%x: f32[2] {ONE_TO_ONE}) -> %b {{ %b = {MINE.format('x')} }}"
    with pytest.raises(CirclekitError, match="%b: expected recorded min and max, got none"):
        quantized(text, Settings(LayerSetting(u8, CHANNEL), output_types=outputs))


@pytest.mark.parametrize("dtype", [u8, i16])
@pytest.mark.parametrize(
    ("line", "shape"), [("Concatenation(%a, %x) {axis: 0}", "4"), ("Pack(%a, %x) {values_count: 2}", "2,2")]
)
def test_operands_that_are_copied_get_the_scale_of_the_result(dtype: DType, line: str, shape: str) -> None:
    """Exception: operands of the uint8 CONCATENATION keep their scales, because its kernel converts them."""
    text = f"""graph main(%x: f32[2] {ONE_TO_ONE}) -> %y, %z {{
      %a = Relu(%x) : f32[2] quant(min: 0.0, max: 3.0)
      %z = Neg(%a) : f32[2] quant(min: -3.0, max: 0.0)
      %y = {line} : f32[{shape}] quant(min: -1.0, max: 4.0)
    }}"""
    model = quantized(text, Settings(LayerSetting(dtype, CHANNEL)))
    converts = dtype is i16 or line.startswith("Pack")
    (op,) = (op for op in model.main if op.code in ("CONCATENATION", "PACK"))
    (wanted, *found) = (v.quantization for v in (op.output, *op.inputs) if v is not None)
    assert wanted is not None
    assert [q is not None and q.scale.tolist() == wanted.scale.tolist() for q in found] == [converts] * 2
    assert kinds(model).count("QUANTIZE") == (2 if converts else 0)


def test_an_output_that_is_listed_twice_has_one_dtype() -> None:
    text = f"graph main(%x: f32[2] {ONE_TO_ONE}) -> %y, %y {{ %y = Neg(%x) : f32[2] {ONE_TO_ONE} }}"
    for types in ([i16, i16], [i16], None):
        model = quantized(text, Settings(LayerSetting(u8, CHANNEL), output_types=types))
        assert [v.dtype for v in model.main.outputs] == [(types or [u8])[0]] * 2
    with pytest.raises(CirclekitError, match="output %y is listed twice, expected one dtype, got u8 and i16"):
        quantized(text, Settings(LayerSetting(u8, CHANNEL), output_types=[u8, i16]))


def test_an_input_of_another_dtype_covers_its_range() -> None:
    text = f"graph main(%x: f32[2] {ONE_TO_ONE}) -> %y {{\n %y = Neg(%x) : f32[2] {ONE_TO_ONE}\n}}"
    model = quantized(text, Settings(LayerSetting(u8, LAYER), input_types=[i16]))
    assert kinds(model) == ["QUANTIZE", "NEG"]
    scales = [v.quantization.scale[0] for v in (model.main.inputs[0], model.main.ops[0].output)]  # type: ignore[union-attr]
    assert scales == pytest.approx([1 / 32767, 2 / 255])


@pytest.mark.parametrize(
    ("outputs", "more", "is_refused"),
    [("%p", "", False), ("%p, %q", "", True), ("%p, %r", f"%r = Neg(%q) : f32[1] {ONE_TO_ONE}", True)],
)
def test_only_unused_results_may_lack_a_range(outputs: str, more: str, is_refused: bool) -> None:
    text = f"""graph main(%x: f32[2] {ONE_TO_ONE}) -> {outputs} {{
      %p, %q = Split(0, %x) {{num_splits: 2}} : f32[1] {ONE_TO_ONE}, f32[1]
      {more}
    }}"""
    if is_refused:
        with pytest.raises(CirclekitError, match="%q: expected recorded min and max, got none"):
            quantized(text)
        return
    assert {v.dtype for v in quantized(text).main.ops[0].results} == {u8}


@pytest.mark.parametrize(
    ("line", "outputs", "more", "takes"),
    [
        ("Relu(%x)", "%y", "", True),
        ("Relu(%x)", "%y, %a", "", False),
        ("Relu(%x)", "%y, %n", "%n = Neg(%a) : f32[2] quant(min: -3.0, max: 0.0)", False),
        ("Concatenation(%h, %h) {axis: 0}", "%y", "", False),
    ],
)
def test_an_operand_takes_the_scale_of_the_concatenation_if_nothing_else_reads_it(
    line: str, outputs: str, more: str, takes: bool
) -> None:
    """A concatenation of concatenations keeps the scales of the inner ones."""
    model = quantized(
        f"""graph main(%x: f32[2] {ONE_TO_ONE}, %h: f32[1] {ONE_TO_ONE}) -> {outputs} {{
          %a = {line} : f32[2] quant(min: 0.0, max: 3.0)
          {more}
          %y = Concatenation(%a, %x) {{axis: 0}} : f32[4] quant(min: -1.0, max: 4.0)
        }}"""
    )
    assert (value_of(model, "a").quantization == value_of(model, "y").quantization) == takes
    assert value_of(model, "x").quantization != value_of(model, "y").quantization or not takes


@pytest.mark.parametrize("dtype", [u8, i16])
@pytest.mark.parametrize(
    ("line", "shape", "keeps"),
    [
        ("Reshape(%x, [2, 1])", "2,1", True),
        ("Gather(%x, [0, 1]) {axis: 0}", "2", True),
        ("Neg(%x)", "2", False),
        ("Relu(%x)", "2", False),
    ],
)
def test_what_moves_elements_keeps_their_scale(line: str, shape: str, keeps: bool, dtype: DType) -> None:
    form = "quant(min: -0.5, max: 3.0)"
    text = f"graph main(%x: f32[2] {ONE_TO_ONE}) -> %y {{\n %y = {line} : f32[{shape}] {form}\n}}"
    model = quantized(text, Settings(LayerSetting(dtype, CHANNEL), keeps_range=True))
    x, y = (value_of(model, name).quantization for name in "xy")
    assert x is not None
    assert y is not None
    assert (x.scale.tolist() == y.scale.tolist()) == keeps
    assert y.min is not None
    assert y.min.tolist() == [-0.5]
