# SPDX-License-Identifier: Apache-2.0
"""A net with channels of uneven ranges, and samples for it."""

from __future__ import annotations

import numpy as np

import circlekit as ck
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.techniques.linear_layer import linear_layer

NET = """
graph main(%x: f32[1,6,6,3]) -> %y {
  %w1 = const f32[8,3,3,3] gaussian(0, 0.3)
  %b1 = const f32[8] gaussian(0, 0.1)
  %a = Conv2D(%x, %w1, %b1) {act: RELU}
  %w2 = const f32[1,3,3,8] gaussian(0, 0.3)
  %b2 = const f32[8] gaussian(0, 0.1)
  %d = DepthwiseConv2D(%a, %w2, %b2)
  %alpha = const f32[1,1,8] gaussian(0.2, 0.1)
  %p = PRelu(%d, %alpha)
  %s = Add(%p, %a)
  %c = Pad(%s, [[0, 0], [0, 0], [0, 0], [0, 2]])
  %m = MaxPool2D(%c) {padding: VALID, stride_h: 2, stride_w: 2, filter_height: 2, filter_width: 2}
  %r = Reshape(%m, [1, 90])
  %w3 = const f32[4,90] gaussian(0, 0.2)
  %b3 = const f32[4] gaussian(0, 0.2)
  %y = FullyConnected(%r, %w3, %b3)
}
"""


def samples(count: int, seed: int = 0) -> list[list[Array]]:
    rng = np.random.default_rng(seed)
    return [[rng.normal(0, 1, (1, 6, 6, 3)).astype(np.float32)] for _ in range(count)]


def uneven() -> Model:
    """Return the net; weights and biases of its first convolution are scaled by 1 to 1/128, per channel."""
    model = ck.parse(NET)
    layer = linear_layer(model.main.ops[0])
    assert layer is not None
    assert layer.bias is not None
    factors = 2.0 ** -np.arange(8)
    layer.weights.data = np.asarray(layer.weights.array() * factors.reshape(8, 1, 1, 1), np.float32)
    layer.bias.data = np.asarray(layer.bias.array() * factors, np.float32)
    return model
