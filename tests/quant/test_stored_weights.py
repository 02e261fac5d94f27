# SPDX-License-Identifier: Apache-2.0
"""Quantize layers whose weights are integers already, as in models with dynamic ranges."""

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
