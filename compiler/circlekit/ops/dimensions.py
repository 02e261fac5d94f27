# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on dimensions and shapes, where a dimension or a rank may be unknown (None)."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.errors import ShapeError
from circlekit.ir.value import MAX_RANK, Shape, format_shape

Dim = int | None
"""One dimension; None where it is unknown."""


def broadcast_shapes(*shapes: Shape | None) -> Shape | None:
    """Return the shape that ``shapes`` broadcast to, aligned at the last axis; None if a rank is unknown.

    An unknown dimension broadcast with a known one above 1 gives the known one.  ShapeError where two
    dimensions do not broadcast.
    """
    result: Shape = ()
    for shape in shapes:
        if shape is None:
            return None
        rank = max(len(result), len(shape))
        left, right = ((1,) * (rank - len(s)) + s for s in (result, shape))
        for a, b in zip(left, right, strict=True):
            if a != b and 1 not in (a, b) and None not in (a, b):
                pair = f"{format_shape(result)} and {format_shape(shape)}"
                raise ShapeError(f"shapes {pair} do not broadcast: dimensions {a} and {b}")
        result = tuple(b if a == 1 or (a is None and b != 1) else a for a, b in zip(left, right, strict=True))
    return result


def merge_dims(a: Dim, b: Dim) -> Dim:
    """Return the dimension that both ``a`` and ``b`` stand for; ShapeError where they differ."""
    if a is None or b is None:
        return b if a is None else a
    if a != b:
        raise ShapeError(f"dimensions {a} and {b} differ")
    return a


def dims_differ(a: Dim, b: Dim) -> bool:
    """Whether both dimensions are known and not equal."""
    return a is not None and b is not None and a != b


def product(dims: Sequence[Dim]) -> Dim:
    """Return the product of ``dims``; None where one is unknown, unless another is 0."""
    if 0 in dims:
        return 0
    result = 1
    for dim in dims:
        if dim is None:
            return None
        result *= dim
    return result


def element_count(dims: Sequence[Dim] | None) -> int:
    """Return the product of ``dims``, unknown dimensions counted as 1; 0 where the rank is unknown."""
    return 0 if dims is None else product([1 if dim is None else dim for dim in dims]) or 0


def unknown_dims(count: int | None) -> Shape | None:
    """Return a shape of ``count`` unknown dimensions; None where ``count`` is None."""
    if count is not None and count > MAX_RANK:
        raise ShapeError(f"expected at most {MAX_RANK} dimensions, got {count}")
    return None if count is None else (None,) * count


def normalized_axis(axis: int, rank: int) -> int:
    """Return ``axis`` counted from the front; ShapeError where it is outside of ``rank``."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank
