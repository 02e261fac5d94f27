# SPDX-License-Identifier: Apache-2.0
"""ONE's quantizer beyond the recorded models: what ONE refuses or gets wrong, and bad input."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from circlekit.api.models import parse
from circlekit.errors import CirclekitError, ShapeError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8
from circlekit.ir.graph import Signature
from circlekit.ops.movement.pad import PadV2
from circlekit.quant.one.activations import LOWEST, _pads_with_lowest
from circlekit.quant.one.formulas import parameters
from circlekit.quant.one.settings import CHANNEL, LAYER, LayerSetting, Settings, read_layers
from circlekit.quant.one.with_minmax import quantize_with_minmax
from tests.quant.one.one_models import FC, ONE_TO_ONE, UINT8, kinds, on_floats, quantized, value_of

# -- formulas ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "dtype", "scale", "zero_point"),
    [
        (1.0, 2.55, u8, 0.01, 0),
        (-2.55, -1.0, u8, 0.01, 255),
        (-1.0, 1.55, u8, 0.01, 100),
        (0.0, 0.0, u8, 1e-5, 0),
        (-1e-9, 1e-9, u8, 1e-5, 0),
        (0.0, 1e-12, i16, 1e-8, 0),
        (-3.2767, 1.0, i16, 1e-4, 0),
        (0.0, 0.0, i8, 1e-5, 0),
    ],
)
def test_scales(low: float, high: float, dtype: DType, scale: float, zero_point: int) -> None:
    made = parameters(np.float32(low), np.float32(high), dtype)
    assert made.scale == pytest.approx(scale, rel=1e-6)
    assert made.zero_point == zero_point


# -- what ONE refuses or gets wrong ------------------------------------------------------------


@pytest.mark.parametrize("granularity", [CHANNEL, LAYER])
def test_a_bias_that_overflows_gets_larger_weight_scales(granularity: str) -> None:
    """The bias would be 1000 / (1/128 * 1e-5) = 1.3e10, above the largest i32, 2.1e9.

    1/128 is the scale of the operand, 1e-5 the smallest scale that ONE gives to weights.
    """
    text = FC.format(w=1e-6, b=1000.0, r=1001.0).replace("1.0, -1.0]", "1e-6, -1e-6]")
    model = quantized(text, Settings(LayerSetting(u8, granularity)))
    assert value_of(model, "w").quantization.scale[0] > 5e-5  # type: ignore[union-attr]
    bias = value_of(model, "b")
    assert bias.dtype is i32
    assert bias.data is not None
    assert bias.data[0] * float(bias.quantization.scale[0]) == pytest.approx(1000, rel=1e-6)  # type: ignore[union-attr]
    (y,) = on_floats(model, np.array([[1.0, 0.5]], np.float32))
    assert y[0, 0] == pytest.approx(1000, abs=5)


def test_per_channel_uint8_weights_of_fully_connected_have_their_own_zero_points() -> None:
    model = quantized(FC.format(w=0.25, b=0.5, r=4.0))
    zero_points = value_of(model, "w").quantization.zero_point  # type: ignore[union-attr]
    assert zero_points.tolist() == [0, 128]
    (y,) = on_floats(model, np.array([[1.0, 0.5]], np.float32))
    assert y == pytest.approx(np.array([[0.875, 1.0]]), abs=0.05)


def test_a_scalar_bias_is_quantized() -> None:
    text = FC.format(w=0.25, b=0.5, r=4.0)
    text = text.replace("[2,2] [0.25, 0.25, 1.0, -1.0]", "[1,2] [0.25, 1.0]")
    text = text.replace("const f32[2] [0.5, 0.5]", "const f32[] 0.5").replace(
        "f32[1,2] quant(min: -4", "f32[1,1] quant(min: -4"
    )
    model = quantized(text)
    assert value_of(model, "b").dtype is i32
    assert value_of(model, "b").shape == ()


@pytest.mark.parametrize(
    ("shape", "axis"),
    [("2", 0), ("1,2", 1), ("1,1,2", 2), ("2,1", None), ("1,2,1", None), ("1", None), ("3", None)],
)
@pytest.mark.parametrize("granularity", [CHANNEL, LAYER])
def test_shapes_of_biases(shape: str, axis: int | None, granularity: str) -> None:
    """If each channel has a scale, the channels are on the last axis."""
    text = FC.format(w=0.25, b=0.5, r=4.0).replace("f32[2] [0.5, 0.5]", f"f32[{shape}] gaussian(0, 1)")
    settings = Settings(LayerSetting(u8, granularity))
    if axis is None and (granularity == CHANNEL or "2" not in shape):  # LAYER takes any shape of 2 elements
        with pytest.raises(ShapeError, match="expected the shape" if granularity == CHANNEL else "bias of 2"):
            quantized(text, settings)
        return
    form = value_of(quantized(text, settings), "b").quantization
    assert form is not None
    assert form.scale.size == (2 if granularity == CHANNEL else 1)
    assert form.quantized_dimension == (axis if granularity == CHANNEL else 0)


def test_a_constant_with_uses_of_several_kinds_is_quantized_for_each() -> None:
    model = quantized(
        f"""graph main(%x: f32[1,2] {ONE_TO_ONE}) -> %s, %c {{
          %k = const f32[1,2] [0.5, -2.0]
          %s = Add(%x, %k) : f32[1,2] quant(min: -3.0, max: 1.5)
          %c = Concatenation(%s, %k) {{axis: 1}} : f32[1,4] quant(min: -4.0, max: 4.0)
        }}"""
    )
    scales = {op.code: float(op.inputs[1].quantization.scale[0]) for op in model.main}  # type: ignore[union-attr]
    assert scales == {"ADD": pytest.approx(2.5 / 255), "CONCATENATION": pytest.approx(8 / 255)}
    assert len({v.name for v in model.main.values()}) == len(list(model.main.values()))


@pytest.mark.parametrize(
    "line", ["HardSwish(%x)", "ExpandDims(%x, 0)", "SquaredDifference(%x, %x)", "Log(%x)"]
)
def test_mixed_precision_for_operators_that_one_refuses(line: str) -> None:
    shape = "[1,1,2]" if "Dims" in line else "[1,2]"
    text = f"graph main(%x: f32[1,2] {ONE_TO_ONE}) -> %y {{\n %y = {line} : f32{shape} {ONE_TO_ONE}\n}}"
    model = quantized(text, Settings(LayerSetting(u8, LAYER), [{"y": LayerSetting(i16, CHANNEL)}]))
    assert kinds(model)[0] == kinds(model)[-1] == "QUANTIZE"
    assert value_of(model, "y").dtype is i16
    assert [v.name for v in model.main.outputs] == ["y_Quantize"]


@pytest.mark.parametrize(("default", "other"), [(u8, i16), (i16, u8)])
def test_mixed_precision_computes_the_numbers(default: DType, other: DType) -> None:
    layers = [{"y": LayerSetting(other, CHANNEL)}]
    model = quantized(FC.format(w=0.25, b=0.5, r=4.0), Settings(LayerSetting(default, CHANNEL), layers))
    assert kinds(model) == ["QUANTIZE", "FULLY_CONNECTED", "QUANTIZE"]
    (y,) = on_floats(model, np.array([[1.0, 0.5]], np.float32))
    assert y == pytest.approx(np.array([[0.875, 1.0]]), abs=0.05)


def test_a_layer_with_a_computed_bias_stays_float() -> None:
    text = FC.format(w=0.25, b=0.5, r=4.0).replace("max: 1.0))", f"max: 1.0), %b: f32[2] {ONE_TO_ONE})")
    model = quantized(re.sub(r" +%b = .*\n", "", text))
    assert kinds(model) == ["DEQUANTIZE", "DEQUANTIZE", "FULLY_CONNECTED", "QUANTIZE"]


def test_constant_inputs_of_operators_that_one_refuses_are_quantized() -> None:
    text = f"""graph main(%x: f32[2] {ONE_TO_ONE}) -> %y {{
      %y = SquaredDifference(%x, [0.5, -0.25]) : f32[2] quant(min: 0.0, max: 2.25)
    }}"""
    (constant,) = (v for v in quantized(text).main.values() if v.is_const)
    assert constant.dtype is u8


CUSTOM = (
    "graph main(%x: f32[2] quant(min: -1.0, max: 1.0)) -> %y {\n"
    "  %a = Relu(%x) : f32[2] quant(min: 0.0, max: 1.0)\n"
    '  %c = Opaque(%a) {code: "CUSTOM", custom_code: "Mine"} : f32[2] quant(min: 0.0, max: 3.0)\n'
    "  %y = Relu(%c) : f32[2] quant(min: 0.0, max: 3.0)\n"
    "}"
)


def test_unknown_operators_stay_float_between_conversions() -> None:
    model = quantized(CUSTOM)
    assert kinds(model) == ["RELU", "DEQUANTIZE", "CUSTOM", "QUANTIZE", "RELU"]
    assert value_of(model, "c").dtype is f32


def test_the_result_of_a_cast_from_integers_stays_float() -> None:
    model = quantized(
        """graph main(%n: i32[3]) -> %y {
          %x = Cast(%n) {in_data_type: i32, out_data_type: f32} : f32[3] quant(min: 0.0, max: 51.0)
          %y = Relu(%x) : f32[3] quant(min: 0.0, max: 51.0)
        }"""
    )
    assert value_of(model, "x").dtype is f32
    (y,) = on_floats(model, np.array([0, 7, 50], np.int32))
    assert y == pytest.approx([0, 7, 50], abs=0.11)


def test_inputs_and_outputs_of_other_types() -> None:
    text = f"""graph main(%x: f32[2] {ONE_TO_ONE}, %n: i64[2]) -> %y, %m {{
      %y = Neg(%x) : f32[2] {ONE_TO_ONE}
      %m = Add(%n, %n) : i64[2]
    }}"""
    model = quantized(text, Settings(LayerSetting(u8, LAYER), input_types=[i16, i64], output_types=[f32]))
    assert [v.dtype for v in model.main.inputs] == [i16, i64]
    assert [v.dtype for v in model.main.outputs] == [f32, i64]
    assert kinds(model) == ["QUANTIZE", "NEG", "DEQUANTIZE", "ADD"]


def test_signatures_follow_renamed_outputs() -> None:
    model = parse(f"graph main(%x: f32[2] {ONE_TO_ONE}) -> %y {{\n %y = Neg(%x) : f32[2] {ONE_TO_ONE}\n}}")
    graph = model.main
    model.signatures = [Signature("serve", graph, {"x": graph.inputs[0]}, {"y": graph.outputs[0]})]
    quantize_with_minmax(model, Settings(LayerSetting(u8, LAYER), output_types=[f32]))
    assert model.signatures[0].outputs["y"] is graph.outputs[0]
    assert graph.outputs[0].name == "y_Dequantize"


def test_options_keep_the_scale_of_a_max_pool_and_the_recorded_range() -> None:
    text = f"""graph main(%x: f32[1,2,2,1] {ONE_TO_ONE}) -> %y {{
      %y = MaxPool2D(%x) {{filter_width: 2, filter_height: 2}} : f32[1,2,2,1] quant(min: -0.5, max: 0.5)
    }}"""
    plain = quantized(text)
    assert value_of(plain, "y").quantization.scale[0] == pytest.approx(1 / 255)  # type: ignore[union-attr]
    kept = quantized(text, Settings(LayerSetting(u8, LAYER), max_pool_keeps_scale=True, keeps_range=True))
    assert value_of(kept, "y").quantization.scale[0] == pytest.approx(2 / 255)  # type: ignore[union-attr]
    assert value_of(kept, "y").quantization.max.tolist() == [0.5]  # type: ignore[union-attr]


@pytest.mark.parametrize("lowest", ["-inf", "-3.4028235e38"])
def test_padding_for_max_pool_does_not_widen_the_range(lowest: str) -> None:
    model = quantized(
        f"""graph main(%x: f32[1,2,2,1] {ONE_TO_ONE}) -> %y {{
          %p = const i32[4,2] [0, 0, 1, 1, 1, 1, 0, 0]
          %v = const f32[1] [{lowest}]
          %y = PadV2(%x, %p, %v) : f32[1,4,4,1] quant(min: {lowest}, max: 1.0)
        }}"""
    )
    assert value_of(model, "y").quantization == value_of(model, "x").quantization
    assert value_of(model, "v").array().tolist() == [0]


def test_a_constant_padded_for_max_pool_gets_the_range_of_its_elements() -> None:
    model = quantized(
        f"""graph main(%x: f32[1,4] {ONE_TO_ONE}) -> %y {{
          %c = const f32[1,2] [0.5, 2.0]
          %p = const i32[2,2] [0, 0, 1, 1]
          %v = const f32 -inf
          %d = PadV2(%c, %p, %v)  : f32[1,4] quant(min: -3.4028235e38, max: 2.0)
          %y = Maximum(%d, %x)    : f32[1,4] quant(min: -1.0, max: 2.0)
        }}"""
    )
    assert value_of(model, "d").quantization.scale[0] == pytest.approx(2 / 255)  # type: ignore[union-attr]
    assert value_of(model, "c").array().tolist() == [[64, 255]]
    assert value_of(model, "v").array().tolist() == 0


@pytest.mark.parametrize("number", [-4.0, -3.4e38])
def test_padding_with_another_number_widens_the_range(number: float) -> None:
    model = quantized(
        f"""graph main(%x: f32[1,2,2,1] {ONE_TO_ONE}) -> %y {{
          %p = const i32[4,2] [0, 0, 1, 1, 1, 1, 0, 0]
          %v = const f32[1] [{number}]
          %y = PadV2(%x, %p, %v) : f32[1,4,4,1] quant(min: -4.0, max: 1.0)
        }}"""
    )
    for name in "xy":
        assert value_of(model, name).quantization.scale[0] == pytest.approx(5 / 255)  # type: ignore[union-attr]


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FC.format(w="nan", b=0.5, r=4.0), "%w: expected finite numbers"),
        (FC.format(w="inf", b=0.5, r=4.0), "%w: expected finite numbers, got NaN, infinity"),
        (FC.format(w=0.25, b="nan", r=4.0), "%b: expected finite numbers"),
        (FC.format(w=3.4028235e38, b=0.5, r=4.0), "the largest float"),
        (FC.format(w=0.25, b=0.5, r="inf"), "%y: expected a recorded range of finite numbers"),
        (FC.format(w=0.25, b=0.5, r=4.0).replace("min: -4.0", "min: 5.0"), "expected a recorded range"),
        (FC.format(w=0.25, b=0.5, r=4.0).replace(ONE_TO_ONE, ""), "%x: expected recorded min and max"),
    ],
)
def test_bad_numbers_end_in_a_sentence(text: str, message: str) -> None:
    model = parse(text)
    with pytest.raises(CirclekitError, match=re.escape(message)):
        quantize_with_minmax(model, UINT8)


def test_an_error_names_the_graph_if_there_are_several() -> None:
    good, bad = (FC.format(w=0.25, b=0.5, r=r) for r in (4.0, "inf"))
    model = parse(f"{good}\n{bad.replace('main', 'other')}")
    with pytest.raises(CirclekitError, match=r"%y: expected a recorded range .*\n  at text > other$"):
        quantize_with_minmax(model, UINT8)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ('[{"name": "z", "dtype": "uint8", "granularity": "layer"}]', "no operator produces the layer 'z'"),
        ('[{"name": "y", "dtype": "int8", "granularity": "layer"}]', "Unsupported output type 'int8'"),
        ('[{"name": "y", "dtype": "uint8", "granularity": "row"}]', "Unsupported granularity 'row'"),
        ('[{"name": "y", "dtype": "int16", "granularity": "layer"}]', "only supports uint8"),
        ('[{"names": ["y", "y"], "dtype": "uint8", "granularity": "layer"}]', "has the layer name 'y' twice"),
        ('[{"dtype": "uint8", "granularity": "layer"}]', "expected name or names"),
        ('{"name": "y"}', "expected a list of objects"),
        ("[", "Failed to decode"),
        (
            '[{"names": ["y"], "alternate": {"a": ["y"]}, "dtype": "uint8", "granularity": "layer"}]',
            "exactly one alternative of the configuration file",
        ),
    ],
)
def test_bad_configurations_end_in_a_sentence(tmp_path: Path, layers: str, message: str) -> None:
    path = tmp_path / "qconf.json"
    path.write_text(f'{{"layers": {layers}}}')
    model = parse(FC.format(w=0.25, b=0.5, r=4.0))
    with pytest.raises(CirclekitError, match=re.escape(message)):
        quantize_with_minmax(model, Settings(LayerSetting(u8, CHANNEL), read_layers(str(path))))


def test_an_alternate_name_that_fits_is_used(tmp_path: Path) -> None:
    path = tmp_path / "qconf.json"
    path.write_text(
        '{"layers": [{"name": "a", "alternate": {"tf": "y"}, "dtype": "int16", "granularity": "channel"}]}'
    )
    model = quantized(
        FC.format(w=0.25, b=0.5, r=4.0), Settings(LayerSetting(u8, LAYER), read_layers(str(path)))
    )
    assert value_of(model, "w").dtype is i16
    assert value_of(model, "b").dtype is i64


@pytest.mark.parametrize(
    ("number", "is_lowest"),
    [(LOWEST, True), (-np.inf, True), (np.nextafter(np.float32(LOWEST), np.float32(0)), False), (0, False)],
)
def test_only_the_lowest_float_or_less_is_padding_that_must_not_widen_a_range(
    number: float, is_lowest: bool
) -> None:
    op = parse("graph main(%x: f32[2]) -> %y { %y = PadV2(%x, [[1, 1]], 0.0) }").main.ops[0]
    assert isinstance(op, PadV2)
    op.constant_values.data = np.array(number, np.float32)
    assert _pads_with_lowest(op) == is_lowest
    op.constant_values.data = np.zeros(0, np.float32)
    assert not _pads_with_lowest(op)
