# SPDX-License-Identifier: Apache-2.0
"""The largest bias that a planned layer can store."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.ir.dtypes import DType, i8, i32, i64
from circlekit.quant.plan import GraphPlan, OperatorPlan, TensorForm
from circlekit.quant.techniques.layer_rounding import LayerFit
from circlekit.quant.techniques.linear_layer import linear_layer
from circlekit.quant.techniques.planned_layer import PlannedLayer
from circlekit.quant.weights import LARGEST_BIAS

NET = """
graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[8,3,3,3] gaussian(0, 0.3)
  %b = const f32[8] gaussian(0, 0.1)
  %y = Conv2D(%x, %w, %b)
}
"""


@pytest.mark.parametrize("dtype", [i32, i64])
@pytest.mark.parametrize(("steps", "fits"), [(-1, True), (0, False), (1, False)])
def test_biases_stay_below_the_limit_of_their_dtype(steps: int, fits: bool, dtype: DType) -> None:
    """The scale of the bias is 0.5 * 0.25 = 0.125: the scale of the data times that of the weights."""
    layer = linear_layer(circlekit.parse(NET).main.ops[0])
    assert layer is not None
    weights = TensorForm(i8, (0.25,) * 8, (0,) * 8)
    forms = {0: TensorForm(i8, (0.5,), (0,)), 1: weights, 2: TensorForm(dtype, (0.125,) * 8, (0,) * 8)}
    operator = OperatorPlan("CONV_2D", "int8", operands=forms)
    planned = PlannedLayer(layer, operator, GraphPlan(), weights)
    for sign in (-1, 1):
        bias = np.zeros((1, 8))
        bias[0, 5] = sign * (LARGEST_BIAS[dtype] + steps) * 0.125
        fit = LayerFit(np.zeros((1, 8, 27)), np.full((1, 8, 27), 0.25), bias)
        assert planned.bias_fits(fit) is fits
