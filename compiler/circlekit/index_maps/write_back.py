# SPDX-License-Identifier: Apache-2.0
"""Write an index map as operators: find every plan that may be the cheapest.

An index map says for each element of a result which element of the source it copies.  A position is the
number of an element in memory order, from 0.  The map writes the position in the result as a number with
several digits, the most significant first.  It has one factor for each digit: ``extent`` is the number of
values of the digit, and adding 1 to the digit adds ``stride`` to the position in the source.  The first
element of the result copies the element at ``offset``.  The transpose of a [2, 3] matrix, for example, has
the factors (extent 3, stride 1) and (extent 2, stride 3), and the offset 0.

A plan is a tuple of steps, each of which becomes one operator: a slice, then a permutation, then a
repetition.  Each of the three may be missing.  A RESHAPE stands before a step that needs other axes, and at
the end if the result has other axes.

UNKNOWN_DIM, a number larger than any real dimension, stands for an unknown dimension N.  Arithmetic with it
is exact: 2 * UNKNOWN_DIM stands for 2 N.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, product

from circlekit.index_maps.index_map import Factor, IndexMap, strides_of
from circlekit.index_maps.of_operators import depth_to_space, space_to_depth
from circlekit.index_maps.steps import (
    BlocksMoved,
    Plan,
    Reshaped,
    Shape,
    Sliced,
    Step,
    Tiled,
    Transposed,
    cost_of,
)
from circlekit.index_maps.unknown_dim import UNKNOWN_DIM, is_unknown


@lru_cache(maxsize=4096)  # the blocks of a deep model have equal maps, and a pass asks again in each round
def plans_for(index_map: IndexMap, shape: Shape, result: Shape, bits: int) -> tuple[Plan, ...]:
    """Return the plans that apply ``index_map`` to a tensor of ``shape`` and give the shape ``result``.

    The cheapest plan comes first: fewest bytes copied, then fewest operators.  An element has ``bits`` bits.
    The tuple is empty if no plan was found: the map does not take evenly spaced indices along axes of the
    source, or each plan needs a constant that depends on the unknown dimension.
    """
    plans = dict.fromkeys(filter(_is_writable, _plans(index_map, shape, result)))
    return tuple(sorted(plans, key=lambda plan: (cost_of(plan, bits), _tie_breaker(plan))))


def _is_writable(plan: Plan) -> bool:
    """Return whether the constants of ``plan`` (starts, strides, multiples) are known numbers.

    Numbers from half of UNKNOWN_DIM on come from the unknown dimension.
    """
    numbers: list[int] = []
    for step in plan:
        if isinstance(step, Sliced):
            numbers += [abs(n) for taken in step.ranges for n in (taken.start, taken.step)]
        elif isinstance(step, Tiled):
            numbers += step.multiples
    return max(numbers, default=0) < UNKNOWN_DIM // 2


def _tie_breaker(plan: Plan) -> tuple[bool, int, bool]:
    """Return the sort key of plans of equal cost: lower is better.

    The first item is whether a shape of ``plan`` has a multiple of the unknown dimension, such as 2 N.  Such
    a shape is worse: a file says only that the dimension is unknown, so later passes cannot merge the
    operators.  The second item is the highest rank of the steps that copy elements.  The third item is
    whether there is a DEPTH_TO_SPACE or SPACE_TO_DEPTH: fewer passes know these than TRANSPOSE.
    """
    dims = (dim for step in plan for dim in step.shape)
    has_multiple = any(is_unknown(dim) and dim != UNKNOWN_DIM for dim in dims)
    rank = max((len(step.shape) for step in plan if step.moves), default=0)
    return has_multiple, rank, any(isinstance(step, BlocksMoved) for step in plan)


def _plans(index_map: IndexMap, shape: Shape, result: Shape) -> Iterator[Plan]:
    """Yield the plans of ``plans_for`` in any order; a plan may occur twice or not be writable."""
    if index_map.is_identity:
        yield _reshaped(shape, result)
    elif any(factor.stride == 0 for factor in index_map.factors):
        yield from _repetitions(index_map, shape, result)
    elif index_map.is_permutation:
        yield from _permutations(index_map, shape, result)
    else:
        yield from _slices(index_map, shape, result)


def _reshaped(shape: Shape, result: Shape) -> Plan:
    """Return the plan that reshapes ``shape`` to ``result``; it is empty if they are equal."""
    return () if shape == result else (Reshaped(result),)


# -- permutations ------------------------------------------------------------------------------


def _permutations(index_map: IndexMap, shape: Shape, result: Shape) -> Iterator[Plan]:
    """Yield plans for a permutation: one TRANSPOSE, DEPTH_TO_SPACE or SPACE_TO_DEPTH.

    The TRANSPOSE has one axis per factor.  If the source has other axes, a RESHAPE stands before the
    TRANSPOSE; if the result has others, a RESHAPE stands after it.  Cutting the factors at the axes of the
    source or of the result can make that RESHAPE unnecessary, so there are plans with and without each cut.
    """
    yield from _block_moves(index_map, shape, result)
    for by_source, by_result in product((False, True), repeat=2):
        factors = list(index_map.factors)
        if by_source:
            factors = cut_at_axes(factors, shape)
        if by_result:
            factors = cut_at_result(factors, result)
        yield _transposed(factors, shape, result)
        yield _transposed(list(_with_unknown_apart(factors)), shape, result)


def cut_at_axes(factors: Sequence[Factor], shape: Shape) -> list[Factor]:
    """Return ``factors``, divided where possible so that no factor spans two axes of the source.

    ``shape``: the shape of the source.  For the shape [4, 6], for example, (extent 24, stride 1) becomes
    (extent 4, stride 6) and (extent 6, stride 1).
    """
    return _cut(factors, [factor.stride for factor in factors], shape)


def cut_at_result(factors: Sequence[Factor], result: Shape) -> list[Factor]:
    """Return ``factors``, divided where possible so that no factor spans two axes of ``result``, a shape."""
    return _cut(factors, strides_of([factor.extent for factor in factors]), result)


def by_axis(factors: Sequence[Factor], result: Shape) -> list[list[Factor]] | None:
    """Return for each axis of ``result``, a shape, the factors that run over it.

    A factor that spans several axes is divided; return None if that is not possible.
    """
    left = [factor for factor in cut_at_result(factors, result) if factor.extent > 1]
    axes: list[list[Factor]] = []
    for dim in result:
        axes.append([])
        while dim > 1:
            if not left or dim % left[0].extent:
                return None
            dim //= left[0].extent
            axes[-1].append(left.pop(0))
    return None if left else axes


def _cut(factors: Sequence[Factor], strides: Sequence[int], shape: Shape) -> list[Factor]:
    """Return ``factors``, divided where possible so that no factor spans two axes of the tensor of ``shape``.

    ``strides``: for each factor its stride in this tensor: adding 1 to its digit adds this number to the
    position in the tensor.  A factor spans two axes if the stride of an axis (``bound``) lies between the
    stride of the factor and this stride times its extent.
    """
    bounds = sorted({*strides_of(shape)}, reverse=True)
    cut: list[Factor] = []
    for (extent, source_stride), stride in zip(factors, strides, strict=True):
        for bound in bounds:
            if stride < bound < stride * extent and not bound % stride and not stride * extent % bound:
                cut.append(Factor(stride * extent // bound, source_stride * (bound // stride)))
                extent = bound // stride
        cut.append(Factor(extent, source_stride))
    return cut


def _transposed(factors: Sequence[Factor], shape: Shape, result: Shape) -> Plan:
    """Return the plan of a TRANSPOSE with one axis per factor, and perhaps axes of dimension 1.

    If ``shape``, without its dimensions of 1, has one axis per factor, the TRANSPOSE reads this shape.
    Otherwise, a RESHAPE before the TRANSPOSE makes one axis per factor, and the axes of dimension 1 that
    ``result`` needs.  If the TRANSPOSE does not give the shape ``result``, a RESHAPE follows.
    From [1, 2, 3] to [3, 1, 2], for example, (extent 3, stride 1) and (extent 2, stride 3) give one TRANSPOSE
    with the permutation (2, 0, 1).
    """
    # the factors in the order of their axes in the source: the largest stride belongs to the first axis
    order = sorted(range(len(factors)), key=lambda k: -factors[k].stride)
    source = tuple(factors[k].extent for k in order)
    perm = [order.index(k) for k in range(len(order))]
    moved = tuple(source[axis] for axis in perm)
    takes_shape, gives_result = _without_ones(shape) == source, _without_ones(result) == moved
    # ``ones``, ``others``: the axes of dimension 1 and the other axes of the tensor that the TRANSPOSE reads
    first: Plan
    if takes_shape:
        ones = [axis for axis, dim in enumerate(shape) if dim == 1]
        others = [axis for axis, dim in enumerate(shape) if dim != 1]
        shape_needed, first = shape, ()
    else:
        count = len(result) - len(moved) if gives_result else 0
        ones, others = list(range(count)), list(range(count, count + len(source)))
        shape_needed = (1,) * count + source
        first = (Reshaped(shape_needed),)
    axes = iter([others[axis] for axis in perm])
    if gives_result and len(ones) == len(result) - len(moved):
        unused = iter(ones)
        # the permutation that puts the axes of dimension 1 where ``result`` has them
        full = tuple(next(unused) if dim == 1 else next(axes) for dim in result)
        return *first, Transposed(shape_needed, full)
    return *first, Transposed(shape_needed, (*ones, *axes)), Reshaped(result)


def _with_unknown_apart(factors: Sequence[Factor]) -> Iterator[Factor]:
    """Yield ``factors``, but divide an extent such as 2 N, where N is the unknown dimension, into N and 2."""
    for extent, stride in factors:
        if is_unknown(extent) and extent != UNKNOWN_DIM:
            rest = extent // UNKNOWN_DIM
            yield Factor(UNKNOWN_DIM, stride * rest)
            yield Factor(rest, stride)
        else:
            yield Factor(extent, stride)


def _without_ones(shape: Shape) -> Shape:
    """Return ``shape`` without its dimensions of 1."""
    return tuple(dim for dim in shape if dim != 1)


def _block_moves(index_map: IndexMap, shape: Shape, result: Shape) -> Iterator[Plan]:
    """Yield plans of one DEPTH_TO_SPACE or SPACE_TO_DEPTH, perhaps with a RESHAPE after it.

    There are none unless ``shape`` has rank 4.
    """
    if len(shape) != 4:
        return
    n, h, w, c = shape
    for block in sorted({factor.extent for factor in index_map.factors}):
        if not c % block**2 and depth_to_space(shape, block) == index_map:
            moved = (n, h * block, w * block, c // block**2)
            yield BlocksMoved(moved, block, False), *_reshaped(moved, result)
        if not h % block and not w % block and space_to_depth(shape, block) == index_map:
            moved = (n, h // block, w // block, c * block**2)
            yield BlocksMoved(moved, block, True), *_reshaped(moved, result)


# -- slices ------------------------------------------------------------------------------------


def _slices(index_map: IndexMap, shape: Shape, result: Shape) -> Iterator[Plan]:
    """Yield plans that begin with a slice, or with a RESHAPE and a slice.

    One way is to slice the source with the axes that it has.  The other is to reshape the source first, so
    that each stride of the map is the stride of an axis.
    """
    for axes in dict.fromkeys((shape, _axes_of_strides(index_map))):
        found = None if axes is None else sliced(index_map, axes)
        if axes is None or found is None:
            continue
        cut, rest = found  # ``rest``: the map from the slice to the result
        for plan in _plans(rest, cut.shape, result):
            yield *_reshaped(shape, axes), cut, *plan
            dropped = _dropped_axes(cut.shape, plan, result)
            if dropped is not None:
                yield *_reshaped(shape, axes), Sliced(cut.ranges, dropped)


def _axes_of_strides(index_map: IndexMap) -> Shape | None:
    """Return the shape of the source in which each stride of the map is the stride of an axis.

    Return None if there is no such shape: a stride must divide the next larger one, and the largest stride
    must divide the size of the source.
    """
    strides = sorted({abs(factor.stride) for factor in index_map.factors}, reverse=True)
    bounds = [index_map.source_size, *strides, 1]
    if any(outer % inner for outer, inner in pairwise(bounds)):
        return None
    return tuple(outer // inner for outer, inner in pairwise(bounds))


def sliced(index_map: IndexMap, shape: Shape) -> tuple[Sliced, IndexMap] | None:
    """Split ``index_map``, which repeats no element, into a slice of its source and a permutation.

    ``shape``: the shape of the source.  The slice takes the elements that ``index_map`` reads.  The
    permutation is the map from the slice to the result.  Return None unless the digits along each axis of
    ``shape`` together take evenly spaced indices, all in the same direction.
    """
    found = index_map.on_axes(shape)
    if found is None:
        return None
    start, steps = found
    ranges = []
    for axis, first in enumerate(start):
        # the digits along this axis must together take evenly spaced indices.  The loop begins with the
        # smallest step; the digits so far take ``count`` indices at the distance ``step``
        count, step = 1, 1
        for _, extent, distance in sorted((s for s in steps if s.axis == axis), key=lambda s: abs(s.step)):
            if count > 1 and distance != step * count:
                return None
            step = distance if count == 1 else step
            count *= extent
        ranges.append(range(first, first + count * step, step))
    cut = Sliced(tuple(ranges))
    strides = strides_of(cut.shape)
    factors = [  # the same digits, whose strides are now those in the slice
        (s.extent, s.step // ranges[s.axis].step * strides[s.axis]) for s in steps if s.axis is not None
    ]
    return cut, IndexMap.of(math.prod(cut.shape), factors)


def _dropped_axes(shape: Shape, plan: Plan, result: Shape) -> frozenset[int] | None:
    """Return the axes that a slice must drop so that no RESHAPE to ``result`` is needed after the slice.

    ``shape``: the shape of the slice with all axes.  ``plan``: the steps after the slice.  Return None unless
    ``plan`` is one RESHAPE that only removes axes of dimension 1.
    """
    if [type(step) for step in plan] != [Reshaped] or len(result) >= len(shape):
        return None
    dropped, left = set(), list(result)
    for axis, dim in enumerate(shape):
        if left and dim == left[0]:
            left.pop(0)
        elif dim == 1:
            dropped.add(axis)
        else:
            return None
    return None if left else frozenset(dropped)


# -- repetition --------------------------------------------------------------------------------


def _repetitions(index_map: IndexMap, shape: Shape, result: Shape) -> Iterator[Plan]:
    """Yield plans that end in a TILE, perhaps with a RESHAPE after it.

    The TILE has either the axes of ``result`` or one axis per factor.
    """
    # ``single``: the map without the repetitions (factors of stride 0)
    single = IndexMap.of(index_map.source_size, [f for f in index_map.factors if f.stride], index_map.offset)
    # a pair: the dimension of an axis of the operand of the TILE, and how often the axis is repeated
    by_factor = [(1, extent) if not stride else (extent, 1) for extent, stride in index_map.factors]
    for pairs in (_multiples(index_map.factors, result), by_factor):
        if pairs is None:
            continue
        tile = Tiled(tuple(dim for dim, _ in pairs), tuple(times for _, times in pairs))
        behind: tuple[Step, ...] = _reshaped(tile.shape, result)
        for plan in _plans(single, shape, tile.source):
            yield *plan, tile, *behind


def _multiples(factors: Sequence[Factor], result: Shape) -> list[tuple[int, int]] | None:
    """Return for each axis of ``result`` a pair for a TILE: the dimension of its operand, and the multiple.

    Return None in two cases.  In the first, a factor spans several axes of ``result`` and cannot be divided
    (``by_axis``).  In the second, an axis of ``result`` repeats each element, as [a, a, b, b]: a factor of
    stride 0 follows another factor of this axis.  A TILE repeats only whole axes, as [a, b, a, b].
    """
    axes = by_axis(factors, result)
    if axes is None or any(not factor.stride for axis in axes for factor in axis[1:]):
        return None
    sizes = [math.prod(factor.extent for factor in axis if factor.stride) for axis in axes]
    return [(size, dim // size) for size, dim in zip(sizes, result, strict=True)]
