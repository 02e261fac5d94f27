# SPDX-License-Identifier: Apache-2.0
"""Constants with and without ONNX's DequantizeLinear: which forms are taken, and their names."""

from __future__ import annotations

import re

import pytest

from circlekit.api.models import parse
from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import f32, i16
from circlekit.ir.graph import Model
from circlekit.quant.one.onnx_quantized import quantize_onnx_model
from tests.quant.one.test_onnx_quantized import CODE, onnx_pair

DEQUANTIZE = CODE.replace("$", "Dequantize")


def model_with_weights(integers: str, scale: str, zero_point: str, more: str = "") -> Model:
    """Return a model of one layer, whose weights are dequantized from ``integers``."""
    pair = onnx_pair("x", "a", "i16", "0.5", shape="1,2")
    last = onnx_pair("p", "y", "i16", "0.5", shape="1,2")
    return parse(f"""graph main(%x: f32[1,2]) -> %y {{{pair}
      %wi = const {integers}
      %ws = const {scale}
      %wz = const {zero_point}
      %w = Opaque(%wi, %ws, %wz) {DEQUANTIZE} : f32[2,2]
      {more or "%p = FullyConnected(%a, %w) : f32[1,2]"}{last}
    }}""")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (("i8[2,2] [1, 2, 3, 4]", "f32[3] [1.0, 2.0, 3.0]", "i8[3] [0, 0, 0]"), "3 scales, axis 0 has 2"),
        (("u8[2,2] [1, 2, 3, 4]", "f32[0] []", "u8[0] []"), "%w: expected as many float32 scales"),
        (("f32[2,2] [1, 2, 3, 4]", "f32[] 0.5", "u8[] 0"), "the dtype of the zero point, u8, got f32"),
        (("f32[2,2] [1, 2, 3, 4]", "f32[] 0.5", "f32[] 0"), "integers with the dtype of the zero point, f32"),
        (("i8[2,2] [1, 2, 3, 4]", "f32[] 0.5", "u8[] 200"), "the dtype of the zero point, u8, got i8"),
        (("i8[2,2] [1, 2, 3, 4]", "f32[2] [1.0, 2.0]", "i8[2] [0, 0]"), ""),
    ],
)
def test_constants_that_do_not_fit_their_parameters(form: tuple[str, str, str], message: str) -> None:
    model = model_with_weights(*form)
    if message:
        with pytest.raises(UnsupportedError, match=re.escape(message)):
            quantize_onnx_model(model)
    else:
        quantize_onnx_model(model)


def test_a_constant_that_is_dequantized_twice_becomes_two_constants_of_different_names() -> None:
    more = f"""%v = Opaque(%wi, 2.0, %vz) {DEQUANTIZE} : f32[2,2]
      %q = FullyConnected(%a, %w) : f32[1,2]{onnx_pair("q", "b", "i16", "0.5", shape="1,2")}
      %p = FullyConnected(%b, %v) : f32[1,2]"""
    model = model_with_weights("i8[2,2] [1, 2, 3, 4]", "f32[] 0.5", "i8[] 0\n%vz = const i8[] 1", more)
    quantize_onnx_model(model)
    names = [value.name for value in model.main.values()]
    assert sorted(names) == ["p", "q", "wi", "wi_1", "x"]
    weights = [value for value in model.main.values() if value.is_const]
    assert [float(v.quantization.scale[0]) for v in weights if v.quantization is not None] == [0.5, 2.0]


@pytest.mark.parametrize(
    ("line", "data", "weights"),
    [
        ("FullyConnected(%a, %k)", "4,2", "3,2"),
        ("Conv2D(%a, %k)", "1,2,2,2", "3,1,1,2"),
        ("DepthwiseConv2D(%a, %k)", "1,2,2,2", "1,1,1,2"),
        ("TransposeConv([1,2,2,3], %k, %a)", "1,2,2,2", "3,1,1,2"),
        ("PRelu(%a, %k)", "1,2,2,2", "2"),
        ("InstanceNorm(%a, %k, %k)", "1,2,2,2", "2"),
        ("RmsNorm(%a, %k)", "1,2,2,2", "2"),
    ],
)
@pytest.mark.parametrize("dtype", ["i16", "u8", "i8"])
def test_float_weights_are_refused_only_if_the_data_are_quantized(
    line: str, data: str, weights: str, dtype: str
) -> None:
    def model(operand: str) -> Model:
        """Return a model in which ``operand``, x or its quantized copy a, is multiplied by float weights."""
        return parse(f"""graph main(%x: f32[{data}], %q: f32[{data}]) -> %y, %a {{
          {onnx_pair("q", "a", dtype, "0.5", shape=data)}
          %k = const f32[{weights}] uniform(0, 1)
          %y = {line.replace("%a", operand)}
        }}""")

    expected = f"%k: expected integers with ONNXDequantizeLinear beside the {dtype} %q, got f32"
    with pytest.raises(ModelError, match=re.escape(expected)):
        quantize_onnx_model(model("%a"))
    is_float = model("%x")
    quantize_onnx_model(is_float)
    assert all(v is None or v.quantization is None for v in is_float.main.ops[-1].inputs)


def test_constants_of_operators_that_stay_float_stay_float() -> None:
    """A custom operator and an ADD read the same constant."""
    model = parse(f"""graph main(%x: f32[2], %u: f32[2]) -> %y, %f {{
      %k = const f32[2] [1.0, 2.0]{onnx_pair("x", "a", "i16", "0.5")}
      %p = Add(%a, %k) : f32[2]{onnx_pair("p", "y", "i16", "0.5")}
      %f = Opaque(%u, %k) {{code: "CUSTOM", custom_code: "Other"}} : f32[2]
    }}""")
    quantize_onnx_model(model)
    add, other = model.main
    assert [value.dtype for value in add.inputs if value is not None] == [i16, i16]
    assert [value.dtype for value in other.inputs if value is not None] == [f32, f32]
    assert other.inputs[1] is not None
    assert other.inputs[1].array().tolist() == [1.0, 2.0]
