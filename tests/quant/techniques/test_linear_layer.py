# SPDX-License-Identifier: Apache-2.0
"""Layers as matrix products: their rows, their matrices, and whether their channels can be scaled."""

from __future__ import annotations

import re

import numpy as np
import pytest

import circlekit as ck
from circlekit.quant.techniques.linear_layer import linear_layer


def test_layers_are_products_of_rows_and_matrices() -> None:
    model = ck.parse(
        """
        graph main(%x: f32[1,5,5,4]) -> %a, %b, %c {
          %w1 = const f32[6,3,3,2] gaussian(0, 1)
          %b1 = const f32[6] gaussian(0, 1)
          %a = Conv2D(%x, %w1, %b1) {stride_h: 2}
          %w2 = const f32[1,2,3,8] gaussian(0, 1)
          %b2 = const f32[8] gaussian(0, 1)
          %b = DepthwiseConv2D(%x, %w2, %b2) {padding: VALID, depth_multiplier: 2}
          %w3 = const f32[3,3,2,4] gaussian(0, 1)
          %c = TransposeConv([1, 10, 5, 3], %w3, %x) {stride_h: 2}
        }
        """
    )
    data = np.random.default_rng(0).normal(0, 1, (1, 5, 5, 4)).astype(np.float32)
    for op, expected in zip(model.main, ck.run(model, [data]), strict=True):
        layer = linear_layer(op)
        assert layer is not None
        matrices = layer.matrices(layer.weights.array())
        rows = layer.rows(data, expected.shape)
        products = rows @ matrices.swapaxes(1, 2)
        np.testing.assert_allclose(layer.mean_row(data, expected.shape), rows.mean(axis=1), atol=1e-5)
        bias = 0 if layer.bias is None else layer.bias.array()
        actual = products.transpose(1, 0, 2).reshape(expected.shape) + bias
        np.testing.assert_allclose(actual, expected, atol=1e-4)
        np.testing.assert_array_equal(layer.from_matrices(matrices), layer.weights.array())


@pytest.mark.parametrize(
    ("layer", "is_scalable"),
    [
        ("Conv2D(%x, %w: f32[4,1,1,4])", True),
        ("Conv2D(%x, %w: f32[4,1,1,2])", True),
        ("Conv2D(%x, %w: f32[4,3,3,1])", True),
        ("DepthwiseConv2D(%x, %w: f32[1,3,3,4])", True),
        ("FullyConnected(%x, %w: f32[5,8])", True),
        ("FullyConnected(%x, %w: f32[5,6])", False),
        ("FullyConnected(%x, %w: f32[5,2])", False),
    ],
)
def test_channels_are_scalable_if_each_has_weights_of_its_own(layer: str, is_scalable: bool) -> None:
    call, kind = re.fullmatch(r"(.*%w): (.*)\)", layer).groups()  # type: ignore[union-attr]
    text = f"graph main(%x: f32[1,3,4,4]) -> %y {{ %w = const {kind} gaussian(0, 1)\n %y = {call}) }}"
    found = linear_layer(ck.parse(text).main.ops[0])
    assert found is not None
    assert found.is_scalable == is_scalable


@pytest.mark.parametrize("shape", ["[1,3,4,?]", "[*]"])
def test_a_layer_of_unknown_channels_is_left_out(shape: str) -> None:
    text = (
        f"graph main(%x: f32{shape}) -> %y {{ %w = const f32[4,1,1,4] gaussian(0, 1)\n %y = Conv2D(%x, %w) }}"
    )
    assert linear_layer(ck.parse(text).main.ops[0]) is None


@pytest.mark.parametrize(("dtype", "is_layer"), [("f32", True), ("f64", False), ("f16", False)])
def test_only_float32_makes_a_layer(dtype: str, is_layer: bool) -> None:
    weights = f"%w = const {dtype}[4,4] gaussian(0, 1)"
    model = ck.parse(f"graph main(%x: {dtype}[1,4]) -> %y {{ {weights}\n %y = FullyConnected(%x, %w) }}")
    assert (linear_layer(model.main.ops[0]) is not None) == is_layer
