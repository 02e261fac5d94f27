# SPDX-License-Identifier: Apache-2.0
"""Return the index maps of an operator that moves data: one function for each operator class.

An index map says for each element of a result which element of the source it copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch
from itertools import accumulate
from typing import NamedTuple

from circlekit.errors import CirclekitError
from circlekit.index_maps.index_map import IndexMap
from circlekit.index_maps.unknown_dim import dims_of, has_dims, holds_for_all, size_of
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ir.value import Value, same_grid
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.gather import Gather, ReverseV2
from circlekit.ops.movement.join import Concatenation, Pack, Split, SplitV, Unpack
from circlekit.ops.movement.repeat import BroadcastTo, Tile
from circlekit.ops.movement.shape import (
    ExpandDims,
    Reshape,
    Squeeze,
    Transpose,
    checked_perm,
)
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.movement.space import DepthToSpace, SpaceToDepth


class Movement(NamedTuple):
    """The index maps of one operator that moves data.

    ``sources``: the operands whose elements the operator copies.  Their elements count as one vector, one
    operand after the other.  ``maps``: for each result, the map whose source is that vector; None if no index
    map describes the result.
    """

    sources: tuple[Value, ...]
    maps: tuple[IndexMap | None, ...]

    def part_of(self, index_map: IndexMap) -> tuple[Value, IndexMap] | None:
        """Return the only source that ``index_map`` reads, and the map from that source alone.

        ``index_map``: a map whose source is the vector of all sources.  Return None if it reads several of
        the sources.
        """
        start = 0
        for source in self.sources:
            found = index_map.within(start, size_of(source))
            if found is not None:
                return source, found
            start += size_of(source)
        return None


def movement_of(op: Op | None) -> Movement | None:
    """Return how ``op`` moves data; None if no index map is known for it, or if a condition fails:

    - The operator fits its shape rule.
    - The operands that say how to move data, such as a permutation, are constant.  Exceptions, because the
      shapes of results say it: RESHAPE, EXPAND_DIMS, BROADCAST_TO, and the sizes of SPLIT_V.
    - ``has_dims`` holds for all sources and results: at most one dimension is unknown, and none is 0.
    - No source or result is a variable.
    - All sources and results have the same dtype and the same quantization, which is not per channel.
    - The index maps hold for every size of an unknown dimension.
    - Each map gives as many elements as its result has.
    """
    if op is None or not op.data_movement or not op.results or not all(map(has_dims, op.results)):
        return None
    try:
        found = _movement(op) if fits(op) else None
    except (CirclekitError, IndexError, ValueError):  # an operator that does not fit its operands
        return None
    if found is None or len(found.maps) != len(op.results):
        return None
    first = found.sources[0]
    if first.quantization is not None and first.quantization.is_per_channel:
        return None
    for value in (*found.sources, *op.results):
        is_allowed = has_dims(value) and not value.is_variable
        if (
            not is_allowed
            or value.dtype is not first.dtype
            or not same_grid(value.quantization, first.quantization)
        ):
            return None
    sizes = [None if each is None else each.size for each in found.maps]
    is_static = all(value.is_static for value in (*found.sources, *op.results))
    if not is_static and not all(each is None or holds_for_all(each) for each in found.maps):
        return None
    is_whole = all(size in (None, size_of(result)) for size, result in zip(sizes, op.results, strict=True))
    return found if is_whole else None


@singledispatch
def _movement(op: Op) -> Movement | None:
    """Return the movement of ``op`` without the checks of ``movement_of``; None if it is not known."""
    return None


@_movement.register(Reshape)
@_movement.register(Squeeze)
@_movement.register(ExpandDims)
def _reshape(op: Reshape | Squeeze | ExpandDims) -> Movement | None:
    return Movement((op.input,), (IndexMap.identity(size_of(op.input)),))


@_movement.register
def _transpose(op: Transpose) -> Movement | None:
    perm = static_int_vector(op.perm)
    if perm is None:
        return None
    shape = dims_of(op.input)
    return Movement((op.input,), (IndexMap.transposed(shape, checked_perm(perm, len(shape))),))


@_movement.register
def _slice(op: Slice) -> Movement | None:
    begin, size = static_int_vector(op.begin), static_int_vector(op.size)
    if begin is None or size is None or min(begin, default=0) < 0:
        return None
    # only a size of -1 is read from the result: the result may state an unknown dimension for a known size
    counts = [n if n >= 0 else dim for n, dim in zip(size, dims_of(op.output), strict=True)]
    ranges = [range(first, first + n) for first, n in zip(begin, counts, strict=True)]
    if any(taken.stop > dim for taken, dim in zip(ranges, dims_of(op.input), strict=True)):
        return None
    return Movement((op.input,), (IndexMap.sliced(dims_of(op.input), ranges),))


@_movement.register
def _strided_slice(op: StridedSlice) -> Movement | None:
    begin, end, strides = (static_int_vector(v) for v in (op.begin, op.end, op.strides))
    if begin is None or end is None or strides is None:
        return None
    shape = dims_of(op.input)
    ranges = op.axis_ranges(begin, end, strides, shape)
    return Movement((op.input,), (IndexMap.sliced(shape, ranges),))


@_movement.register(Split)
@_movement.register(SplitV)
def _split(op: Split | SplitV) -> Movement | None:
    axes = static_int_vector(op.split_dim)
    if axes is None:
        return None
    shape = dims_of(op.value)
    axis = normalized_axis(axes[0], len(shape))
    sizes = [dims_of(result)[axis] for result in op.results]
    if sum(sizes) != shape[axis]:
        return None
    return Movement((op.value,), tuple(_parts(shape, axis, sizes)))


@_movement.register
def _unpack(op: Unpack) -> Movement | None:
    shape = dims_of(op.input)
    return Movement((op.input,), tuple(_parts(shape, normalized_axis(op.axis, len(shape)), [1] * op.num)))


def _parts(shape: Sequence[int], axis: int, sizes: Sequence[int]) -> list[IndexMap]:
    """Return the map to each part of a tensor of ``shape`` that is split along ``axis`` into ``sizes``."""
    whole = [range(dim) for dim in shape]
    return [
        IndexMap.sliced(shape, [*whole[:axis], range(end - size, end), *whole[axis + 1 :]])
        for end, size in zip(accumulate(sizes), sizes, strict=True)
    ]


@_movement.register
def _concatenation(op: Concatenation) -> Movement | None:
    axis = normalized_axis(op.axis, len(dims_of(op.output)))
    return None if op.act is not Activation.NONE else joined(op.values, axis)


@_movement.register
def _pack(op: Pack) -> Movement | None:
    return joined(op.values, normalized_axis(op.axis, len(dims_of(op.output))))


def joined(values: Sequence[Value], axis: int) -> Movement | None:
    """Return the movement of a join of ``values`` along ``axis``, an existing axis or a new one.

    ``axis`` is not negative.  If all dimensions before ``axis`` are 1, the result has the elements of one
    value after the other.  Otherwise, values of different sizes have no index map: the map is None.  Return
    None if ``has_dims`` does not hold for a value.
    """
    if not all(map(has_dims, values)):
        return None
    shapes = [dims_of(value) for value in values]
    outer, sizes = math.prod(shapes[0][:axis]), [math.prod(shape) for shape in shapes]
    if outer == 1:
        return Movement(tuple(values), (IndexMap.identity(sum(sizes)),))
    if len({*sizes}) > 1:
        return Movement(tuple(values), (None,))
    return Movement(tuple(values), (joined_map(shapes[0], len(values), axis),))


def joined_map(shape: Sequence[int], count: int, axis: int) -> IndexMap:
    """Return the map of a join of ``count`` tensors of ``shape`` along ``axis``.

    Its source is the vector of all their elements, one tensor after the other.  The coordinates of an element
    of the result are: the indices before the axis, the number of the tensor, the other indices.
    """
    outer, size = math.prod(shape[:axis]), math.prod(shape)
    return IndexMap.of(count * size, [(outer, size // outer), (count, size), (size // outer, 1)])


@_movement.register
def _reverse(op: ReverseV2) -> Movement | None:
    axes = static_int_vector(op.axis)
    if axes is None:
        return None
    shape = dims_of(op.input)
    reversed_axes = {normalized_axis(axis, len(shape)) for axis in axes}
    ranges = [range(dim)[::-1] if axis in reversed_axes else range(dim) for axis, dim in enumerate(shape)]
    return Movement((op.input,), (IndexMap.sliced(shape, ranges),))


@_movement.register
def _tile(op: Tile) -> Movement | None:
    multiples = static_int_vector(op.multiples)
    if multiples is None:
        return None
    return Movement((op.input,), (IndexMap.tiled(dims_of(op.input), multiples),))


@_movement.register
def _broadcast(op: BroadcastTo) -> Movement | None:
    if not op.output.is_static:  # how often an operand's 1 is repeated is unknown for an unknown dimension
        return None
    shape, result = dims_of(op.input), dims_of(op.output)
    shape = (1,) * (len(result) - len(shape)) + shape
    multiples = [new // old for old, new in zip(shape, result, strict=True)]  # of the tile that does the same
    return Movement((op.input,), (IndexMap.tiled(shape, multiples),))


@_movement.register
def _gather(op: Gather) -> Movement | None:
    """Return the movement of a slice if the indices are constant and evenly spaced, such as 1, 3, 5.

    Return None for other indices.
    """
    indices, shape = static_int_vector(op.indices), dims_of(op.params)
    if not indices or op.batch_dims:
        return None
    axis = normalized_axis(op.axis, len(shape))
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    if not step:
        return None
    taken = range(indices[0], indices[0] + step * len(indices), step)
    if list(taken) != indices or min(indices) < 0 or max(indices) >= shape[axis]:
        return None
    ranges = [taken if a == axis else range(dim) for a, dim in enumerate(shape)]
    return Movement((op.params,), (IndexMap.sliced(shape, ranges),))


@_movement.register
def _depth_to_space(op: DepthToSpace) -> Movement | None:
    return Movement((op.input,), (depth_to_space(dims_of(op.input), op.block_size),))


@_movement.register
def _space_to_depth(op: SpaceToDepth) -> Movement | None:
    return Movement((op.input,), (space_to_depth(dims_of(op.input), op.block_size),))


def depth_to_space(shape: Sequence[int], block: int) -> IndexMap:
    """Return the map of DEPTH_TO_SPACE on an operand of ``shape`` [N, H, W, block * block * C]."""
    n, h, w, depth = shape
    return IndexMap.transposed((n, h, w, block, block, depth // (block * block)), (0, 1, 3, 2, 4, 5))


def space_to_depth(shape: Sequence[int], block: int) -> IndexMap:
    """Return the map of SPACE_TO_DEPTH on an operand of ``shape`` [N, block * H, block * W, C]."""
    n, height, width, c = shape
    return IndexMap.transposed((n, height // block, block, width // block, block, c), (0, 1, 3, 2, 4, 5))
