# SPDX-License-Identifier: Apache-2.0
"""Index maps against numpy: maps of operators, their composition, and the operators written back."""

from __future__ import annotations

import math
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlekit.index_maps.index_map import Factor, IndexMap
from circlekit.index_maps.joins import joins_for
from circlekit.index_maps.of_operators import joined_map, movement_of
from circlekit.index_maps.steps import (
    RUN_BYTES,
    BlocksMoved,
    MovementCost,
    Reshaped,
    Sliced,
    Tiled,
    Transposed,
)
from circlekit.index_maps.write_back import cut_at_axes, cut_at_result, plans_for
from circlekit.ir.dtypes import i32
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.gather import Gather, ReverseV2
from circlekit.ops.movement.join import Concatenation, Pack, Split, SplitV, Unpack
from circlekit.ops.movement.repeat import BroadcastTo, Tile
from circlekit.ops.movement.shape import ExpandDims, Reshape, Squeeze, Transpose
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.movement.space import DepthToSpace, SpaceToDepth
from tests.index_maps.moved_positions import positions, result_of, results_of, vector

MAX_ELEMENTS = 600


def drawn_op(draw: Any, x: Value) -> Op:
    """Draw a data movement of ``x``, which has a rank of at least 1."""
    shape, rank = x.static_shape, len(x.static_shape)
    axis = draw(st.integers(0, rank - 1))
    dim = shape[axis]
    ranges = [sorted(draw(st.lists(st.integers(0, d), min_size=2, max_size=2, unique=True))) for d in shape]
    begin, end = vector("", [r[0] for r in ranges]), vector("", [r[1] for r in ranges])
    parts = draw(st.sampled_from([n for n in range(1, dim + 1) if dim % n == 0]))
    kinds: dict[str, Any] = {
        "reshape": lambda: Reshape(x, vector("", draw(st.permutations(factors(math.prod(shape)))))),
        "squeeze": lambda: Squeeze(x),
        "expand": lambda: ExpandDims(x, vector("", axis)),
        "transpose": lambda: Transpose(x, vector("", draw(st.permutations(range(rank))))),
        "slice": lambda: Slice(x, begin, vector("", [b - a for a, b in ranges])),
        "strided": lambda: StridedSlice(x, begin, end, vector("", [1 + draw(st.booleans()) for _ in shape])),
        "shrink": lambda: StridedSlice(
            x, begin, end, vector("", [1] * rank), shrink_axis_mask=1 << axis, end_mask=1
        ),
        "backwards": lambda: StridedSlice(
            x, vector("", [-1] * rank), begin, vector("", [-1] * rank), end_mask=(1 << rank) - 1
        ),
        "reverse": lambda: ReverseV2(x, vector("", [axis])),
        "split": lambda: Split(vector("", axis), x, num_splits=parts),
        "split_v": lambda: SplitV(x, vector("", [1, dim - 1]), vector("", axis), num_splits=2),
        "unpack": lambda: Unpack(x, num=dim, axis=axis),
        "tile": lambda: Tile(x, vector("", [1 + draw(st.booleans()) for _ in shape])),
        "broadcast": lambda: BroadcastTo(x, vector("", (2, *shape))),
        "gather": lambda: Gather(x, vector("", list(range(dim))[::-1]), axis=axis),
        "join": lambda: Concatenation(x, axis=axis),
        "pack": lambda: Pack(x, values_count=1, axis=axis),
    }
    if rank == 4:
        kinds["depth"] = lambda: DepthToSpace(x, block_size=2 if shape[3] % 4 == 0 else 1)
        kinds["space"] = lambda: SpaceToDepth(x, block_size=2 if shape[1] % 2 + shape[2] % 2 == 0 else 1)
    if dim < 2:
        del kinds["split_v"]
    return kinds[draw(st.sampled_from(sorted(kinds)))]()  # type: ignore[no-any-return]


def factors(size: int) -> list[int]:
    """Return the prime factors of ``size``, or [1] if there are none."""
    found = []
    while size > 1:
        found.append(next(p for p in range(2, size + 1) if size % p == 0))
        size //= found[-1]
    return found or [1]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_chains_equal_numpy_and_are_written_back(data: st.DataObject) -> None:
    """The map of a chain takes the elements that the kernels take; each plan computes the same."""
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    source = now = positions(shape)
    whole = IndexMap.identity(source.size)
    for _ in range(data.draw(st.integers(1, 4))):
        if not now.ndim:
            break
        op = drawn_op(data.draw, Value("x", i32, now.shape))
        movement = movement_of(op)
        results = results_of(op, now)
        sizes = [result.size for result in results]
        if movement is None or not 0 < min(sizes) <= max(sizes) <= MAX_ELEMENTS:
            break
        index = data.draw(st.integers(0, len(results) - 1))
        step = movement.maps[index]
        assert step is not None
        assert np.array_equal(step.apply(now), results[index].reshape(-1))
        later = step.after(whole)
        if later is None:
            break
        now, whole = results[index], later
    assert np.array_equal(whole.apply(source), now.reshape(-1))
    assert whole.bounds == (now.min(), now.max())
    for plan in plans_for(whole, source.shape, now.shape, 32):
        assert np.array_equal(result_of(plan, source), now)


@pytest.mark.parametrize("index", range(-3, 3))
def test_one_index_of_a_strided_slice(index: int) -> None:
    """With ``shrink_axis_mask`` the end is ignored: the index -1 has the end 0."""
    array = positions((2, 3))
    begin, end = vector("", [0, index]), vector("", [2, index + 1])
    op = StridedSlice(Value("x", i32, (2, 3)), begin, end, vector("", [1, 1]), shrink_axis_mask=2)
    movement = movement_of(op)
    assert movement is not None
    (step,) = movement.maps
    assert step is not None
    assert np.array_equal(step.apply(array), array[:, index])


@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("kind", [DepthToSpace, SpaceToDepth])
def test_blocks_of_pixels(kind: type[Op], block: int) -> None:
    array = positions((2, 2 * block, 3 * block, 2 * block * block))
    op = kind(Value("x", i32, array.shape), block_size=block)
    movement = movement_of(op)
    assert movement is not None
    (step,) = movement.maps
    assert step is not None
    assert np.array_equal(step.apply(array), results_of(op, array)[0].reshape(-1))


@pytest.mark.parametrize("perm", list(permutations(range(4))))
def test_every_plan_of_a_transpose_computes_it(perm: tuple[int, ...]) -> None:
    """The dimensions are divisible by 2, but a plan that moves blocks of 2 would be wrong."""
    array = positions((2, 4, 6, 8))
    movement = movement_of(Transpose(Value("x", i32, array.shape), vector("", perm)))
    assert movement is not None
    (index_map,) = movement.maps
    assert index_map is not None
    moved = array.transpose(perm)
    plans = plans_for(index_map, array.shape, moved.shape, 32)
    assert plans
    for plan in plans:
        assert np.array_equal(result_of(plan, array), moved)


@pytest.mark.parametrize(
    "taken", [range(5, 0, -1), range(5, -1, -1), range(5, 0, -2), range(0, 6, 2), range(1, 2)]
)
def test_slices_are_those_of_numpy(taken: range) -> None:
    source = positions((6, 2))
    step = Sliced((taken, range(2)))
    for op in step.ops(Value("x", i32, (6, 2)), vector):
        assert np.array_equal(results_of(op, source)[0], source[list(taken)])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_joins_read_one_vector(axis: int) -> None:
    """The vector has the elements of one tensor after the other."""
    shape, count = (2, 3, 4), 3
    arrays = np.split(positions((count, *shape)), count)
    joined = joined_map(shape, count, axis)
    expected = np.concatenate([array[0] for array in arrays], axis)
    assert np.array_equal(joined.apply(positions((count, *shape))), expected.reshape(-1))
    assert joined.is_permutation
    assert joined.inverse().after(joined).is_identity  # type: ignore[union-attr]


@pytest.mark.parametrize(("shape", "result"), [((4, 6), (6, 4)), ((2, 6, 4), (8, 2, 3)), ((24,), (2, 3, 4))])
def test_factors_cut_at_axes_are_the_same_map(shape: tuple[int, ...], result: tuple[int, ...]) -> None:
    """The factors of a reshape become the axes at which they are cut."""
    size = math.prod(shape)
    for perm in permutations(range(len(shape))):
        whole = IndexMap.transposed(shape, perm)
        for cut in (cut_at_result, cut_at_axes):
            assert IndexMap.of(size, cut(whole.factors, result)) == whole
    for cut in (cut_at_result, cut_at_axes):
        assert tuple(factor.extent for factor in cut(IndexMap.identity(size).factors, result)) == result


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_merged_axes_are_cut_where_they_were_merged(order: tuple[int, ...]) -> None:
    """Axes of 6, 70 and 15, merged from 2*3, 5*7*2 and 3*5, are cut into the dimensions 2, 3, 5, 7, ..."""
    fine = ((2, 3), (5, 7, 2), (3, 5))
    merged = IndexMap.transposed([math.prod(dims) for dims in fine], order)
    shape = tuple(dim for dims in fine for dim in dims)
    result = tuple(dim for axis in order for dim in fine[axis])
    for found in (cut_at_axes(merged.factors, shape), cut_at_result(merged.factors, result)):
        assert IndexMap.of(math.prod(shape), found) == merged
        assert tuple(factor.extent for factor in found) == result


def test_factors_are_not_cut_where_axes_do_not_divide_them() -> None:
    turned = IndexMap.transposed((6, 4), (1, 0))
    assert [f.extent for f in cut_at_axes(turned.factors, (4, 6))] == [4, 6]
    assert [f.extent for f in cut_at_result(turned.factors, (6, 4))] == [4, 6]


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4), (3, 2, 2, 5)])
def test_no_transpose_has_more_axes_than_needed(shape: tuple[int, ...]) -> None:
    """The result is flat.  No plan has more axes than ``shape``, even if the source is flat, too."""
    for order in permutations(range(len(shape))):
        for source in (shape, (math.prod(shape),)):
            for plan in plans_for(IndexMap.transposed(shape, order), source, (math.prod(shape),), 32):
                assert all(len(step.shape) <= len(shape) for step in plan if isinstance(step, Transposed))


@pytest.mark.parametrize(
    ("factor", "shape", "start", "steps"),
    [
        ((6, 2), (3, 4), [0, 0], [(0, 3, 1), (1, 2, 2)]),  # every second column of all rows
        ((4, 3), (3, 4), [0, 0], None),  # a step that does not divide the row
        ((3, 2), (3, 4), [0, 0], None),  # not all rows end at the same column
        ((2, 2), (3, 4), [0, 0], [(1, 2, 2)]),
        ((3, 4), (3, 4), [0, 0], [(0, 3, 1)]),
        ((2, 8), (3, 4), [0, 0], [(0, 2, 2)]),
        ((2, 6), (3, 4), [0, 0], None),
    ],
)
def test_factors_on_axes(
    factor: tuple[int, int],
    shape: tuple[int, int],
    start: list[int],
    steps: list[tuple[int, int, int]] | None,
) -> None:
    """``steps``: the axis, the extent and the step of each digit."""
    found = IndexMap.of(12, [factor]).on_axes(shape)
    assert found == (None if steps is None else (start, steps))


def test_equal_maps_are_equal_objects() -> None:
    one = IndexMap.transposed((2, 3, 4), (2, 0, 1))
    other = IndexMap.transposed((6, 4), (1, 0))
    assert one == other
    assert hash(one) == hash(other)
    assert one.inverse().after(one).is_identity  # type: ignore[union-attr]
    assert IndexMap.sliced((4, 6), (range(1, 3), range(6))) == IndexMap.sliced((24,), (range(6, 18),))


def test_a_slice_across_rows_has_no_common_map() -> None:
    """Elements 2 to 9 of the transpose of a [4,3] tensor are not evenly spaced along its axes."""
    assert IndexMap.sliced((12,), (range(2, 10),)).after(IndexMap.transposed((4, 3), (1, 0))) is None


SHAPE = (1, 4, 6, 8)

CHEAPEST = {
    "view": (IndexMap.identity(192), (4, 48), [Reshaped]),
    "nothing": (IndexMap.identity(192), SHAPE, []),
    "transpose of the axes": (IndexMap.transposed(SHAPE, (0, 3, 1, 2)), (1, 8, 4, 6), [Transposed]),
    "dimensions of 1": (IndexMap.transposed(SHAPE, (0, 3, 1, 2)), (8, 1, 4, 6), [Transposed]),
    "merged axes": (IndexMap.transposed(SHAPE, (0, 3, 1, 2)), (8, 24), [Reshaped, Transposed]),
    "depth to space": (
        IndexMap.transposed((1, 4, 6, 2, 2, 2), (0, 1, 3, 2, 4, 5)), (1, 8, 12, 2), [BlocksMoved],
    ),
    "space to depth": (
        IndexMap.transposed((1, 2, 2, 3, 2, 8), (0, 1, 3, 2, 4, 5)), (1, 2, 3, 32), [BlocksMoved],
    ),
    "slice": (IndexMap.sliced(SHAPE, (range(1), range(4), range(1, 3), range(8))), (1, 4, 2, 8), [Sliced]),
    "dropped axis": (
        IndexMap.sliced(SHAPE, (range(1), range(1, 2), range(6), range(8))), (1, 6, 8), [Sliced],
    ),
    "tile": (IndexMap.tiled(SHAPE, (1, 1, 2, 1)), (1, 4, 12, 8), [Tiled]),
}  # fmt: skip


def test_attention_heads_are_transposed() -> None:
    """DEPTH_TO_SPACE and RESHAPE would do the same; more passes know TRANSPOSE."""
    heads = IndexMap.transposed((20, 4, 8), (1, 0, 2))
    plan = plans_for(heads, (1, 1, 20, 32), (1, 4, 20, 8), 32)[0]
    assert [type(step) for step in plan] == [Reshaped, Transposed]


@pytest.mark.parametrize("name", CHEAPEST)
def test_cheapest_plan(name: str) -> None:
    index_map, result, kinds = CHEAPEST[name]
    plan = plans_for(index_map, SHAPE, result, 32)[0]
    assert [type(step) for step in plan] == kinds


def test_a_shuffle_of_two_tensors_can_be_a_pack() -> None:
    sources = tuple(Value(name, i32, (1, 2, 2, 3)) for name in "ab")
    joined = movement_of(Concatenation(*sources, axis=3))
    assert joined is not None
    joined_map = joined.maps[0]
    assert joined_map is not None
    shuffled = IndexMap.transposed((4, 2, 3), (0, 2, 1)).after(joined_map)
    assert shuffled is not None
    forms = joins_for(shuffled, sources, (1, 2, 2, 6))
    stacked = next(form for form in forms if (form.is_pack, form.axis) == (True, 4))
    assert stacked.rest == (Reshaped((1, 2, 2, 6)),)
    # two operators, PACK and RESHAPE; 24 elements of 4 bytes, and each element is a run of its own
    assert stacked.cost(sources) == MovementCost(24 * 4 + 24 * RUN_BYTES, 2)
    assert forms[0].cost(sources) < stacked.cost(sources)  # a transpose copies faster than a PACK of elements


@pytest.mark.parametrize("row", [1, 2])
@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize(
    "steps", [(2, 1), (-2, -1), (2, -1), (-2, 1), (-2, -1, 1), (2, 1, -1), (3, -2), (1, -2, 1)]
)
def test_digits_that_leave_a_row_together_have_no_steps(steps: tuple[int, ...], first: int, row: int) -> None:
    """Digits of 0 or 1 move along a row of 6 columns: from column 3, steps 2 and 1 reach columns 3 to 6."""
    found = IndexMap(24, tuple(Factor(2, step) for step in steps), row * 6 + first).on_axes((4, 6))
    columns = [first + sum(taken) for taken in product(*((0, step) for step in steps))]
    if min(columns) >= 0 and max(columns) < 6:
        assert found == ([row, first], [(1, 2, step) for step in steps])
    else:
        assert found is None
