# SPDX-License-Identifier: Apache-2.0
"""Constants that ONNX's DequantizeLinear reads: which forms are taken, and their names."""

from __future__ import annotations

import re

import pytest

from circlekit.api.models import parse
from circlekit.errors import UnsupportedError
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
