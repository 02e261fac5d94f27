# SPDX-License-Identifier: Apache-2.0
"""The index map: for each element of a result, the position of the source element that it copies.

The position of an element is its number in memory order, counted from 0, so a reshape is the identity.  The
position in the result is written as digits, the most significant first.  Each digit has a *factor*: an
``extent``, the number of values of the digit, and a ``stride``: adding 1 to the digit adds ``stride`` to the
source position.

    source position  =  offset + sum of digit[k] * stride[k]

The transpose of a [2, 3] matrix has the factors (extent 3, stride 1) and (extent 2, stride 3).  A slice
changes extents and the offset.  A reversed axis has a negative stride, a repeated axis the stride 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from circlekit.ir.value import Array


class Factor(NamedTuple):
    """One digit of the position in the result.

    The digit has the values 0 to ``extent`` - 1; adding 1 to it adds ``stride`` to the source position.
    """

    extent: int
    stride: int


class AxisStep(NamedTuple):
    """One digit of the position in the result, as a movement along one axis of the source.

    The digit has the values 0 to ``extent`` - 1; adding 1 to it adds ``step`` to the index along ``axis``.
    If ``axis`` is None, the digit repeats the same elements.
    """

    axis: int | None
    extent: int
    step: int


@dataclass(frozen=True)
class IndexMap:
    """A map from the positions of a result to those of a source with ``source_size`` elements.

    ``factors``: the most significant one first.  ``offset``: the source position of the first element.

    Make maps with ``IndexMap.of``, which brings the factors into canonical form: no extent of 1, and no two
    neighbors that could be merged into one factor.  So two maps that do the same compare as equal.  Source
    and result have at least one element.
    """

    source_size: int
    factors: tuple[Factor, ...]
    offset: int = 0

    # -- construction --------------------------------------------------------------------------

    @staticmethod
    def of(source_size: int, factors: Iterable[tuple[int, int]], offset: int = 0) -> IndexMap:
        """Return the map of these factors (pairs of extent and stride) in canonical form."""
        merged: list[Factor] = []
        for extent, stride in factors:
            if extent == 1:
                continue
            if merged and merged[-1].stride == stride * extent:
                merged[-1] = Factor(merged[-1].extent * extent, stride)
            else:
                merged.append(Factor(extent, stride))
        return IndexMap(source_size, tuple(merged), offset)

    @staticmethod
    def identity(size: int) -> IndexMap:
        """Return the map of a reshape of ``size`` elements."""
        return IndexMap.of(size, [(size, 1)])

    @staticmethod
    def transposed(shape: Sequence[int], perm: Sequence[int]) -> IndexMap:
        """Return the map of transpose(x, perm), where x has ``shape``."""
        strides = strides_of(shape)
        return IndexMap.of(math.prod(shape), [(shape[axis], strides[axis]) for axis in perm])

    @staticmethod
    def sliced(shape: Sequence[int], ranges: Sequence[range]) -> IndexMap:
        """Return the map of a slice of a tensor of ``shape``; ``ranges[k]``: the indices taken on axis k."""
        pairs = list(zip(strides_of(shape), ranges, strict=True))
        factors = [(len(taken), stride * taken.step) for stride, taken in pairs]
        return IndexMap.of(math.prod(shape), factors, sum(stride * taken.start for stride, taken in pairs))

    @staticmethod
    def tiled(shape: Sequence[int], multiples: Sequence[int]) -> IndexMap:
        """Return the map of tile(x, multiples), where x has ``shape``."""
        triples = zip(shape, strides_of(shape), multiples, strict=True)
        factors = [factor for dim, stride, times in triples for factor in ((times, 0), (dim, stride))]
        return IndexMap.of(math.prod(shape), factors)

    # -- queries -------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of elements of the result."""
        return math.prod(factor.extent for factor in self.factors)

    @property
    def is_identity(self) -> bool:
        """Whether the result has all elements of the source in the same order, as after a reshape."""
        return self == IndexMap.identity(self.source_size)

    @property
    def is_permutation(self) -> bool:
        """Whether each element of the source occurs exactly once in the result, and no axis is reversed."""
        size = 1
        for extent, stride in sorted(self.factors, key=lambda factor: factor.stride):
            if stride != size:
                return False
            size *= extent
        return size == self.source_size

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest source position that the result reads."""
        ends = [(extent - 1) * stride for extent, stride in self.factors]
        return self.offset + sum(min(end, 0) for end in ends), self.offset + sum(max(end, 0) for end in ends)

    def apply(self, array: Array) -> Array:
        """Return the result as a vector.  ``array``: the source, in any shape of ``source_size`` elements."""
        places = np.array([self.offset])
        for extent, stride in self.factors:
            places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
        return np.asarray(array.reshape(-1)[places])

    # -- algebra -------------------------------------------------------------------------------

    def after(self, earlier: IndexMap) -> IndexMap | None:
        """Return the map that applies ``earlier``, then this map.

        The result of ``earlier``, with ``self.source_size`` elements, is the source of this map.  Return None
        if ``on_axes`` finds no steps, although such a map may exist.
        """
        # the tensor between the maps gets one axis for each factor of ``earlier``
        digits = earlier.factors or (Factor(1, 1),)
        found = self.on_axes([factor.extent for factor in digits])
        if found is None:
            return None
        start, steps = found
        offset = earlier.offset + sum(
            index * factor.stride for index, factor in zip(start, digits, strict=True)
        )
        strides = [0 if s.axis is None else s.step * digits[s.axis].stride for s in steps]
        pairs = [(step.extent, stride) for step, stride in zip(steps, strides, strict=True)]
        return IndexMap.of(earlier.source_size, pairs, offset)

    def inverse(self) -> IndexMap:
        """Return the map that undoes this map, which must be a permutation (``is_permutation``)."""
        by_stride = sorted(range(len(self.factors)), key=lambda k: -self.factors[k].stride)
        return IndexMap.transposed([factor.extent for factor in self.factors], by_stride)

    def within(self, start: int, size: int) -> IndexMap | None:
        """Return this map as a map of a part of its source: the ``size`` elements from position ``start`` on.

        Return None if the map reads elements outside this part.
        """
        low, high = self.bounds
        if low < start or high >= start + size:
            return None
        return IndexMap(size, self.factors, self.offset - start)

    def on_axes(self, shape: Sequence[int]) -> tuple[list[int], list[AxisStep]] | None:
        """Return the map as movements along the axes of a source of ``shape``.

        The first list has the coordinates of the source element that the first result element copies.  The
        second list has one step per factor, in the order of the factors; a factor that moves along several
        axes has a step for each of them.  For [2, 3], the factor (extent 6, stride 1) has the steps (axis 0,
        extent 2, step 1) and (axis 1, extent 3, step 1).

        Return None if no such steps are found for a factor, or if several factors together move beyond one
        end of an axis.
        """
        strides = strides_of(shape)
        start = [self.offset // stride % dim for stride, dim in zip(strides, shape, strict=True)]
        axes = [axis for axis in range(len(shape)) if shape[axis] > 1]
        steps: list[AxisStep] = []
        for factor in self.factors:
            parts = _divided(factor, shape, strides, start, axes)
            if parts is None:
                return None
            steps += parts
        low, high = list(start), list(start)  # the lowest and the highest coordinate on each axis
        for axis, extent, step in steps:
            if axis is not None:
                low[axis] += min((extent - 1) * step, 0)
                high[axis] += max((extent - 1) * step, 0)
        if min(low, default=0) < 0 or any(h >= dim for h, dim in zip(high, shape, strict=True)):
            return None
        return start, steps


def strides_of(shape: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor of ``shape``, one per axis, in elements."""
    strides = [1]
    for dim in reversed(shape[1:]):
        strides.append(strides[-1] * dim)
    return strides[::-1][: len(shape)]


def _divided(
    factor: Factor, shape: Sequence[int], strides: Sequence[int], start: Sequence[int], axes: Sequence[int]
) -> list[AxisStep] | None:
    """Return ``factor`` as digits that each move along one axis of the source; None if that is not possible.

    ``shape``, ``strides``: those of the source.  ``start``: the coordinates of the first element.  ``axes``:
    the axes with more than one index.  The parts are found from the least significant digit on.
    """
    extent, stride = factor
    if stride == 0:
        return [AxisStep(None, extent, 0)]
    sign, distance = (1, stride) if stride > 0 else (-1, -stride)  # distance: magnitude of the stride
    parts: list[AxisStep] = []
    while extent > 1:
        axis = next((a for a in axes if strides[a] <= distance < strides[a] * shape[a]), None)
        if axis is None or distance % strides[axis]:
            return None
        step, dim = distance // strides[axis], shape[axis]
        taken = extent
        # if the digit runs over the end of this axis, split it: the rest moves along an outer axis
        if not 0 <= start[axis] + sign * (extent - 1) * step < dim:
            if dim % step or extent % (dim // step):
                return None
            taken = dim // step
        parts.append(AxisStep(axis, taken, sign * step))
        extent //= taken
        distance *= taken
    return parts[::-1]
