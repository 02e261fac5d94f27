# SPDX-License-Identifier: Apache-2.0
"""Quantize models whose weights or tensors are integers in part, as TensorFlow's converter writes them."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from tests.quant.layer import check, samples


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
@pytest.mark.parametrize("code", ["FullyConnected", "Conv2D"])
@pytest.mark.parametrize(("largest_bias", "is_integer"), [(0.1, True), (1e8, False)])
def test_layers_with_dynamic_ranges_keep_their_weights(
    scheme: str, code: str, largest_bias: float, is_integer: bool
) -> None:
    shape = {"FullyConnected": "4,8", "Conv2D": "4,1,1,8"}[code]
    scales = "scale: [0.02, 0.003, 0.1, 0.005], zero_point: [0, 0, 0, 0]"
    model = circlekit.parse(f"""
    graph main(%x: f32[1,1,1,8]) -> %y {{
      %w = const i8[{shape}] quant({scales}) uniform(-127, 127)
      %b = const f32[4] uniform(0, {largest_bias})
      %y = {code}(%x, %w, %b)
    }}
    """)
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    given = [[x.reshape(1, 1, 1, 8)] for (x,) in samples()]
    report = check(model, scheme, given, tolerance=0.04)
    assert bool(report.floats) is not is_integer
    layer = next(op for op in model.main if op.code not in ("QUANTIZE", "DEQUANTIZE"))
    kept = layer.inputs[1]
    assert kept is not None
    np.testing.assert_array_equal(kept.array(), weights.array())
    assert kept.quantization is not None
    assert weights.quantization is not None
    np.testing.assert_array_equal(kept.quantization.scale, weights.quantization.scale)


LAYER_NORM = """
graph main(%x: f32[1,2,4]) -> %y {
  %q = Quantize(%x)                           : i8[1,2,4] quant(scale: 0.02, zero_point: 3)
  %m = Mean(%q, [-1]) {keep_dims: true}       : i8[1,2,1] quant(scale: 0.01, zero_point: -4)
  %d = Dequantize(%m)                         : f32[1,2,1]
  %n = Neg(%d)                                : f32[1,2,1]
  %r = Quantize(%n)                           : i8[1,2,1] quant(scale: 0.01, zero_point: 3)
  %s = Add(%q, %r)                            : i8[1,2,4] quant(scale: 0.03, zero_point: 1)
  %y = Dequantize(%s)
}
"""
"""The first operators of a LayerNormalization as TensorFlow quantizes it."""


@pytest.mark.parametrize(("scheme", "conversions"), [("int8", 1), ("dynamic_int8", 2)])
def test_no_conversions_remain_around_operators_that_become_integers(scheme: str, conversions: int) -> None:
    given = [[x.reshape(1, 2, 4)] for (x,) in samples(0.5)]
    report = check(circlekit.parse(LAYER_NORM), scheme, given, tolerance=0.03)
    assert [report.after.ops[code] for code in ("QUANTIZE", "DEQUANTIZE")] == [conversions, conversions]


def test_a_tensor_that_is_quantized_only_for_integer_operators_needs_no_samples() -> None:
    model = circlekit.parse(LAYER_NORM)
    report = circlekit.quantize(model, "int8", inputs="integer", outputs="integer")
    assert not report.floats
    assert not {"QUANTIZE", "DEQUANTIZE"} & set(report.after.ops)
    found = [value.quantization for value in (*model.main.inputs, *model.main.outputs)]
    assert [(q.scale[0], q.zero_point[0]) for q in found if q is not None] == [
        (np.float32(0.02), 3),
        (np.float32(0.03), 1),
    ]


def test_only_inputs_and_outputs_become_integers_if_all_operators_are() -> None:
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %y {
      %q = Quantize(%x)       : i8[1,8] quant(scale: 0.5, zero_point: 3)
      %s = Softmax(%q)        : i8[1,8] quant(scale: 0.00390625, zero_point: -128)
      %y = Dequantize(%s)
    }
    """)
    report = circlekit.quantize(model, "int8", inputs="integer", outputs="integer")
    assert report.after.ops == {"SOFTMAX": 1}
    assert not report.notes
