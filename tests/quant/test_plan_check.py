# SPDX-License-Identifier: Apache-2.0
"""Forms and integers of a plan at the limits that a model and its operators set."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError, ModelError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import BY_SHORT, DType
from circlekit.quant.parameters import LARGEST_SCALE, SMALLEST_SCALE
from circlekit.quant.plan import Plan, TensorForm
from tests.quant.test_recurrent import lstm, records

Document = dict[str, Any]


BLOCKS = """
graph main(%x: f32[1,64]) -> %y {
  %w = const f32[64,64] gaussian(0, 0.3)
  %y = FullyConnected(%x, %w)
}
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block": 64}, "expected 64 scales, got 128"),
        ({"block": 1}, "expected 4096 scales, got 128"),
        ({"block": 48}, "expected a constant with elements, in rows of a multiple of 48"),
        ({"block": -32}, "expected a block of at least 1 element, got -32"),
        ({"scale": [0.5] * 127}, "expected 128 scales, got 127"),
    ],
)
def test_blocks_of_a_plan_divide_the_rows(change: Document, message: str) -> None:
    model = circlekit.parse(BLOCKS)
    document: Document = json.loads(circlekit.quantize(model, "weight_int4_block32").plan.to_json())
    circlekit.quantize(circlekit.parse(BLOCKS), plan=Plan.from_json(json.dumps(document)))
    document["graphs"][0]["operators"]["y"]["operands"]["1"].update(change)
    with pytest.raises(CirclekitError, match=message):
        circlekit.quantize(circlekit.parse(BLOCKS), plan=Plan.from_json(json.dumps(document)))


def test_an_error_names_the_graph_if_there_are_several() -> None:
    text = BLOCKS + BLOCKS.replace("main", "other")
    document: Document = json.loads(circlekit.quantize(circlekit.parse(text), "weight_int8").plan.to_json())
    document["graphs"][1]["operators"]["y"]["operands"]["1"]["scale"] = [0.5] * 3
    with pytest.raises(CirclekitError, match=r"expected 64 scales, got 3\n  at text > other$"):
        circlekit.quantize(circlekit.parse(text), plan=Plan.from_json(json.dumps(document)))


CHANGES_OF_A_FORM: list[tuple[dict[str, Any], str | None]] = [
    ({"zero_point": -128}, None),
    ({"zero_point": 127}, None),
    ({"zero_point": 128}, "expected zero points from -128 to 127, got 128"),
    ({"scale": SMALLEST_SCALE}, None),
    ({"scale": SMALLEST_SCALE / 2}, "expected scales from"),
    ({"scale": LARGEST_SCALE * 2}, "expected scales from"),
    ({"scale": [], "zero_point": []}, "expected 1 scale, got 0"),
    ({"zero_point": []}, "expected 1 zero point, got 0"),
    ({"axis": 7}, "LiteRT loads a tensor only with scales that fit its shape"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES_OF_A_FORM, ids=str)
def test_the_limits_of_forms(change: Document, message: str | None) -> None:
    """The form of %x may be changed up to the limits; beyond them the plan is refused (``message``)."""
    text = "graph main(%x: f32[2,3]) -> %y {\n  %y = Abs(%x)\n}"
    model = circlekit.parse(text)
    document: Document = json.loads(
        circlekit.quantize(model, "int8", [[np.ones((2, 3), np.float32)]], auto=False).plan.to_json()
    )
    document["graphs"][0]["tensors"]["x"].update(change)
    if "scale" in change and message is None:
        document["graphs"][0]["tensors"]["y"].update(change)
    plan = Plan.from_json(json.dumps(document))
    if message is None:
        after = circlekit.quantize(circlekit.parse(text), plan=plan).after
        assert after.op_count == 3  # QUANTIZE, ABS, DEQUANTIZE
        return
    with pytest.raises(CirclekitError, match=message):
        circlekit.quantize(circlekit.parse(text), plan=plan)


LAYER = """
graph main(%x: f32[1,64]) -> %y {
  %w = const f32[64,64] gaussian(0, 0.3)
  %b = const f32[64] gaussian(0, 0.3)
  %y = FullyConnected(%x, %w, %b)
}
"""


@pytest.mark.parametrize("dtype", ["str", "resource", "bool", "c64"])
def test_a_form_has_a_dtype_of_numbers(dtype: str) -> None:
    plan = circlekit.quantize(circlekit.parse(BLOCKS), "weight_int8").plan
    plan.main.tensors["x"] = replace(TensorForm(DType.INT8, (0.5,), (0,)), dtype=BY_SHORT[dtype])
    with pytest.raises(ModelError, match=f"%x: expected an integer or float dtype, got {dtype}"):
        circlekit.quantize(circlekit.parse(BLOCKS), plan=plan)


@pytest.mark.parametrize(
    ("scheme", "zero_point", "message"),
    [
        ("int8", 0, None),
        ("int8", 5, "expected zero points of 0 for weights, got 5"),
        ("dynamic_int8", 5, "expected zero points of 0 for weights, got 5"),
        ("weight_int8", 5, None),  # DEQUANTIZE subtracts the zero point
        ("uint8", 5, None),
    ],
)
def test_integer_kernels_need_weights_with_zero_points_of_0(
    scheme: str, zero_point: int, message: str | None
) -> None:
    """LiteRT's delegate refuses the model with other zero points, and its reference kernel ignores them."""
    given = [[np.linspace(-1, 1, 64, dtype=np.float32)[None]]] if scheme in ("int8", "uint8") else None
    plan = circlekit.quantize(circlekit.parse(LAYER), scheme, given, auto=False).plan
    weights = plan.main.operators["y"].operands[1]
    plan.main.operators["y"].operands[1] = replace(weights, zero_point=(zero_point,) * len(weights.scale))
    if message is None:
        circlekit.quantize(circlekit.parse(LAYER), plan=plan)
        return
    with pytest.raises(ModelError, match=message):
        circlekit.quantize(circlekit.parse(LAYER), plan=plan)


def test_a_constant_with_nan_is_named() -> None:
    given = [[np.linspace(-1, 1, 64, dtype=np.float32)[None]]]
    plan = circlekit.quantize(circlekit.parse(LAYER), "int8", given, auto=False).plan
    text = LAYER.replace("const f32[64] gaussian(0, 0.3)", f"const f32[64] [nan{', 0' * 63}]")
    with pytest.raises(ModelError, match=r"%y, operand 2 \(%b\): expected numbers to quantize, got NaN"):
        circlekit.quantize(circlekit.parse(text), plan=plan)


def test_a_layer_with_stored_integers_as_weights_is_refused() -> None:
    given = [[np.linspace(-1, 1, 64, dtype=np.float32)[None]]]
    plan = circlekit.quantize(circlekit.parse(LAYER), "int8", given, auto=False).plan
    del plan.main.operators["y"].operands[1]
    text = LAYER.replace("f32[64,64] gaussian(0, 0.3)", "i8[64,64] quant(scale: 0.1, zero_point: 0) zeros")
    message = "the bias %b: expected float32 data and weights of FULLY_CONNECTED %y"
    with pytest.raises(ModelError, match=message):
        circlekit.quantize(circlekit.parse(text), plan=plan)


@pytest.mark.parametrize("scheme", ["int8", "int8_per_tensor", "uint8"])
@pytest.mark.parametrize("seed", range(4))
def test_a_plan_with_the_largest_bias_can_be_applied_again(scheme: str, seed: int) -> None:
    """Such a bias needs larger scales of the weights, which are rounded to float32."""
    text = f"""
        graph main(%x: f32[1,4]) -> %y {{
          %w = const f32[2,4] gaussian(0, {1e-6 * 1.37**seed})
          %y = FullyConnected(%x, %w, [1e6, -12345.6])
        }}
    """
    model, again = circlekit.parse(text), circlekit.parse(text)
    samples = [[np.random.default_rng(seed).normal(size=(1, 4)).astype(np.float32)]]
    plan = circlekit.quantize(model, scheme, samples, auto=False).plan
    circlekit.quantize(again, plan=plan)
    np.testing.assert_array_equal(circlekit.run(again, samples[0])[0], circlekit.run(model, samples[0])[0])


def test_a_layer_whose_bias_needs_too_large_scales_stays_float() -> None:
    """The plan of such a layer was refused when it was applied again."""
    text = """
        graph main(%x: f32[1,2]) -> %y {
          %w = const f32[2,2] [1.0, 2.0, 3.0, 4.0]
          %y = FullyConnected(%x, %w, [1e30, 1e30]) {act: RELU6}
        }
    """
    model = circlekit.parse(text)
    report = circlekit.quantize(model, "int8", [[np.ones((1, 2), np.float32)]], auto=False)
    assert "too large for a scale" in report.plan.main.operators["y"].reason
    circlekit.quantize(circlekit.parse(text), plan=report.plan)


@pytest.mark.parametrize("factor", [1, 4])
def test_integers_of_a_bias_follow_the_scale_of_the_data(factor: int) -> None:
    """If the scale of %x becomes ``factor`` times as large, the real numbers of the bias stay the same."""
    text = BLOCKS.replace("%w)", "%w, %b)").replace("  %y", "  %b = const f32[64] uniform(-4, 4)\n  %y")
    given = [[np.linspace(-1, 1, 64, dtype=np.float32)[None]]]
    model = circlekit.parse(text)
    bias = model.main.ops[0].inputs[2]
    assert bias is not None
    numbers = bias.array()
    document: Document = json.loads(circlekit.quantize(model, "int8", given, auto=False).plan.to_json())
    graph = document["graphs"][0]
    scale = np.float32(graph["operators"]["y"]["operands"]["2"]["scale"])
    integers = np.rint(numbers / scale).astype(int)
    graph["constants"]["b"] = {"dtype": "int64", "shape": [64], "data": integers.tolist()}
    graph["tensors"]["x"]["scale"] *= factor
    other = circlekit.parse(text)
    circlekit.quantize(other, plan=Plan.from_json(json.dumps(document)))
    (layer,) = (op for op in other.main if op.code == "FULLY_CONNECTED")
    stored = layer.inputs[2]
    assert stored is not None
    assert stored.quantization is not None
    np.testing.assert_allclose(stored.quantization.scale, scale * factor, rtol=1e-6)
    np.testing.assert_allclose(stored.array() * scale * factor, numbers, atol=factor * scale.max())
    graph["tensors"]["x"]["scale"] = 1e-12
    plan = Plan.from_json(json.dumps(document))
    with pytest.raises(ModelError, match="the bias %b does not fit into i32: the scales of data and weights"):
        circlekit.quantize(circlekit.parse(text), plan=plan)
    assert plan.to_json() == Plan.from_json(json.dumps(document)).to_json()  # the plan is as before


@pytest.mark.parametrize(
    ("numbers", "is_allowed"),
    [([-127, 127], True), ([-128, 127], True), ([0, 128], False), ([0.5, 1.0], False), ([-129, 0], False)],
)
def test_integers_of_a_plan_fit_their_dtype(numbers: list[float], is_allowed: bool) -> None:
    plain = circlekit.quantize(circlekit.parse(BLOCKS), "dynamic_int8").plan
    document: Document = json.loads(plain.to_json())
    data = np.resize(numbers, 4096).tolist()
    dtype = "float32" if 0.5 in numbers else "int64"
    document["graphs"][0]["constants"]["w"] = {"dtype": dtype, "shape": [64, 64], "data": data}
    model, plan = circlekit.parse(BLOCKS), Plan.from_json(json.dumps(document))
    if is_allowed:
        circlekit.quantize(model, plan=plan)
        assert model.main.ops[0].inputs[1].array().reshape(-1).tolist() == data  # type: ignore[union-attr]
        return
    message = f"expected integers from -128 to 127 in the plan's constants, got {dtype} from {min(numbers)}"
    with pytest.raises(ModelError, match=message):
        circlekit.quantize(model, plan=plan)


@pytest.mark.parametrize("last_scheme", ["float", "dynamic_int8"])
def test_numbers_of_a_shared_float_bias_become_one_constant(last_scheme: str) -> None:
    """All layers whose weights are quantized read it.  A float layer still reads the bias of the model."""
    text = """
    graph main(%x: f32[1,32]) -> %a, %b, %c {
      %w = const f32[32,32] gaussian(0, 0.3)
      %bias = const f32[32] gaussian(0, 1)
      %a = FullyConnected(%x, %w, %bias)
      %b = FullyConnected(%a, %w, %bias)
      %c = FullyConnected(%b, %w, %bias)
    }
    """
    document: Document = json.loads(circlekit.quantize(circlekit.parse(text), "dynamic_int8").plan.to_json())
    graph, numbers = document["graphs"][0], np.arange(32.0).tolist()
    graph["constants"]["bias"] = {"dtype": "float32", "shape": [32], "data": numbers}
    if last_scheme == "float":
        graph["operators"]["c"].update(scheme="float", operands={})
    model = circlekit.parse(text)
    original = model.main.ops[0].inputs[2]
    assert original is not None
    circlekit.quantize(model, plan=Plan.from_json(json.dumps(document)))
    first, second, last = (op.inputs[2] for op in model.main)
    assert first is second
    assert first is not None
    assert last is (original if last_scheme == "float" else first)
    assert (first.dtype, first.array().tolist()) == (DType.FLOAT32, numbers)
    names = [value.name for value in model.main.values()]
    assert len({*names}) == len(names)
    assert first.name == ("bias_f32" if last_scheme == "float" else "bias")


def test_inner_tensors_of_a_plan_are_those_of_the_operator() -> None:
    model = lstm(("norm",))
    calibration = circlekit.calibrate(model, records(model, 2, 1))
    plan = circlekit.quantize(clone(model), calibration=calibration).plan
    (op,) = plan.main.operators.values()
    names = ", ".join(op.inner)
    for name, form in op.inner.items():
        op.inner[name] = replace(form, scale=())
        with pytest.raises(ModelError, match=f"inner tensor {name}: expected 1 scale, got 0"):
            circlekit.quantize(model, plan=plan)
        op.inner[name] = TensorForm(DType.FLOAT16)
        with pytest.raises(ModelError, match=f"inner tensor {name}: expected {form.dtype.short}, got f16"):
            circlekit.quantize(model, plan=plan)
        op.inner[name] = form
    op.inner.clear()
    with pytest.raises(ModelError, match=f"expected the inner tensors {names}, got none$"):
        circlekit.quantize(model, plan=plan)


def test_an_empty_constant_has_no_blocks() -> None:
    text = BLOCKS.replace("const f32[64,64]", "const f32[0,64]")
    document: Document = json.loads(
        circlekit.quantize(circlekit.parse(BLOCKS), "weight_int4_block32").plan.to_json()
    )
    document["graphs"][0]["operators"]["y"]["operands"]["1"].update(scale=[])
    with pytest.raises(
        ModelError, match=r"expected a constant with elements, in rows of a multiple of 32, got \[0,64\]"
    ):
        circlekit.quantize(circlekit.parse(text), plan=Plan.from_json(json.dumps(document)))


def test_a_plan_with_a_conversion_that_the_target_lacks_is_refused() -> None:
    """LiteRT has no QUANTIZE from int16 to uint8.  In the plan, ADD is changed from float to uint8."""
    text = """
    graph main(%x: f32[1,8]) -> %y {
      %t = Tanh(%x)
      %y = Add(%t, %t)
    }
    """
    model = circlekit.parse(text)
    data = [np.linspace(-2, 2, 8, dtype=np.float32)[None]]
    plan = circlekit.quantize(model, "uint8", [data], operators={"TANH": "int16x8"}, auto=False).plan
    document: Document = json.loads(plan.to_json())
    form = {"dtype": "u8", "scale": 0.01, "zero_point": 128, "reason": ""}
    document["graphs"][0]["tensors"]["y"] = form
    document["graphs"][0]["operators"]["y"] |= {"scheme": "uint8", "operands": {"0": form, "1": form}}
    with pytest.raises(ModelError, match="no QUANTIZE for i16q:u8q"):
        circlekit.quantize(circlekit.parse(text), plan=Plan.from_json(json.dumps(document)))
