# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on dimensions, shapes and sliding windows; None stands for an unknown dimension or rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from circlekit.errors import ShapeError
from circlekit.ir.enums import Padding
from circlekit.ir.value import MAX_RANK, Shape, format_shape

Dim = int | None
"""One dimension; None if it is unknown."""


def broadcast_shapes(*shapes: Shape | None) -> Shape | None:
    """Return the shape to which ``shapes`` broadcast, aligned at the last axis; None if a rank is unknown.

    An unknown dimension and 1 give an unknown dimension; an unknown dimension and another number give that
    number.  Raise ShapeError if two dimensions do not broadcast.
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


def known_dims(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Return ``dims`` as a tuple; raise ShapeError if one is unknown."""
    shape = tuple(dims)
    if None in shape:
        raise ShapeError(f"expected known dimensions, got {format_shape(shape)}")
    return shape  # type: ignore[return-value]  # None was excluded


def merge_dims(a: Dim, b: Dim) -> Dim:
    """Return ``a``, or ``b`` if ``a`` is unknown; None if both are unknown.

    Raise ShapeError if both are known and differ.
    """
    if a is None or b is None:
        return b if a is None else a
    if a != b:
        raise ShapeError(f"dimensions {a} and {b} differ")
    return a


def dims_differ(a: Dim, b: Dim) -> bool:
    """Return whether both dimensions are known and different."""
    return a is not None and b is not None and a != b


def shapes_differ(a: Shape | None, b: Shape | None) -> bool:
    """Return whether the ranks, or the dimensions of an axis, are both known and different."""
    return a is not None and b is not None and (len(a) != len(b) or any(map(dims_differ, a, b)))


def product(dims: Sequence[Dim]) -> Dim:
    """Return the product of ``dims``; 0 if one of them is 0, else None if one is unknown."""
    if 0 in dims:
        return 0
    result = 1
    for dim in dims:
        if dim is None:
            return None
        result *= dim
    return result


def regrouped(before: Shape, after: Shape, result: Shape, outer: bool) -> list[int] | None:
    """Return the new result shape of a reshape whose operand changes its shape; None if none follows.

    ``before``, ``after``: the shape of the operand before and after the change.  ``result``: the shape that
    the reshape gave for ``before``.  The new shape has at most one -1, for an unknown dimension.  Example:
    from [2, 12] reshaped to [2, 3, 4], a change of the operand to [5, 12] gives [5, 3, 4].

    First, ``before`` and ``result`` are divided into groups of neighboring dimensions (``matching_groups``).
    In the example, the groups of ``before`` are [2] and [12], those of ``result`` are [2] and [3, 4].  Return
    None if there are no such groups, if ``before`` or ``result`` has a dimension that is 0 or unknown, or if
    the rank of the operand changes.

    Then, for each group of ``before`` that changes, one dimension of the group of ``result`` takes the
    change, so that the products are equal again.  A dimension of 1 does not count as outermost or innermost,
    unless it is a dimension of ``before`` that changes.  The first of these rules that applies says which
    dimension of ``result`` takes the change:

    - If all dimensions of the group of ``result`` are 1, the first one; if only one is not 1, that one.
    - If only the outermost dimension of the group of ``before`` changes, the outermost one.  With [12] and
      [3, 4], a change to [24] gives [6, 4].
    - If only the innermost dimension of the group of ``before`` changes, the innermost one.  With [3, 4] and
      [4, 3], a change to [3, 8] gives [4, 6].

    Return None if no rule applies, if the new dimension would not be a whole number, or if two new dimensions
    would be unknown.  Also return None if the reshape only moves dimensions of 1, and one of these changes:
    from [1, 10, 8] to [10, 1, 8] it stands for a transposition, which no reshape does for [2, 10, 8].

    ``outer``: another rule comes first for the first group.  If the outermost dimension of ``before``
    changes, alone or with others, the first dimension of ``result`` takes the change, even if it is 1.
    Example: from [4, 3] reshaped to [1, 12], a change of the operand to [8, 3] gives [2, 12] if ``outer`` is
    true, else [1, 24].
    """
    if len(before) != len(after) or {None, 0} & {*before, *result} or _moves_one(before, after, result):
        return None
    groups = matching_groups(known_dims(before), known_dims(result))
    if groups is None:
        return None
    dims: list[int] = []
    for own, new in groups:
        group = _regrouped_dims(before[own], after[own], result[new], outer and not new.start)
        if group is None:
            return None
        dims += group
    return dims if dims.count(-1) <= 1 else None


def matching_groups(first: Sequence[int], second: Sequence[int]) -> list[tuple[slice, slice]] | None:
    """Divide the axes of two shapes into the shortest groups with equal products; return their slices.

    Dimensions of 1 at the end belong to the last group.  Return None if there are no such groups.
    """
    groups = []
    i = j = 0
    while i < len(first) or j < len(second):
        own, other = i, j
        i, j = min(i + 1, len(first)), min(j + 1, len(second))
        while (left := math.prod(first[own:i])) != (right := math.prod(second[other:j])):
            i, j = (i + 1, j) if left < right else (i, j + 1)
            if i > len(first) or j > len(second):
                return None
        if i == len(first) or j == len(second):
            if {*first[i:], *second[j:]} - {1}:
                return None
            i, j = len(first), len(second)
        groups.append((slice(own, i), slice(other, j)))
    return groups


def _moves_one(before: Shape, after: Shape, result: Shape) -> bool:
    """Return whether ``result`` only moves dimensions of 1 of ``before``, and a moved one changes."""
    if len(before) != len(result) or [d for d in before if d != 1] != [d for d in result if d != 1]:
        return False
    places = zip(_ones_between(before), _ones_between(result), strict=True)
    moved = [axis for old, new in places for axis in old[len(new) :]]
    return any(after[axis] != 1 for axis in moved)


def _ones_between(shape: Shape) -> list[list[int]]:
    """Return the axes of size 1 before the first other axis, before the second one, ..., after the last."""
    places: list[list[int]] = [[]]
    for axis, dim in enumerate(shape):
        if dim == 1:
            places[-1].append(axis)
        else:
            places.append([])
    return places


def _regrouped_dims(before: Shape, after: Shape, result: Shape, outer: bool) -> list[int] | None:
    """Return the new dimensions of one group of ``regrouped``; None if they do not follow from ``after``."""
    dims = list(filter(None, result))
    if before == after:
        return dims
    if not dims:  # a scalar has no dimension that could change
        return None
    changed = [axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    wide = [axis for axis, d in enumerate(dims) if d != 1]
    outermost = all(d == 1 for d in before[: changed[0]])
    if outer and outermost:
        axis = 0
    elif len(dims) == 1 or len(wide) <= 1:
        axis = wide[0] if wide else 0
    elif len(changed) == 1 and (outermost or all(d == 1 for d in before[changed[0] + 1 :])):
        axis = wide[0] if outermost else wide[-1]
    else:
        return None
    total, rest = product(after), math.prod(dims) // dims[axis]
    if total is not None and total % rest:
        return None
    dims[axis] = -1 if total is None else total // rest
    return dims


def element_count(dims: Sequence[Dim] | None) -> int:
    """Return the product of ``dims`` with 1 for each unknown dimension; 0 if the rank is unknown."""
    return 0 if dims is None else math.prod(1 if dim is None else dim for dim in dims)


def unknown_dims(count: int | None) -> Shape | None:
    """Return a shape of ``count`` unknown dimensions; None if ``count`` is None.

    Raise ShapeError if ``count`` is above MAX_RANK.
    """
    if count is not None and count > MAX_RANK:
        raise ShapeError(f"expected at most {MAX_RANK} dimensions, got {count}")
    return None if count is None else (None,) * count


def normalized_axis(axis: int, rank: int) -> int:
    """Return ``axis`` as a number from 0 to ``rank`` - 1; a negative axis counts from the end.

    Raise ShapeError if there is no such axis.
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


class AxisWindows(NamedTuple):
    """The number of sliding windows along one axis, and of padding elements before and after the data."""

    number: int
    before: int
    after: int


LARGEST_WINDOW = 1 << 20
"""The largest span and stride of a window along one axis, in elements.  Only damaged files exceed it."""


def padded_window_count(size: Dim, taps: Dim, stride: int, dilation: int, padding: Padding) -> Dim:
    """Return the number of windows of ``taps`` elements on an axis of ``size`` elements; None if unknown.

    ``dilation``: the distance between two neighboring elements of a window.  The number of windows is
    ceil(size / stride) for SAME, and ceil((size - span + 1) / stride) for VALID, where span = (taps - 1) *
    dilation + 1.  If the span is above ``size``, VALID gives 0.  Raise ShapeError if the stride is not from 1
    to LARGEST_WINDOW, the dilation is below 1, or the span exceeds LARGEST_WINDOW.
    """
    if not 1 <= stride <= LARGEST_WINDOW:
        raise ShapeError(f"expected a stride from 1 to {LARGEST_WINDOW}, got {stride}")
    if dilation < 1:
        raise ShapeError(f"expected a dilation of at least 1, got {dilation}")
    if taps is not None and (taps - 1) * dilation >= LARGEST_WINDOW:
        raise ShapeError(
            f"expected a window of at most {LARGEST_WINDOW} elements, got {taps} with dilation {dilation}"
        )
    if size is None:
        return None
    if padding is Padding.SAME:
        return -(-size // stride)
    if taps is None:
        return None
    span = (taps - 1) * dilation + 1
    return max((size - span) // stride + 1, 0)


def axis_windows(size: int, taps: int, stride: int, dilation: int, padding: Padding) -> AxisWindows:
    """Return the windows along one axis, of a convolution or a pooling, with their padding.

    If the number of padding elements is odd, the additional element is after the data.  Raise ShapeError as
    ``padded_window_count`` does.  Source: TFLite kernels/padding.h.
    """
    count = padded_window_count(size, taps, stride, dilation, padding)
    assert count is not None  # all arguments are known
    if padding is Padding.VALID:
        return AxisWindows(count, 0, 0)
    total = max((count - 1) * stride + (taps - 1) * dilation + 1 - size, 0)
    return AxisWindows(count, total // 2, total - total // 2)
