# SPDX-License-Identifier: Apache-2.0
"""``Op.for_new_shapes``: the constants that state shapes, after the shape of an operand has changed."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Shape, Value
from circlekit.ops.convolution.conv import TransposeConv
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.program.state import Stateful


def node(line: str, shape: Shape) -> Op:
    """Return the operator of ``line``, with its operand %x of ``shape``."""
    dims = ",".join("?" if d is None else str(d) for d in shape)
    text = f"graph main(%x: f32[{dims}], %w: f32[6,2,3,4]) -> %y {{\n%y = {line}\n}}"
    return circlekit.parse(text).main.ops[0]


def changes(op: Op, new: Shape | None, outer: bool = False) -> dict[str, Any]:
    """Return the attributes and constants that ``op`` needs if its input gets the shape ``new``.

    ``outer``: whether a leading 1 of a constant shape changes with axis 0 (see ``Op.for_new_shapes``).
    """
    old = {name: value.shape for name, value in op.operand_items()}
    (x,) = {value for name, value in op.operand_items() if name == "input"}
    x.shape = new
    return op.for_new_shapes({**old, "output": op.results[0].shape}, outer)


CASES: dict[str, tuple[str, Shape, Shape, Any]] = {
    "RESHAPE": ("Reshape(%x, [2,6])", (2, 3, 2), (5, 3, 2), {"shape": [5, 6]}),
    "BROADCAST_TO": ("BroadcastTo(%x, [7,2,3])", (2, 3), (2, 4), {"shape": [7, 2, 4]}),
    "SLICE": ("Slice(%x, [0,1], [4,2])", (4, 3), (6, 5), {"size": [-1, -1]}),
    "STRIDED_SLICE": ("StridedSlice(%x, [0,0], [4,2], [1,1])", (4, 3), (6, 3), {"end_mask": 1}),
    "RESIZE_BILINEAR": ("ResizeBilinear(%x, [8,15])", (1, 4, 5, 2), (1, 6, 7, 2), {"size": [12, 21]}),
    "RESIZE_NEAREST_NEIGHBOR": (
        "ResizeNearestNeighbor(%x, [8,15])",
        (1, 4, 5, 2),
        (1, 6, 7, 2),
        {"size": [12, 21]},
    ),
    "TRANSPOSE_CONV": (
        "TransposeConv([1,8,15,6], %w, %x) {stride_h: 2, stride_w: 3}",
        (1, 4, 5, 4),
        (2, 6, 4, 4),
        {"output_shape": [2, 12, 12, 6]},
    ),
}
"""{operator: (line, shape of the operand, new shape, changed attributes and constants)}."""


def test_every_operator_that_states_shapes_is_tried() -> None:
    """The shapes of states are tried in ``tests/structure``."""
    follow = {code for code, kind in REGISTRY.items() if kind.for_new_shapes is not Op.for_new_shapes}
    assert set(CASES) == follow - {code for code, kind in REGISTRY.items() if issubclass(kind, Stateful)}


@pytest.mark.parametrize("code", CASES)
def test_constants_follow(code: str) -> None:
    line, before, after, expected = CASES[code]
    assert changes(node(line, before), after) == expected


@pytest.mark.parametrize("code", CASES)
@pytest.mark.parametrize("new", [(), (2,), (4, 3, 1), (1, 2, 3, 4, 5)])
def test_another_rank_is_no_internal_error(code: str, new: Shape) -> None:
    """At most a ShapeError is raised.  If the constants stay, the shape rule says what does not fit."""
    line, before, _, _ = CASES[code]
    for other in (new, before[:1]):
        with suppress(ShapeError):
            changes(node(line, before), other)


@pytest.mark.parametrize("code", CASES)
def test_an_equal_shape_changes_nothing(code: str) -> None:
    line, before, _, _ = CASES[code]
    op = node(line, before)
    for name, new in changes(op, before).items():
        old = getattr(op, name)
        assert new == (old.array().tolist() if isinstance(old, Value) else old)


@pytest.mark.parametrize("code", CASES)
def test_nothing_follows_without_a_known_rank_or_without_constants(code: str) -> None:
    line, before, after, expected = CASES[code]
    op = node(line, before)
    assert changes(op, None) == {}
    assert changes(op, after) == {}  # the rank before was not known
    for name, value in op.operand_items():
        if value.is_const and value.dtype is i32:
            op = node(line, before)
            setattr(op, name, Value(name, i32, value.shape))
            # the beginning of a strided slice does not matter
            assert changes(op, after) == (expected if (code, name) == ("STRIDED_SLICE", "begin") else {})


@pytest.mark.parametrize("code", ["BROADCAST_TO", "RESIZE_BILINEAR", "TRANSPOSE_CONV"])
def test_nothing_follows_from_another_rank(code: str) -> None:
    line, before, after, _ = CASES[code]
    for other in (after[:-1], (*after, 1)):
        assert changes(node(line, before), other) == {}


def test_an_unknown_dimension_has_no_constant() -> None:
    for code in ("BROADCAST_TO", "TRANSPOSE_CONV"):
        line, before, after, _ = CASES[code]
        with pytest.raises(ShapeError, match="a constant cannot hold an unknown dimension"):
            changes(node(line, before), (*after[:1], None, *after[2:]))


def test_only_dimensions_equal_to_those_of_the_operand_follow_its_new_shape() -> None:
    assert changes(node("BroadcastTo(%x, [2,5])", (1, 5)), (1, 4)) == {"shape": [2, 4]}
    assert changes(node("BroadcastTo(%x, [1,5])", (1, 5)), (3, 5)) == {"shape": [3, 5]}
    assert changes(node("BroadcastTo(%x, [2,2])", (1, 2)), (1, 3)) == {"shape": [2, 3]}


@pytest.mark.parametrize("strides", list(itertools.product((1, 2, 3), repeat=2)))
def test_a_transposed_convolution_of_the_new_size_reads_the_new_operand(strides: tuple[int, int]) -> None:
    """The sizes of the operand follow from those of the result, as in a convolution over the result."""
    h, w = strides
    op = node(
        f"TransposeConv([1,{4 * h},{5 * w},6], %w, %x) {{padding: SAME, stride_h: {h}, stride_w: {w}}}",
        (1, 4, 5, 4),
    )
    batch, height, width, depth = changes(op, (3, 7, 2, 4))["output_shape"]
    assert (batch, -(-height // h), -(-width // w), depth) == (3, 7, 2, 6)


def test_a_size_that_was_not_known_leaves_the_result_as_it_is() -> None:
    line = CASES["TRANSPOSE_CONV"][0]
    assert changes(node(line, (None, 4, None, 4)), (1, 6, 5, 4)) == {"output_shape": [1, 12, 15, 6]}


@pytest.mark.parametrize("dims", [[1, 8, 15], [1, 8, 15, 6, 1]])
def test_a_result_of_another_rank_is_left(dims: list[int]) -> None:
    x, weights = Value("x", f32, (1, 4, 5, 4)), Value("w", f32, (6, 2, 3, 4))
    shape = Value.constant("s", np.array(dims, np.int32))
    op = TransposeConv(shape, weights, x, results=[Value("y", f32, None)])
    assert changes(op, (1, 6, 5, 4)) == {}


@pytest.mark.parametrize(
    ("after", "size"),
    [
        ((1, 2, 3, 1), [4, 9]),
        ((1, 6, 5, 1), [12, 15]),
        ((1, 3, 5, 1), [6, 15]),
        ((1, 4, 0, 1), [8, 15]),  # a width of 0 gives no factor
        ((1, None, 1, 1), [8, 3]),
        ((5, 4, 5, 7), [8, 15]),
    ],
)
def test_images_are_scaled_by_the_same_factor(after: Shape, size: list[int]) -> None:
    assert changes(node("ResizeBilinear(%x, [8,15])", (1, 4, 5, 1)), after) == {"size": size}


def test_a_factor_that_gives_no_whole_size_is_dropped() -> None:
    line = "ResizeBilinear(%x, [6,6])"
    assert changes(node(line, (1, 4, 4, 1)), (1, 5, 6, 1)) == {"size": [6, 9]}
    line = "ResizeNearestNeighbor(%x, [6,0])"
    assert changes(node(line, (1, None, 0, 1)), (1, 5, 6, 1)) == {"size": [6, 0]}


@pytest.mark.parametrize(
    ("line", "after", "mask"),
    [
        ("StridedSlice(%x, [0,0], [4,5], [1,1])", (4, 7), 2),
        ("StridedSlice(%x, [0,0], [4,5], [1,1])", (3, 7), 3),
        ("StridedSlice(%x, [0,0], [4,5], [1,1]) {end_mask: 1}", (4, 7), 3),
        ("StridedSlice(%x, [0,0], [3,5], [1,1])", (5, 5), 0),  # it did not reach the end
        ("StridedSlice(%x, [0,0], [4,5], [1,2])", (5, 6), 3),
        ("StridedSlice(%x, [3,0], [4,5], [1,1]) {shrink_axis_mask: 1}", (5, 5), 0),
        ("StridedSlice(%x, [3,0], [4,5], [1,1]) {shrink_axis_mask: 1}", (5, 6), 2),
        ("StridedSlice(%x, [9,0], [4,5], [-1,1])", (5, 5), 0),  # backwards: the end is excluded
        ("StridedSlice(%x, [1], [4], [1])", (5, 6), 1),
    ],
)
def test_a_strided_slice_reaches_the_same_ends(line: str, after: Shape, mask: int) -> None:
    assert changes(node(line, (4, 5)), after) == {"end_mask": mask}


@pytest.mark.parametrize(
    "attributes",
    ["ellipsis_mask: 1", "new_axis_mask: 1", "offset: true", "new_axis_mask: 2, ellipsis_mask: 1"],
)
def test_a_strided_slice_with_other_axes_is_left(attributes: str) -> None:
    line = f"StridedSlice(%x, [0,0], [4,5], [1,1]) {{{attributes}}}"
    assert changes(node(line, (4, 5)), (6, 7)) == {}


@pytest.mark.parametrize(
    ("requested", "before", "after", "outer", "dims"),
    [
        # a shape without -1 does not fit the new number of elements
        ([2, 6], (2, 3, 2), (2, 3, 4), False, [2, 12]),
        ([2, 6], (2, 3, 2), (4, 3, 2), False, [4, 6]),
        ([2, 6], (2, 3, 2), (None, 3, 2), False, [-1, 6]),
        ([2, 6], (2, 3, 2), (2, 3, None), False, [2, -1]),
        ([1, 4, 3], (2, 6), (4, 6), False, [1, 8, 3]),  # the leading 1 stays
        ([1, 2, 6], (2, 6), (4, 6), True, [2, 2, 6]),  # the leading 1 follows the batch
        # -1 takes up a change of any axis but axis 0
        ([2, -1], (2, 3, 2), (2, 3, 4), False, None),
        ([-1, 6], (2, 3, 2), (2, 6, 2), False, None),
        ([-1, 6], (2, 3, 2), (4, 3, 2), False, None),  # -1 already stands for the 4
        ([2, -1], (2, 3, 2), (4, 3, 2), False, [4, 6]),  # a change of axis 0 goes to axis 0 of the result
        ([2, -1], (2, 3, 2), (4, 3, 4), False, None),
        ([2, -1], (2, 3, 2), (None, 3, 2), False, [-1, 6]),
        # a shape that fits stays, although [12, 2] would follow the changes
        ([6, 4], (2, 3, 4), (4, 3, 2), False, None),
        # [2,6] might fit an unknown number of elements, but is not kept
        ([2, 6], (2, 3, 2), (2, None, 2), False, [2, -1]),
    ],
)
@pytest.mark.parametrize("where", ["operand", "attribute", "both"])
def test_reshapes(
    requested: list[int], before: Shape, after: Shape, outer: bool, dims: list[int] | None, where: str
) -> None:
    shape = Value.constant("s", np.array(requested, np.int32)) if where != "attribute" else None
    attribute = requested if where != "operand" else None
    op = Reshape(Value("x", f32, before), shape, new_shape=attribute)
    names = {"operand": ["shape"], "attribute": ["new_shape"], "both": ["shape", "new_shape"]}[where]
    assert changes(op, after, outer) == ({} if dims is None else dict.fromkeys(names, dims))


def test_a_reshape_to_a_shape_that_no_longer_fits_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"\[5, 6\] does not follow from .* from \[2,3,5\] to \[2,6,5\]"):
        changes(node("Reshape(%x, [5,6])", (2, 3, 5)), (2, 6, 5))
    assert changes(node("Reshape(%x, [5,-1])", (2, 3, 5)), (2, 6, 5)) == {}


def test_a_reshape_to_a_scalar_takes_one_element_only() -> None:
    with pytest.raises(ShapeError, match=r"shape \[\] does not follow from .* from \[1,1\] to \[4,1\]"):
        changes(Reshape(Value("x", f32, (1, 1)), None, new_shape=[]), (4, 1))
    assert changes(Reshape(Value("x", f32, (1, 1)), None, new_shape=[]), (None, 1)) == {}
    assert changes(Reshape(Value("x", f32, (1, 1)), None, new_shape=[0]), (1, 1)) == {}


def test_a_reshape_of_which_the_result_was_not_known_is_left() -> None:
    op = Reshape(Value("x", f32, (2, 6)), Value.constant("s", np.array([3, 4], np.int32)))
    op.results[0].shape = None
    assert changes(op, (4, 6)) == {}
