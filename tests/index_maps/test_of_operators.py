# SPDX-License-Identifier: Apache-2.0
"""The maps of each operator that moves data copy what its kernel copies.

There is no movement if a type or a parameter is unknown, or if elements change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import circlekit
from circlekit.index_maps.of_operators import movement_of
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import i8, i16
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value

CALLS = [
    "Reshape(%x, [4, 6])",
    "Squeeze(%x)",
    "ExpandDims(%x, 1)",
    "Transpose(%x, [2, 0, 1])",
    "Slice(%x, [0, 1, 1], [2, 2, 2])",
    "Slice(%x, [1, 0, 3], [-1, -1, -1])",
    "StridedSlice(%x, [0, 0, 3], [2, 3, 0], [1, 2, -1])",
    "StridedSlice(%x, [1, 0, -1], [2, 3, 4], [1, 1, 1]) {shrink_axis_mask: 5}",
    "StridedSlice(%x, [0, 1, 0], [0, 3, 9], [1, 1, 1]) {begin_mask: 1, end_mask: 1}",
    "Split(2, %x) {num_splits: 2}",
    "SplitV(%x, [1, 3], -1) {num_splits: 2}",
    "Unpack(%x) {num: 3, axis: 1}",
    "Unpack(%x) {num: 4, axis: -1}",
    "Concatenation(%x, %x) {axis: -1}",
    "Concatenation(%x, %x, %x) {axis: 1}",
    "Pack(%x, %x) {values_count: 2, axis: 1}",
    "Pack(%x, %x) {values_count: 2, axis: -1}",
    "ReverseV2(%x, [1])",
    "ReverseV2(%x, [-1, 0])",
    "Tile(%x, [1, 2, 3])",
    "BroadcastTo(%x, [2, 2, 3, 4])",
    "Gather(%x, [0, 1]) {axis: 0}",
    "Gather(%x, [2, 1, 0]) {axis: 1}",
    "Gather(%x, [1, 3]) {axis: -1}",
    "Gather(%x, [2, 0]) {axis: 1}",
    "Gather(%x, [1]) {axis: 0}",
    "Gather(%x, 3) {axis: 2}",
    "DepthToSpace(%image) {block_size: 2}",
    "SpaceToDepth(%image) {block_size: 2}",
]
TYPE = "i8[{shape}] quant(scale: 0.5, zero_point: 3)"
INPUTS = f"%x: {TYPE.format(shape='2,3,4')}, %image: {TYPE.format(shape='2,4,6,8')}"


def op_of(call: str) -> Op:
    count = int(call.partition("num")[2].partition(": ")[2][:1] or 1)
    results = ", ".join(f"%y{k}" for k in range(count))
    return circlekit.parse(f"graph main({INPUTS}) -> {results} {{ {results} = {call} }}").main.ops[0]


def moved_values(op: Op) -> list[Value]:
    return [v for v in op.inputs if v is not None and not v.is_const] + op.results


@pytest.mark.parametrize("call", CALLS)
def test_the_maps_copy_what_the_kernel_copies(call: str) -> None:
    op = op_of(call)
    movement = movement_of(op)
    assert movement is not None
    assert all(value in op.inputs and not value.is_const for value in movement.sources)
    rng = np.random.default_rng(3)
    arrays = {v: rng.integers(-128, 128, v.static_shape, np.int8) for v in movement.sources}
    vector = np.concatenate([arrays[v].reshape(-1) for v in movement.sources])
    results = evaluate(op, [None if v is None else v.array() if v.is_const else arrays[v] for v in op.inputs])
    for index_map, result in zip(movement.maps, results, strict=True):
        assert index_map is not None
        np.testing.assert_array_equal(index_map.apply(vector), np.asarray(result).reshape(-1))


def changed(call: str) -> Iterator[tuple[str, Op]]:
    """Yield pairs: what is changed, and the operator with this change, which makes it no movement.

    One value gets another type.  For ``channels`` (a scale for each channel) and ``empty``, all values do.
    """
    for index in range(len(moved_values(op_of(call)))):
        for what in ("dtype", "rank", "dims", "empty", "quantization", "channels", "variable"):
            op = op_of(call)
            value = moved_values(op)[index]
            rank = len(value.static_shape)
            scales = Quantization(np.ones(2, np.float32), np.zeros(1, np.int64))
            everywhere = moved_values(op) if what in ("channels", "empty") else [value]
            for each in everywhere:
                if what == "dtype":
                    each.dtype = i16
                elif what == "quantization":
                    each.quantization = Quantization.per_tensor(1.0)
                elif what == "channels":
                    each.quantization = scales
                elif what == "variable":
                    each.is_variable = True
                else:
                    shapes = {"rank": None, "dims": (None,) * rank, "empty": (0, *(each.shape or ())[1:])}
                    each.shape = shapes[what]
            yield f"{what} of %{value.name}", op


@pytest.mark.parametrize("call", CALLS)
def test_no_movement_if_one_value_is_of_another_kind(call: str) -> None:
    for what, op in changed(call):
        assert movement_of(op) is None, what


@pytest.mark.parametrize("call", CALLS)
def test_no_movement_if_a_parameter_is_not_constant(call: str) -> None:
    """If the shape of the result determines the movement, ``movement_of`` may still return the same maps."""
    known = movement_of(op_of(call))
    assert known is not None
    for value in op_of(call).inputs:
        if value is not None and value.is_const:
            op = op_of(call)
            same = next(v for v in op.inputs if v is not None and v.name == value.name)
            same.data = None
            assert (found := movement_of(op)) is None or found.maps == known.maps, value.name


def test_no_movement_if_it_is_not_known_what_a_slice_leaves_out() -> None:
    text = "graph main(%x: f32[?], %n: i32[1]) -> %y { %y = Slice(%x, [0], %n) : f32[?] }"
    assert movement_of(circlekit.parse(text).main.ops[0]) is None


@pytest.mark.parametrize(
    "call",
    [
        "Gather(%x, [2, 3]) {axis: 1}",
        "Gather(%x, [0, 2, 3]) {axis: 2}",
        "Gather(%x, [1, 1]) {axis: 0}",
        "Gather(%x, [0, -1]) {axis: 1}",
        "Gather(%x, -1) {axis: 1}",
        "Gather(%x, [[0, 1], [2, 1]]) {axis: 1}",
        "Gather(%x, [[0, 1], [1, 2]]) {axis: 1, batch_dims: 1}",
        "Concatenation(%x, %x) {axis: 2, act: RELU}",
        "Relu(%x)",
    ],
)
def test_other_forms_have_no_movement(call: str) -> None:
    assert movement_of(op_of(call)) is None


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("Slice(%x, [-1, 0, 0], [1, 3, 4])", "1,3,4"),
        ("Unpack(%x) {num: 2000000000}", "3,4"),  # no list of so many parts is made
        ("Tile(%x, [-1, -1, 1])", "2,3,4"),
        ("SplitV(%x, [7], 0) {num_splits: 1}", "2,3,4"),
        ("DepthToSpace(%image) {block_size: 0}", "2,4,6,8"),
        ("DepthToSpace(%image) {block_size: -2}", "2,8,12,2"),
        ("SpaceToDepth(%image) {block_size: -2}", "2,2,3,32"),
        ("Reshape(%x, [-1, -1])", "24"),
        ("Squeeze(%x) {squeeze_dims: [1]}", "24"),
    ],
)
def test_no_movement_if_the_shape_rule_refuses_the_operator(call: str, result: str) -> None:
    """The text states the type of the result, as a file does, so only ``movement_of`` asks the shape rule."""
    text = f"graph main({INPUTS}) -> %y {{ %y = {call} : {TYPE.format(shape=result)} }}"
    assert movement_of(circlekit.parse(text).main.ops[0]) is None


@pytest.mark.parametrize(
    ("join", "shape"),
    [("Pack(%x, %x) {values_count: 2, axis: 1}", "?,2,3"), ("Concatenation(%x, %x) {axis: 1}", "?,6")],
)
def test_no_movement_if_what_is_joined_has_no_elements(join: str, shape: str) -> None:
    model = circlekit.parse(f"graph main(%x: f32[0,3]) -> %y {{ %y = {join} : f32[{shape}] }}")
    assert movement_of(model.main.ops[0]) is None


def test_no_movement_without_an_operator() -> None:
    assert movement_of(None) is None


def test_all_values_of_the_calls_are_int8() -> None:
    """``changed`` relies on this: its int16 is then another dtype."""
    assert {v.dtype for call in CALLS for v in moved_values(op_of(call))} == {i8}
