# SPDX-License-Identifier: Apache-2.0
"""The minimum cut and the labels, compared with exhaustive search."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlekit.passes.layout.labels import FIXED, SINK, SOURCE, Cost, Demand, Network, Problem

EXAMPLES = settings(max_examples=150, derandomize=True, deadline=None)
NODES = 6

Edge = tuple[int, int, int, int]


def cut_cost(edges: Sequence[Edge], sides: Sequence[bool]) -> int:
    """Return the cost of the edges from the source's side to the sink's."""
    total = 0
    for a, b, there, back in edges:
        if sides[a] != sides[b]:
            total += back if sides[a] else there
    return total


@EXAMPLES
@given(
    st.lists(
        st.tuples(
            st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(0, 9), st.integers(0, 9)
        ).filter(lambda edge: edge[0] != edge[1]),
        max_size=20,
    )
)
def test_cut_is_minimal(edges: list[Edge]) -> None:
    network = Network()
    for _ in range(NODES - 2):
        network.add_node()
    for a, b, there, back in edges:
        network.add_edge(a, b, there)
        network.add_edge(b, a, back)
    found = network.minimum_cut()
    assert not found[SOURCE]
    assert found[SINK]
    cuts = [(False, True, *rest) for rest in itertools.product((False, True), repeat=NODES - 2)]
    least = min(cut_cost(edges, cut) for cut in cuts)
    assert cut_cost(edges, found) == least
    smallest = min(sum(cut) for cut in cuts if cut_cost(edges, cut) == least)
    assert sum(found) == smallest


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    count = draw(st.integers(0, 6))
    end = st.sampled_from([*range(count), *FIXED])
    cost = st.builds(Cost, st.sampled_from([0, 1, 2, 3, 8]), st.integers(0, 1), st.integers(0, 3))
    demand = st.builds(Demand, end, st.lists(end, max_size=4), cost)
    charge = st.tuples(cost, cost)
    return Problem(
        draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)),
        draw(st.lists(demand, max_size=8)),
        draw(st.just([]) | st.lists(charge, min_size=count, max_size=count)),
    )


@EXAMPLES
@given(problems(), st.booleans())
def test_labelling_has_minimal_cost_and_fewest_changes(problem: Problem, moves_first: bool) -> None:
    def worth(labels: Sequence[int]) -> tuple[int, ...]:
        cost = problem.cost(labels)
        changes = sum(a != b for a, b in zip(labels, problem.current, strict=True))
        first = (cost.moves, cost.bytes) if moves_first else (cost.bytes, cost.moves)
        return (*first, cost.ops_after, changes)

    best = min(worth(labels) for labels in itertools.product((0, 1), repeat=len(problem.current)))
    assert worth(problem.solve(moves_first)) == best


def test_shared_copy_is_counted_once() -> None:
    cost = Cost(10, 1)
    problem = Problem(
        [0, 0, 0], [Demand(FIXED[0], [0, 1, 2], cost), *(Demand(i, [FIXED[1]], Cost(4, 1)) for i in range(3))]
    )
    assert problem.cost([0, 0, 0]) == Cost(12, 3)
    assert problem.solve() == [1, 1, 1]
    assert problem.cost([1, 1, 1]) == cost


def test_costs_are_compared_in_order() -> None:
    """One byte more is worse than any number of moves; then moves count, then the number of changes."""
    fixed = [Demand(FIXED[0], [0], Cost(0, 5)), Demand(FIXED[1], [0], Cost(1, 0))]
    assert Problem([0], fixed).solve() == [1]
    assert Problem([0], fixed).solve(moves_first=True) == [0]
    chain = [Demand(0, [1], Cost(1)), Demand(1, [2], Cost(1))]
    for today, best in (([0, 1, 1], [1, 1, 1]), ([0, 0, 1], [0, 0, 0])):
        assert Problem(today, chain).solve() == best


@pytest.mark.parametrize(
    ("cost", "is_better"),
    [
        (Cost(4, 2, 9), False),
        (Cost(4, 2, 8), True),
        (Cost(4, 2, 10), False),
        (Cost(3, 2, 99), True),
        (Cost(4, 1, 99), True),
        (Cost(3, 1), True),
        (Cost(3, 3), False),
        (Cost(5, 1), False),
    ],
)
def test_cost_improves_on(cost: Cost, is_better: bool) -> None:
    assert cost.improves_on(Cost(4, 2, 9)) is is_better


def test_costs_are_zero_unless_given() -> None:
    assert Cost().plus(Cost(1, 2, 3)) == Cost(1, 2, 3)


@pytest.mark.parametrize("kind", ["chain", "wide", "walls"])
def test_a_large_problem(kind: str) -> None:
    """Many nodes are relabelled globally, and gaps close."""
    count = 2_000
    random = np.random.default_rng(0)
    sizes = random.integers(1, 1000, count).tolist()
    middle = range(count - 1)
    demands = {
        "chain": [Demand(i, [i + 1], Cost(sizes[i], 1)) for i in middle],
        "wide": [Demand(0, range(1, count), Cost(sizes[0], 1))],
        "walls": [
            Demand(i, [i + 1, FIXED[i // 7 % 2]][: 1 + (i % 7 == 0)], Cost(sizes[i], 1)) for i in middle
        ],
    }[kind]
    ends = [Demand(FIXED[1], [0], Cost(500, 1)), Demand(count - 1, [FIXED[1]], Cost(500, 1))]
    problem = Problem([0] * count, [*demands, *ends])
    labels = problem.solve()
    assert problem.cost(labels) <= min(problem.cost([0] * count), problem.cost([1] * count))
