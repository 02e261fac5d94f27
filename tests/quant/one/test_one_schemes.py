# SPDX-License-Identifier: Apache-2.0
"""circlekit.quantize with ONE's schemes: parameters with reasons, other schemes for single operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import f32, i16, u8
from circlekit.ir.graph import Model
from circlekit.quant.one.quantize_as_one import kernel_notes
from circlekit.quant.operator_selection import schemes_of
from circlekit.quant.quantization_report import QuantizationReport

TEXT = """graph main(%x: f32[1,2]) -> %y {
  %w = const f32[2,2] [0.25, 0.25, 1.0, -1.0]
  %b = const f32[2] [0.5, 0.25]
  %m = FullyConnected(%x, %w, %b)  : f32[1,2]
  %y = Logistic(%m)                : f32[1,2]
}"""
SAMPLES = [[np.array([[-1.0, 0.5]], np.float32)], [np.array([[1.0, -1.0]], np.float32)]]


def quantized(scheme: str, **options: Any) -> tuple[Model, QuantizationReport]:
    model = circlekit.parse(TEXT)
    return model, circlekit.quantize(model, scheme, SAMPLES, passes=[], **options)


@pytest.mark.parametrize(
    ("scheme", "dtype", "channels"),
    [("one_uint8", u8, 1), ("one_uint8_channel", u8, 2), ("one_int16", i16, 2)],
)
def test_schemes(scheme: str, dtype: object, channels: int) -> None:
    model, report = quantized(scheme)
    values = {v.name: v for v in model.main.values()}
    assert {values[name].dtype for name in ("m", "y", "w")} == {dtype}
    form = values["w"].quantization
    assert form is not None
    assert form.scale.size == channels
    assert {v.dtype for v in (*model.main.inputs, *model.main.outputs)} == {f32}
    assert all(tensor.reason for tensor in report.plan.main.tensors.values())
    assert report.plan.main.tensors["y"].reason == "the fixed scale of LOGISTIC"
    assert report.plan.main.tensors["b"].reason == "scale of the input times that of %w"
    assert report.plan.main.operators["m"].scheme == scheme


def test_the_reason_for_an_integer_scale_holds_for_fractions() -> None:
    """The results of FLOOR_MOD need not be whole numbers, but ONE gives them an integer scale, too."""
    model = circlekit.parse("graph main(%x: f32[1,2]) -> %y { %y = FloorMod(%x, 0.75) : f32[1,2] }")
    report = circlekit.quantize(model, "one_uint8", SAMPLES, passes=[])
    reason = report.plan.main.tensors["y"].reason
    assert reason.endswith("; ONE rounds the scale of FLOOR_MOD to an integer of at least 1")


def test_operators_with_other_schemes() -> None:
    model, report = quantized("one_uint8", operators={"m": "one_int16"}, inputs="integer", outputs="integer")
    assert [op.code for op in model.main] == ["QUANTIZE", "FULLY_CONNECTED", "QUANTIZE", "LOGISTIC"]
    model, report = quantized("one_uint8", operators={"y": "float"})
    assert [op.code for op in model.main] == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE", "LOGISTIC"]
    assert report.plan.main.operators["y"].is_float
    with pytest.raises(UnsupportedError, match="int8 cannot be mixed with one_uint8"):
        quantized("one_uint8", operators={"y": "int8"})
    with pytest.raises(UnsupportedError, match="one_uint8 cannot be mixed with int8"):
        schemes_of(circlekit.parse(TEXT), "float", {"m": "int8", "y": "one_uint8"}, None)


def test_called_graphs_stay_as_they_are() -> None:
    """The ranges of the calibration, which exist for called graphs, too, are not stored in them."""
    text = """
        graph main(%x: f32[1,2], %flag: bool[]) -> %y {
          %i = If(%flag, %x) {then_graph: @then, else_graph: @else} : f32[1,2]
          %y = Relu(%i)                                             : f32[1,2]
        }

        graph then(%a: f32[1,2]) -> %r {
          %r = Logistic(%a) : f32[1,2]
        }

        graph else(%a: f32[1,2]) -> %r {
          %r = Tanh(%a) : f32[1,2]
        }"""
    model = circlekit.parse(text)
    given = [[*sample, np.array(index == 0)] for index, sample in enumerate(SAMPLES)]
    circlekit.quantize(model, "one_uint8", given, passes=[], outputs="integer")
    called = [value for graph in model.graphs[1:] for value in graph.values()]
    assert [(value.dtype, value.quantization) for value in called] == [(f32, None)] * len(called)
    assert model.main.outputs[0].dtype is u8


@pytest.mark.parametrize(
    ("divisor", "is_reported"),
    [
        ("i8[2] quant(scale: 0.5, zero_point: 3) [3, 1]", True),
        ("i8[2] quant(scale: 0.5, zero_point: 3) [1, 3]", True),
        ("i8[2] quant(scale: 0.5, zero_point: 3) [0, 1]", False),
        ("i8[2] quant(scale: 0.5) [1, 2]", False),
        ("i8[2] quant(scale: 0.5) [1, 0]", True),
        ("i8[2] [1, 0]", False),
        ("i8[2] quant(min: 0.0, max: 1.0) [1, 0]", False),
        ("f32[2] quant(scale: 0.5) [1, 0]", False),
    ],
)
def test_a_divisor_that_may_be_0_is_reported(divisor: str, is_reported: bool) -> None:
    form = "i8[2] quant(scale: 0.5, zero_point: 3)"
    kind = divisor.partition("[")[0]
    line = f"%y = Div(%x, %c) : {kind}[2]"
    model = circlekit.parse(f"graph main(%x: {kind}[2]) -> %y {{\n  %c = const {divisor}\n  {line}\n}}")
    note = "%y: DIV fails where its divisor rounds to 0"
    assert (note in kernel_notes(model)) == is_reported
    computed = circlekit.parse(f"graph main(%x: {form}, %z: {form}) -> %y {{ %y = Div(%x, %z) : {form} }}")
    assert note in kernel_notes(computed)


def test_equal_notes_about_kernels_count_their_operators() -> None:
    form = "i8[2] quant(scale: 0.5)"
    for count, more in ((1, ""), (2, " and 1 more"), (3, " and 2 more")):
        names = [f"y{index}" for index in range(count)]
        lines = "\n".join(f"%{name} = Div(%x, %x) : {form}" for name in names)
        outputs = ", ".join(f"%{name}" for name in names)
        model = circlekit.parse(f"graph main(%x: {form}) -> {outputs} {{ {lines} }}")
        assert f"%y0{more}: DIV fails where its divisor rounds to 0" in kernel_notes(model)


def quantized_text(text: str, **options: Any) -> Model:
    """Return the model ``text``, quantized with ``options`` on inputs from -1 to 1."""
    model = circlekit.parse(text)
    shapes = [value.static_shape for value in model.main.inputs]
    sample = [np.linspace(-1, 1, int(np.prod(s)), dtype=np.float32).reshape(s) for s in shapes]
    circlekit.quantize(model, "one_uint8", [sample], passes=[], **options)
    return model


@pytest.mark.parametrize(
    ("code", "scales"),
    [("Logistic", [1 / 256, 1 / 32768]), ("Floor", [1.0, 1.0]), ("Tanh", [2 / 256, 1 / 32768])],
)
def test_a_conversion_to_another_dtype_has_the_fixed_scale_of_that_dtype(
    code: str, scales: list[float]
) -> None:
    """The result of LOGISTIC has the scale 1/256 in uint8; its conversion to int16 gets the scale 1/32768."""
    text = f"graph main(%x: f32[4]) -> %y {{ %s = {code}(%x)\n %t = Mul(%s, %s)\n %y = Abs(%t) }}"
    model = quantized_text(text, operators={"t": "one_int16"})
    found = {value.name: value for value in model.main.values()}
    forms = [found[name].quantization for name in ("s", "s_Quantize")]
    assert [found[name].dtype for name in ("s", "s_Quantize")] == [u8, i16]
    assert [form.scale.tolist() for form in forms if form] == [[scale] for scale in scales]


@pytest.mark.parametrize("io", ["float", "integer"])
def test_inputs_that_no_operator_reads_are_not_converted(io: str) -> None:
    text = "graph main(%x: f32[4], %unused: f32[2], %passed: f32[3]) -> %y, %passed { %y = Tanh(%x) }"
    model = quantized_text(text, inputs=io, outputs=io)
    assert [op.code for op in model.main] == {
        "float": ["QUANTIZE", "TANH", "DEQUANTIZE"], "integer": ["TANH"]
    }[io]  # fmt: skip
    assert {v.dtype for v in (*model.main.inputs, *model.main.outputs)} == {f32 if io == "float" else u8}
    assert model.main.outputs[1] is model.main.inputs[2]


def test_a_constant_that_is_an_output_keeps_its_name_and_its_floats() -> None:
    """The quantized copies of the constant, one in each dtype, get names of their own."""
    lines = "%w = const f32[2] [1.0, 2.0]\n %y = Mul(%x, %w)\n %z = Add(%x, %w)"
    model = quantized_text(
        f"graph main(%x: f32[2]) -> %y, %z, %w {{ {lines} }}", operators={"z": "one_int16"}
    )
    names = [value.name for value in model.main.values()]
    assert len(set(names)) == len(names)
    assert {f"w_{index}" for index in (1, 2)} <= set(names)
    kept = model.main.outputs[2]
    assert (kept.name, kept.dtype, kept.array().tolist()) == ("w", f32, [1.0, 2.0])
    # where %w is not an output, one of the two copies keeps the name
    internal = quantized_text(f"graph main(%x: f32[2]) -> %y, %z {{ {lines} }}", operators={"z": "one_int16"})
    assert {"w", "w_1"} <= {value.name for value in internal.main.values()}
