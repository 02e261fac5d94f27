# SPDX-License-Identifier: Apache-2.0
"""Shapes with one unknown dimension, for index maps: a large prime number stands for the unknown dimension.

An index map has an offset, and factors with an extent and a stride (see ``index_map``).  Extents and strides
are divided only without remainder, so the prime is never split into factors.  A map that was computed with
the prime need not be right for another size of the dimension: ``holds_for_all`` tells whether it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from circlekit.index_maps.index_map import IndexMap
from circlekit.ir.value import Value

UNKNOWN_DIM = 2**40 + 15
"""The prime that stands for the unknown dimension; it is larger than the element count of any real tensor."""

MAX_CHANNELS = 1 << 18
"""Passes that look at each channel by itself ignore values with more channels, to limit their work."""


def dims_of(value: Value) -> tuple[int, ...]:
    """Return the dimensions of ``value``, with UNKNOWN_DIM for an unknown one; ``has_dims`` must hold."""
    return tuple([UNKNOWN_DIM if dim is None else dim for dim in value.shape or ()])


def is_unknown(dim: int) -> bool:
    """Return whether ``dim``, which is not 0, is the unknown dimension or a multiple of it."""
    return dim % UNKNOWN_DIM == 0


def has_dims(value: Value) -> bool:
    """Return whether the rank of ``value`` is known, at most one dimension is unknown, and none is 0."""
    return value.shape is not None and value.shape.count(None) <= 1 and 0 not in value.shape


def has_known_channels(value: Value) -> bool:
    """Return whether ``has_dims`` holds for ``value`` and its last dimension is known and small enough."""
    return has_dims(value) and bool(value.shape) and dims_of(value)[-1] <= MAX_CHANNELS


def size_of(value: Value) -> int:
    """Return the number of elements of ``value``, computed from ``dims_of``; ``has_dims`` must hold."""
    return math.prod(dims_of(value))


def known_count(dims: Sequence[int]) -> int:
    """Return the product of ``dims`` with 1 for the unknown dimension, for the comparison of costs."""
    return math.prod(dim // UNKNOWN_DIM if is_unknown(dim) else dim for dim in dims)


def written(dims: Sequence[int]) -> list[int]:
    """Return ``dims`` for a constant operand: -1 stands for the unknown dimension and its multiples."""
    return [-1 if is_unknown(dim) else dim for dim in dims]


def holds_for_all(index_map: IndexMap) -> bool:
    """Return whether ``index_map`` holds for every number in the place of UNKNOWN_DIM.

    Numbers of real tensors are far below half the prime; larger ones come from the unknown dimension, and
    must be multiples of the prime.  The map holds if all of this is true:

    - Each extent, and the magnitude of each stride, is a multiple of the prime or at most half the prime.
    - No extent with the stride 0 is a multiple of the prime: the number of repetitions is known.
    - The offset is a multiple of the prime (0 included) plus a number from 0 to below half the prime.
    """
    half = UNKNOWN_DIM // 2
    for extent, stride in index_map.factors:
        multiple = is_unknown(extent)
        if (extent > half and not multiple) or (multiple and stride == 0):
            return False
        if abs(stride) > half and stride % UNKNOWN_DIM:
            return False
    return index_map.offset % UNKNOWN_DIM < half
