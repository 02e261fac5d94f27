# SPDX-License-Identifier: Apache-2.0
"""Shapes with one unknown dimension in index maps: it counts as a large prime number.

A map divides extents and strides only where they are multiples of each other.  So a map in which the prime
remains a factor of whole extents, and of no offset, holds for every number in its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from circlekit.index_maps.index_map import IndexMap
from circlekit.ir.value import Value

UNKNOWN_DIM = 2**40 + 15
"""The prime that stands for the unknown dimension; no known number of elements comes near it."""


def dims_of(value: Value) -> tuple[int, ...]:
    """Return the dimensions of ``value``, at most one of which is unknown; see ``has_dims``."""
    return tuple(UNKNOWN_DIM if dim is None else dim for dim in value.shape or ())


def is_unknown(dim: int) -> bool:
    """Return whether ``dim``, which is not 0, has the unknown dimension as a factor."""
    return dim % UNKNOWN_DIM == 0


def has_dims(value: Value) -> bool:
    """Return whether at most one dimension of ``value`` is unknown, and none is 0."""
    return value.shape is not None and value.shape.count(None) <= 1 and 0 not in value.shape


def has_known_channels(value: Value) -> bool:
    """Return whether the last of the dimensions of ``value`` (see ``has_dims``) is known."""
    return has_dims(value) and bool(value.shape) and not is_unknown(dims_of(value)[-1])


def size_of(value: Value) -> int:
    """Return the number of elements of ``value``."""
    return math.prod(dims_of(value))


def known_count(dims: Sequence[int]) -> int:
    """Return the number of elements if the unknown dimension is 1: that is how costs are counted."""
    return math.prod(dim // UNKNOWN_DIM if is_unknown(dim) else dim for dim in dims)


def written(dims: Sequence[int]) -> list[int]:
    """Return ``dims`` as operators take them: -1 for the unknown one."""
    return [-1 if is_unknown(dim) else dim for dim in dims]


def holds_for_all(index_map: IndexMap) -> bool:
    """Return whether ``index_map`` holds for every number in the place of the unknown dimension."""
    half = UNKNOWN_DIM // 2
    for extent, stride in index_map.factors:
        multiple = is_unknown(extent)
        if (extent > half and not multiple) or (multiple and stride == 0):
            return False
        if abs(stride) > half and stride % UNKNOWN_DIM:
            return False
    return index_map.offset % UNKNOWN_DIM < half
