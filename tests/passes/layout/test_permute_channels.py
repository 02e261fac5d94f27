# SPDX-License-Identifier: Apache-2.0
"""Orders of channels that a layer can absorb.

The map that is left, applied to the channels in the new order, gives the same elements as the whole map.  The
expected elements are computed by numpy.  See permute_channels.py for orders and digits.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from circlekit.index_maps.index_map import IndexMap
from circlekit.interp import Interpreter
from circlekit.ir.graph import Graph
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value
from circlekit.ops.numerics.output_stage import Kernels, following
from circlekit.passes.layout.merge_data_movement import MergeDataMovement
from circlekit.passes.layout.permute_channels import (
    MAX_DIGITS,
    has_weights_alone,
    orders_of_producer,
    orders_of_user,
    weights_of,
)
from circlekit.rewrite.base import Context

BASE = """
graph main(%x: f32[2,3,3,4], %o: f32[2,3,3,4]) -> %y {
  %f = const f32[8,1,1,4] gaussian(0, 1)
  %b = const f32[8] gaussian(0, 1)
  %g = const f32[4,1,1,8] gaussian(0, 1)
  %a = Conv2D(%x, %f, %b)
  %c = Reshape(%a, [2,3,3,8])
  %y = Conv2D(%c, %g, none)
}
"""


def graph_of(text: str) -> tuple[Graph, Value, Value]:
    """Return the graph and the values between its layers."""
    main = parse_model(text).main
    values = {value.name: value for value in main.values()}
    return main, values["a"], values["c"]


SHUFFLED = [(2, 3, 3, 2, 4), (2, 3, 3, 4, 2), (2, 3, 3, 2, 2, 2), (2, 9, 8), (2, 3, 3, 8)]


@pytest.mark.parametrize("shape", SHUFFLED)
def test_the_order_of_channels_and_the_remaining_map_copy_like_the_whole_map(shape: tuple[int, ...]) -> None:
    graph, source, result = graph_of(BASE)
    array = np.arange(144).reshape(source.static_shape)
    found = 0
    for perm in permutations(range(len(shape))):
        index_map = IndexMap.transposed(shape, perm)
        wanted = index_map.apply(array)
        for rest, order in orders_of_producer(index_map, source, graph):
            assert sorted(order) == list(range(8))
            np.testing.assert_array_equal(rest.apply(np.ascontiguousarray(array[..., order])), wanted)
            found += 1
        for rest, order in orders_of_user(index_map, result, graph):
            assert sorted(order) == list(range(8))
            ordered = wanted.reshape(result.static_shape)[..., order]
            np.testing.assert_array_equal(rest.apply(array), ordered.reshape(-1))
            found += 1
    assert found


def test_a_shuffle_vanishes_in_one_of_the_orders() -> None:
    graph, source, result = graph_of(BASE)
    shuffle = IndexMap.transposed((2, 3, 3, 2, 4), (0, 1, 2, 4, 3))
    for orders in (orders_of_producer(shuffle, source, graph), orders_of_user(shuffle, result, graph)):
        assert any(rest.is_identity for rest, _ in orders)


def test_orders_of_many_digits_are_not_tried() -> None:
    graph, source, result = graph_of(BASE.replace("8", str(2 ** (MAX_DIGITS + 1))))
    for digits in (MAX_DIGITS, MAX_DIGITS + 1):
        shape = (18, *[2] * (digits - 1), 2 ** (MAX_DIGITS + 2 - digits))
        turned = IndexMap.transposed(shape, (0, *range(len(shape) - 1, 0, -1)))
        count = len(list(orders_of_producer(turned, source, graph)))
        assert count == len(list(orders_of_user(turned, result, graph)))
        assert bool(count) is (digits <= MAX_DIGITS)


NEAR_MISSES = {
    "the bias has another user": ("%c = Reshape", "%k = Neg(%b) %c = Reshape", "user"),
    "the weights have another user": ("%c = Reshape", "%k = Neg(%f) %c = Reshape", "user"),
    "the source has another user": ("%c = Reshape", "%k = Neg(%a) %c = Reshape", "user"),
    "the source is an output": ("-> %y", "-> %y, %a", "user"),
    "the source comes from no layer": ("Conv2D(%x, %f, %b)", "Concatenation(%o, %p) {axis: 3}", "user"),
    "the layer has groups": ("%f = const f32[8,1,1,4]", "%f = const f32[8,1,1,2]", "user"),
    "the result is an output": ("-> %y", "-> %y, %c", "producer"),
    "the result has another user": ("%y = Conv2D", "%k = Neg(%c) %y = Conv2D", "producer"),
    "the user's weights have another user": ("%y = Conv2D", "%k = Neg(%g) %y = Conv2D", "producer"),
    "the user has groups": ("%g = const f32[4,1,1,8]", "%g = const f32[4,1,1,2]", "producer"),
    "the user is no layer": ("%y = Conv2D(%c, %g, none)", "%y = Softmax(%c)", "producer"),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_layers_that_absorb_no_order(name: str) -> None:
    """One condition does not hold for one of the layers; the other layer (``other``) still absorbs orders."""
    old, new, other = NEAR_MISSES[name]
    text = BASE.replace(old, new, 1).replace("(%x: f32[2,3,3,4],", "(%x: f32[2,3,3,4], %p: f32[2,3,3,4],")
    graph, source, result = graph_of(text)
    shuffle = IndexMap.transposed((2, 3, 3, 2, 4), (0, 1, 2, 4, 3))
    assert any(orders_of_producer(shuffle, source, graph)) is (other == "producer")
    assert any(orders_of_user(shuffle, result, graph)) is (other == "user")


@pytest.mark.parametrize(
    ("weights", "bias", "alone"),
    [
        ("", "", True),
        ("details", "", False),
        ("", "details", True),
        ("", "[1,8]", False),
    ],
)
def test_weights_that_a_layer_uses_alone(weights: str, bias: str, alone: bool) -> None:
    text = BASE.replace("%b = const f32[8]", f"%b = const f32{bias}") if "[" in bias else BASE
    layer = parse_model(text).main.ops[0]
    for value, change in zip(layer.inputs[1:], (weights, bias), strict=True):
        assert value is not None
        if change == "details":
            value.quantization = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64), details={"a": 1})
    assert has_weights_alone(layer) is alone
    assert (weights_of(layer) is not None) is (alone or bool(bias))
    assert weights_of(None) is None


@pytest.mark.parametrize(("depth", "is_absorbed"), [(12, False), (16, True)])
def test_quantized_transposed_convolutions_absorb_orders_of_full_groups(
    depth: int, is_absorbed: bool
) -> None:
    """Channels do not change places if LiteRT's optimized kernel then rounds them differently."""
    scale = "quant(scale: 0.05, zero_point: 3)"
    model = parse_model(f"""
graph main(%x: i8[1,5,5,8] {scale}) -> %y {{
  %f = const i8[{depth},3,3,8] quant(scale: 0.004, zero_point: 0) gaussian(0, 40)
  %a = TransposeConv([1,10,10,{depth}], %f, %x) {{stride_h: 2, stride_w: 2}} : i8[1,10,10,{depth}] {scale}
  %b = Reshape(%a, [100,{depth // 4},4]) : i8[100,{depth // 4},4] {scale}
  %c = Transpose(%b, [0,2,1]) : i8[100,4,{depth // 4}] {scale}
  %y = Reshape(%c, [1,10,10,{depth}]) : i8[1,10,10,{depth}] {scale}
}}""")
    x = np.random.default_rng(0).integers(-128, 128, (1, 5, 5, 8)).astype(np.int8)
    with following(Kernels.OPTIMIZED):
        before = Interpreter(model).run([x])[0]
        MergeDataMovement().run(model, Context())
        assert (len(model.main.ops) == 1) is is_absorbed
        np.testing.assert_array_equal(Interpreter(model).run([x])[0], before)
