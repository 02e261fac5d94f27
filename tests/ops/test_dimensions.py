# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on shapes whose dimensions may be unknown."""

from __future__ import annotations

import pytest

from circlekit.errors import ShapeError
from circlekit.ir.tensor import MAX_RANK, Shape
from circlekit.ops.dimensions import (
    broadcast_shapes,
    dims_differ,
    element_count,
    known_dims,
    merge_dims,
    normalized_axis,
    product,
    regrouped,
    unknown_dims,
)


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((2, 3), (3,), (2, 3)),
        ((2, 1), (5,), (2, 5)),
        ((), (4,), (4,)),
        ((None, 3), (1, 3), (None, 3)),
        ((None,), (4,), (4,)),
        ((None,), (None,), (None,)),
        ((0,), (1,), (0,)),
        ((None,), (0,), (0,)),
        (None, (2,), None),
    ],
)
def test_broadcast_shapes(a: Shape | None, b: Shape | None, result: Shape | None) -> None:
    assert broadcast_shapes(a, b) == result
    assert broadcast_shapes(b, a) == result


@pytest.mark.parametrize(
    ("before", "after", "result", "expected"),
    [
        ((4, 3, 1), (4, 6, 1), (6, 2), [6, 4]),  # the innermost dimension that is not 1
        ((4, 3, 1), (8, 3, 1), (6, 2), [12, 2]),
        ((2, 3, 5), (2, 6, 5), (5, 6), None),  # neither the outermost nor the innermost one
        ((2, 3, 5), (2, 6, 10), (5, 6), None),  # two dimensions change
        ((2, 3, 5), (2, 6, 5), (6, 5), [12, 5]),  # groups are as short as possible, on both sides
        ((6, 5, 7), (6, 10, 7), (2, 3, 35), [2, 3, 70]),
        ((2, 3, 5), (2, 6, 5), (30,), [60]),
        ((6, 1), (12, 1), (2, 3), [4, 3]),
        ((1,), (4,), (1, 1), [4, 1]),
        ((2, 3, 5), (2, 6, 5), (1, 30), [1, 60]),
        ((2, 3, 5), (2, 6, 10), (30, 1), [120, 1]),
        ((2, 3), (2, 3), (None, 6), None),
        ((2, 0), (3, 0), (0, 2), None),
        ((2, 3), (2, 3, 1), (6,), None),
        ((4, 3), (4, 5), (2, 6), [2, 10]),
        ((4, 9), (4, 5), (12, 3), None),  # 20 / 12 is not a dimension
        ((2, 3), (None, 3), (2, 3), [-1, 3]),
        ((2, 3), (None, None), (2, 3), None),  # a shape has one -1
        ((1, 9, 8), (2, 9, 8), (9, 1, 8), None),  # the 1 moves: a transposition
        ((1, 9, 8), (2, 9, 8), (9, 8, 1), None),
        ((1, 9, 8), (1, 5, 8), (9, 1, 8), [5, 1, 8]),
        ((1, 1, 9, 8), (2, 1, 9, 8), (1, 9, 1, 8), [2, 9, 1, 8]),  # only the second 1 moves
        ((1, 9, 8), (2, 9, 8), (9, 8), [18, 8]),
    ],
)
def test_a_regrouped_shape_changes_at_the_same_end(
    before: Shape, after: Shape, result: Shape, expected: list[int] | None
) -> None:
    """A reshape of ``before`` states ``result``.  For an operand ``after`` it must state ``expected``."""
    assert regrouped(before, after, result, outer=False) == expected


@pytest.mark.parametrize(
    ("before", "after", "result", "expected"),
    [
        ((4, 3), (8, 3), (1, 12), [2, 12]),
        ((1, 4, 3), (1, 8, 6), (2, 6), [8, 6]),  # several dimensions change; a dimension of 1 is skipped
        ((4, 3), (4, 6), (1, 12), [1, 24]),  # the outermost dimension stays
    ],
)
def test_with_outer_the_first_dimension_changes_with_the_outermost_one(
    before: Shape, after: Shape, result: Shape, expected: list[int]
) -> None:
    assert regrouped(before, after, result, outer=True) == expected


def test_broadcast_shapes_refuses() -> None:
    with pytest.raises(ShapeError, match=r"shapes \[2,3\] and \[4\] do not broadcast: dimensions 3 and 4"):
        broadcast_shapes((2, 3), (4,))


def test_products() -> None:
    assert [product(dims) for dims in ((2, None), (2, None, 0), (), (2, 3, 4))] == [None, 0, 1, 24]
    assert [element_count(dims) for dims in (None, (), (2, None, 3), (0, None))] == [0, 1, 6, 0]


def test_merge_dims() -> None:
    assert [merge_dims(*dims) for dims in ((None, 3), (3, None), (3, 3))] == [3, 3, 3]
    assert merge_dims(None, None) is None
    with pytest.raises(ShapeError, match="dimensions 2 and 3 differ"):
        merge_dims(2, 3)


def test_dims_differ() -> None:
    assert [dims_differ(*d) for d in ((2, 3), (2, 2), (None, 2), (2, None))] == [True, False, False, False]


def test_unknown_dims() -> None:
    assert unknown_dims(None) is None
    assert unknown_dims(2) == (None, None)
    assert len(unknown_dims(MAX_RANK) or ()) == MAX_RANK
    with pytest.raises(ShapeError, match=f"expected at most {MAX_RANK} dimensions, got {MAX_RANK + 1}"):
        unknown_dims(MAX_RANK + 1)


def test_normalized_axis() -> None:
    assert [normalized_axis(axis, 4) for axis in (-4, -1, 0, 3)] == [0, 3, 0, 3]
    for axis in (4, -5):
        with pytest.raises(ShapeError, match=f"axis {axis} is out of range for rank 4"):
            normalized_axis(axis, 4)


def test_known_dims_are_checked() -> None:
    assert known_dims(d for d in (2, 0)) == (2, 0)
    with pytest.raises(ShapeError, match=r"expected known dimensions, got \[2,\?\]"):
        known_dims([2, None])
