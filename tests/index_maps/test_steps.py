# SPDX-License-Identifier: Apache-2.0
"""Costs of plans, and joins of several tensors, computed by kernels.

A plan (``Plan``) is here a sequence of steps that move the elements of a tensor.
"""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest

from circlekit.index_maps.index_map import IndexMap, strides_of
from circlekit.index_maps.joins import Join, joins_for
from circlekit.index_maps.of_operators import joined_map
from circlekit.index_maps.steps import (
    MovementCost,
    Reshaped,
    Sliced,
    Transposed,
    cost_of,
    run_cost,
    sum_of,
)
from circlekit.index_maps.write_back import by_axis, cut_at_axes, cut_at_result, plans_for, sliced
from circlekit.ir.dtypes import i32
from circlekit.ir.value import Array, Value
from tests.index_maps.moved_positions import positions, result_of, results_of, vector


def test_a_cost_improves_on_another_if_something_is_less_and_nothing_is_more() -> None:
    costs = [MovementCost(*numbers) for numbers in product((3, 4, 5), repeat=2)]
    better = {(a, b) for a, b in product(costs, repeat=2) if a.improves_on(b)}
    pairs = [(a, b, np.sign(np.subtract(a, b)).tolist()) for a, b in product(costs, repeat=2)]
    assert better == {(a, b) for a, b, signs in pairs if signs in ([-1, 0], [0, -1], [-1, -1])}


def test_sums_of_costs() -> None:
    assert sum_of([]) == MovementCost(0, 0)
    assert sum_of([MovementCost(3, 1), MovementCost(4, 2)]) == MovementCost(7, 3)


@pytest.mark.parametrize(("bits", "size"), [(32, 24), (8, 6), (4, 3), (2, 2), (1, 1)])
def test_elements_of_few_bits_share_bytes(bits: int, size: int) -> None:
    plan = Transposed((2, 3), (1, 0)), Reshaped((6,))
    assert cost_of(plan, bits) == MovementCost(size, 2)
    assert cost_of(plan[1:], bits) == MovementCost(0, 1)


def results_of_join(join: Join, arrays: list[Array]) -> Array:
    """Run the join, then the first of the alternative operators of each later step; return the result."""
    sources = tuple(Value(f"s{i}", i32, array.shape) for i, array in enumerate(arrays))
    op = join.op(sources)
    now = np.asarray(op.kernel(*arrays))
    value = op.output
    assert value.shape == now.shape
    for step in join.rest:
        op = next(step.ops(value, vector))
        (now,) = results_of(op, now)
        value = op.output
    return now


@pytest.mark.parametrize("shape", [(2, 3), (3, 1), (2, 1, 3)])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("is_pack", [True, False])
def test_every_join_of_a_map_computes_it(shape: tuple[int, ...], count: int, is_pack: bool) -> None:
    """With numpy, join along each axis and transpose in each way.  The cheapest join comes first."""
    sources = tuple(Value(name, i32, shape) for name in "abc"[:count])
    arrays = list(positions((count, *shape)))
    for axis in range(len(shape) + is_pack):
        joined = np.stack(arrays, axis) if is_pack else np.concatenate(arrays, axis)
        for perm in permutations(range(joined.ndim)):
            wanted = joined.transpose(perm)
            whole = IndexMap.transposed(joined.shape, perm).after(joined_map(shape, count, axis))
            if whole is None:
                continue
            forms = joins_for(whole, sources, wanted.shape)
            for form in forms:
                np.testing.assert_array_equal(results_of_join(form, arrays), wanted)
            costs = [form.cost(sources) for form in forms]
            assert costs == sorted(costs)
            rest: tuple[Transposed, ...] = (
                (Transposed(joined.shape, perm),) if list(perm) != sorted(perm) else ()
            )
            assert costs[0] <= Join(is_pack, axis, rest).cost(sources)


def test_the_cost_of_a_join_depends_on_copied_bytes_and_runs() -> None:
    """A run: contiguous elements of one source in the result.  On axis 2, each source has 2 * 3 runs."""
    sources = tuple(Value(name, i32, (2, 3, 4)) for name in "ab")
    for is_pack, axis, runs in ((True, 0, 2), (True, 3, 48), (False, 0, 2), (False, 2, 12)):
        cost = Join(is_pack, axis, ()).cost(sources)
        assert cost == MovementCost(2 * 24 * 4 + run_cost([(2, 3, 4)] * 2, axis), 1)
        assert run_cost([(2, 3, 4)] * 2, axis) == runs * run_cost([()], 0)  # of a single run


def test_tensors_of_different_shapes_have_no_join() -> None:
    sources = Value("a", i32, (2, 3)), Value("b", i32, (3, 2))
    assert joins_for(IndexMap.identity(12), sources, (12,)) == []
    assert joins_for(IndexMap.identity(12), (sources[0],) * 2, (12,))


def factorizations(size: int) -> list[tuple[int, ...]]:
    """Return all shapes of ``size`` elements without dimensions of 1."""
    parts = [n for n in range(2, size + 1) if size % n == 0]
    return [(n, *rest) for n in parts for rest in factorizations(size // n)] if size > 1 else [()]


@pytest.mark.parametrize("size", [12, 16])
def test_factors_are_cut_wherever_an_axis_ends_within_them(size: int) -> None:
    """A factor spans the strides ``low`` to ``high``.  No axis has a stride between them that cuts it."""
    shapes = factorizations(size)
    for shape, axes in product(shapes, repeat=2):
        for perm in permutations(range(len(shape))):
            whole = IndexMap.transposed(shape, perm)
            by_axes, by_result = cut_at_axes(whole.factors, axes), cut_at_result(whole.factors, axes)
            assert IndexMap.of(size, by_axes) == IndexMap.of(size, by_result) == whole
            spans = [(stride, stride * extent) for extent, stride in by_axes]
            extents = [extent for extent, _ in by_result]
            found = by_axis(whole.factors, axes)
            assert (found is not None) == ({*strides_of(axes)} <= {*strides_of(extents)})
            if found is not None:
                assert [math.prod(extent for extent, _ in axis) for axis in found] == [*axes]
                assert [factor for axis in found for factor in axis] == by_result
            spans += [(math.prod(extents[i + 1 :]), math.prod(extents[i:])) for i in range(len(extents))]
            for low, high in spans:
                inside = [bound for bound in strides_of(axes) if low < bound < high]
                assert not [bound for bound in inside if bound % low == 0 and high % bound == 0]


@pytest.mark.parametrize("result", [(2,), (8,), (4, 2)])
def test_factors_do_not_run_over_the_axes_of_another_size(result: tuple[int, ...]) -> None:
    assert by_axis(IndexMap.identity(4).factors, result) is None


def test_axes_of_a_plan_are_those_that_it_needs() -> None:
    """A permutation of axes that neither the shape of the source nor that of the result has."""
    index_map = IndexMap.transposed((4, 3, 4), (2, 0, 1))
    plan = plans_for(index_map, (4, 12), (2, 24), 32)[0]
    assert plan == (Reshaped((12, 4)), Transposed((12, 4), (1, 0)), Reshaped((2, 24)))
    one_more = plans_for(index_map, (4, 12), (1, 4, 12), 32)[0]
    assert one_more == (Reshaped((1, 12, 4)), Transposed((1, 12, 4), (0, 2, 1)))
    assert plans_for(index_map, (12, 1, 4), (4, 12), 32)[0] == (
        Transposed((12, 1, 4), (1, 2, 0)),
        Reshaped((4, 12)),
    )


CUTS = [
    range(0, 4),
    range(1, 3),
    range(0, 4, 2),
    range(1, 4, 2),
    range(3, -1, -1),
    range(3, 0, -2),
    range(2, 3),
]


@pytest.mark.parametrize("rows", CUTS)
@pytest.mark.parametrize("columns", CUTS)
def test_slices_that_are_transposed_or_repeated_are_written(rows: range, columns: range) -> None:
    """The source has its own shape, or its axes are joined.  numpy computes the expected results."""
    source = positions((2, 4, 4))
    cut = IndexMap.sliced((2, 4, 4), (range(2), rows, columns))
    taken = source[:, list(rows)][:, :, list(columns)]
    for perm in permutations(range(3)):
        moved = IndexMap.transposed(taken.shape, perm).after(cut)
        assert moved is not None
        wanted = taken.transpose(perm)
        np.testing.assert_array_equal(moved.apply(source), wanted.reshape(-1))
        for shape in ((2, 4, 4), (8, 4), (32,)):
            plans = plans_for(moved, shape, wanted.shape, 32)
            assert plans or shape != (2, 4, 4)
            for plan in plans:
                np.testing.assert_array_equal(result_of(plan, source.reshape(shape)), wanted)
    tiled = IndexMap.tiled(taken.shape, (1, 3, 2)).after(cut)
    assert tiled is not None
    plans = plans_for(tiled, (2, 4, 4), (2, 3 * len(rows), 2 * len(columns)), 32)
    assert plans
    for plan in plans:
        np.testing.assert_array_equal(result_of(plan, source), np.tile(taken, (1, 3, 2)))


@pytest.mark.parametrize(
    ("inner", "outer", "rows"),
    [
        ((2, 1), (2, 2), range(1, 5)),
        ((2, 3), (2, 6), range(1, 13, 3)),
        ((3, 2), (2, 6), range(1, 13, 2)),
        ((2, 1), (3, 2), range(1, 7)),
        ((2, 2), (2, 1), range(1, 5)),
        ((2, 1), (2, 3), None),
        ((2, 3), (2, 5), None),
        ((3, 1), (2, 4), None),
        ((2, 2), (2, 2), None),
    ],
)
def test_rows_on_two_axes_of_the_result_are_a_slice_if_they_are_evenly_spaced(
    inner: tuple[int, int], outer: tuple[int, int], rows: range | None
) -> None:
    """``outer``, ``inner``: (extent, step in rows) of the axes of the result before and after the columns.

    For example, (2, 2) and (2, 1) read the rows 1 + {0, 2} + {0, 1}: range(1, 5).
    """
    shape = (16, 5)
    factors = [(outer[0], outer[1] * 5), (5, 1), (inner[0], inner[1] * 5)]
    index_map = IndexMap.of(80, factors, 5)
    found = sliced(index_map, shape)
    if rows is None:
        assert found is None
        return
    assert found is not None
    cut, rest = found
    assert cut.ranges == (rows, range(5))
    assert rest.after(IndexMap.sliced(shape, cut.ranges)) == index_map


@pytest.mark.parametrize("single", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("cut", [range(3), range(1, 3), range(2)])
def test_a_slice_drops_axes_of_one_index_itself(single: tuple[int, ...], cut: range) -> None:
    """The result lacks all, some or none of these axes; in each case one operator is enough."""
    shape = (3, 4, 5)
    ranges = [range(2, 3) if axis in single else cut for axis in range(3)]
    index_map = IndexMap.sliced(shape, ranges)
    taken = positions(shape)[np.ix_(*ranges)]
    for count in range(len(single) + 1):
        for dropped in combinations(single, count):
            wanted = taken.squeeze(dropped)
            plans = plans_for(index_map, shape, wanted.shape, 32)
            assert len(plans[0]) == 1
            assert isinstance(plans[0][0], Sliced)
            for plan in plans:
                np.testing.assert_array_equal(result_of(plan, positions(shape)), wanted)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (1, 3), (2, 1, 3)])
@pytest.mark.parametrize("times", [(2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 3, 1), (3, 1, 2), (1, 1, 1)])
def test_repetitions_are_one_operator_where_the_result_has_the_axes(
    shape: tuple[int, ...], times: tuple[int, int, int]
) -> None:
    multiples = times[-len(shape) :]
    index_map, source = IndexMap.tiled(shape, multiples), positions(shape)
    wanted = np.tile(source, multiples)
    for result in (wanted.shape, (wanted.size,)):
        plans = plans_for(index_map, shape, result, 32)
        assert plans
        assert len(plans[0]) <= 1 or result != wanted.shape
        for plan in plans:
            np.testing.assert_array_equal(result_of(plan, source), wanted.reshape(result))
