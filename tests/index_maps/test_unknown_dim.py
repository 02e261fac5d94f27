# SPDX-License-Identifier: Apache-2.0
"""Index maps of tensors with one unknown dimension: they hold for every size of it, or are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlekit
from circlekit.index_maps.chains import origins, present_cost
from circlekit.index_maps.index_map import Factor, IndexMap
from circlekit.index_maps.of_operators import movement_of
from circlekit.index_maps.steps import RUN_BYTES, MovementCost
from circlekit.index_maps.unknown_dim import (
    UNKNOWN_DIM,
    dims_of,
    has_dims,
    has_known_channels,
    holds_for_all,
    known_count,
    written,
)
from circlekit.index_maps.write_back import _with_unknown_apart, plans_for
from circlekit.ir.dtypes import f32
from circlekit.ir.value import Array, Value


def test_the_number_for_an_unknown_dimension_is_prime() -> None:
    """Miller and Rabin's test; the first 12 primes decide every number below 3e23."""
    odd, twos = UNKNOWN_DIM - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        powers = [pow(base, odd << n, UNKNOWN_DIM) for n in range(twos)]
        assert powers[0] == 1 or UNKNOWN_DIM - 1 in powers
    assert UNKNOWN_DIM > 2**40


@pytest.mark.parametrize(
    ("shape", "has", "has_channels"),
    [
        (None, False, False),
        ((2, 3), True, True),
        ((None, 3), True, True),
        ((2, None), True, False),
        ((None, None), False, False),
        ((2, 0), False, False),
        ((), True, False),
    ],
)
def test_shapes_that_have_dimensions(
    shape: tuple[int | None, ...] | None, has: bool, has_channels: bool
) -> None:
    value = Value("x", f32, shape)
    assert has_dims(value) is has
    assert has_known_channels(value) is has_channels


def test_unknown_dimensions_count_as_one_and_are_written_as_minus_one() -> None:
    dims = dims_of(Value("x", f32, (None, 3, 4)))
    assert known_count(dims) == 12
    assert written(dims) == [-1, 3, 4]
    assert written([2 * UNKNOWN_DIM, 3]) == [-1, 3]


KNOWN: dict[str, Callable[[Array], Array]] = {
    "Transpose(%x, [1, 0, 2])": lambda x: x.transpose(1, 0, 2),
    "Reshape(%x, [-1, 4, 3])": lambda x: x.reshape(-1, 4, 3),
    "Reshape(%x, [-1, 12])": lambda x: x.reshape(-1, 12),
    "Slice(%x, [0, 1, 0], [-1, 2, 2])": lambda x: x[:, 1:, :2],
    "ReverseV2(%x, [2])": lambda x: x[:, :, ::-1],
    "Tile(%x, [1, 2, 1])": lambda x: np.tile(x, (1, 2, 1)),
    "Gather(%x, [2]) {axis: 1}": lambda x: x[:, 2:],
}


@pytest.mark.parametrize("call", KNOWN)
@pytest.mark.parametrize("count", [1, 3])
def test_plans_hold_for_every_number(call: str, count: int) -> None:
    graph = circlekit.parse(f"graph main(%x: f32[?,3,4]) -> %y {{ %y = {call} }}").main
    x, y = graph.inputs[0], graph.outputs[0]
    (found,) = origins(y)
    source = now = np.arange(count * 12, dtype=np.float32).reshape(count, 3, 4)
    value = x
    for step in plans_for(found.map, dims_of(x), dims_of(y), 32)[0]:
        op = next(step.ops(value, lambda _, numbers: Value.constant("", np.array(numbers, np.int32))))
        now = op.kernel(now, *(v.array() for v in op.inputs[1:] if v is not None))
        value = op.output
    assert np.array_equal(now, KNOWN[call](source))


@pytest.mark.parametrize(
    "call",
    [
        "Slice(%x, [1, 0, 0], [-1, 3, 4])",  # all but the first
        "ReverseV2(%x, [0])",
    ],
)
def test_maps_that_depend_on_the_number_are_refused(call: str) -> None:
    graph = circlekit.parse(f"graph main(%x: f32[?,3,4]) -> %y {{ %y = {call} }}").main
    found = movement_of(graph.ops[0])
    assert found is None or not any(
        plans_for(m, dims_of(graph.inputs[0]), dims_of(graph.outputs[0]), 32) for m in found.maps if m
    )


def test_a_broadcast_to_an_unknown_size_is_refused() -> None:
    """The unknown dimension of the operand may be 1, and that of the result 5."""
    text = "graph main(%x: f32[?,1], %s: i32[2]) -> %z { %y = BroadcastTo(%x, %s) : f32[?,3] %z = Abs(%y) }"
    assert movement_of(circlekit.parse(text).main.ops[0]) is None
    text = text.replace("Abs(%y)", "Transpose(%y, [1, 0])")
    model, inputs = circlekit.parse(text), [np.ones((1, 1), np.float32), np.array([5, 3], np.int32)]
    circlekit.optimize(model)
    assert circlekit.run(model, inputs)[0].shape == (3, 5)


def test_maps_that_hold_for_all() -> None:
    n = UNKNOWN_DIM
    assert holds_for_all(IndexMap.of(6 * n, [(3, 1), (2 * n, 3)]))  # the transpose of [2 n, 3]
    assert holds_for_all(IndexMap.of(6 * n, [(n, 3)], 3 * n + 1))  # an offset just above 3 n
    assert not holds_for_all(IndexMap.of(6 * n, [(n - 1, 6)]))  # all but the last of n rows
    assert not holds_for_all(IndexMap.of(6, [(n, 0), (6, 1)]))  # n repetitions
    assert not holds_for_all(IndexMap.of(6 * n, [(2, 3 * n - 1)]))  # a stride that is not a multiple of n
    assert not holds_for_all(IndexMap.of(6 * n, [(n, -6)], 6 * n - 6))  # n rows in reverse order


def test_an_unknown_dimension_costs_as_much_as_1() -> None:
    """1 * 3 * 4 elements of float32 are 48 bytes."""
    graph = circlekit.parse("graph main(%x: f32[?,3,4]) -> %y { %y = Transpose(%x, [1, 0, 2]) }").main
    assert present_cost(graph.ops[0]) == MovementCost(48, 1)


@pytest.mark.parametrize("axis", [0, -1, 2])
def test_a_join_of_unknown_rank_copies_each_operand_at_once(axis: int) -> None:
    """The result counts as one float32, each operand as one run."""
    join = f"%y = Concatenation(%a, %b) {{axis: {axis}}} : f32[*]"
    graph = circlekit.parse(f"graph main(%a: f32[*], %b: f32[*]) -> %y {{ {join} }}").main
    assert present_cost(graph.ops[0]) == MovementCost(4 + 2 * RUN_BYTES, 1)


def test_a_factor_of_unknown_and_known_dimensions_is_divided() -> None:
    """Three elements for each index of the unknown dimension, four apart: the dimension has stride 12."""
    factors = [Factor(3 * UNKNOWN_DIM, 4), Factor(UNKNOWN_DIM, 2), Factor(2, 1)]
    divided = [Factor(UNKNOWN_DIM, 12), Factor(3, 4), Factor(UNKNOWN_DIM, 2), Factor(2, 1)]
    assert list(_with_unknown_apart(factors)) == divided
