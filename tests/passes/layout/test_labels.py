# SPDX-License-Identifier: Apache-2.0
"""The minimum cut and the labels, compared with exhaustive search."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlekit.passes.layout.labels import Cost, Demand, Problem
from circlekit.passes.layout.minimum_cut import SINK, SOURCE, Network

EXAMPLES = settings(max_examples=75, derandomize=True, deadline=None)
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
def problems(draw: st.DrawFn, sides: int) -> Problem:
    """Draw a problem.

    A variable may lack some labels.  A tensor may need no copy between some labels (``Demand.classes``).
    """
    label = st.integers(0, sides - 1)
    current = draw(st.lists(label, max_size=6 if sides == 2 else 4))
    end = st.sampled_from([*range(len(current)), *(~number for number in range(sides))])
    cost = st.builds(Cost, st.sampled_from([0, 1, 2, 3, 8]), st.integers(0, 1), st.integers(0, 3))
    classes = st.just(range(sides)) | st.lists(label, min_size=sides, max_size=sides)
    demand = st.builds(Demand, end, st.lists(end, max_size=4), cost, classes)
    charges = [{now: draw(cost)} | draw(st.dictionaries(label, cost)) for now in current]
    return Problem(current, draw(st.lists(demand, max_size=8)), charges, range(sides))


def worth(problem: Problem, labels: Sequence[int], moves_first: bool) -> tuple[int, ...]:
    """Return what ``solve`` minimizes, the most important part first."""
    cost = problem.cost(labels)
    changes = sum(a != b for a, b in zip(labels, problem.current, strict=True))
    first = (cost.moves, cost.bytes) if moves_first else (cost.bytes, cost.moves)
    return (*first, cost.ops_after, changes)


@EXAMPLES
@given(problems(2), st.booleans())
def test_two_labels_have_minimal_cost_and_fewest_changes(problem: Problem, moves_first: bool) -> None:
    every = itertools.product(*(charges for charges in problem.charges))
    best = min(worth(problem, labels, moves_first) for labels in every)
    assert worth(problem, problem.solve(moves_first), moves_first) == best


@EXAMPLES
@given(problems(3), st.booleans())
def test_no_swap_and_no_expansion_improves_three_labels(problem: Problem, moves_first: bool) -> None:
    found = problem.solve(moves_first)
    here = worth(problem, found, moves_first)
    assert here <= worth(problem, problem.current, moves_first)
    for low, high in itertools.permutations(range(3), 2):
        for takes in ({high}, {low, high}):  # an expansion, and a swap
            free = [takes == {high} or now in takes for now in found]
            choices = [
                {now, *(takes & charges.keys() if is_free else ())}
                for now, charges, is_free in zip(found, problem.charges, free, strict=True)
            ]
            swapped = itertools.product(*choices)
            assert here <= min(worth(problem, labels, moves_first) for labels in swapped)


def test_another_label_saves_one_of_three_copies() -> None:
    """Two operands and the result have the fixed layouts 1, 2 and 3; the operator between them has layout 0.

    That needs three copies.  With layout 1, 2 or 3 it needs two.
    """
    demands = [Demand(~1, [0], Cost(8, 1)), Demand(~2, [0], Cost(8, 1)), Demand(0, [~3], Cost(8, 1))]
    charges = [dict.fromkeys(range(4), Cost())]
    problem = Problem([0], demands, charges, range(4))
    assert problem.cost([0]) == Cost(24, 3)
    assert problem.cost(problem.solve()) == Cost(16, 2)


def test_a_second_round_of_steps_improves_more_labels() -> None:
    """The first round of steps ends at 15 bytes.  A random search found this problem."""
    demands = [
        Demand(1, [1, ~2], Cost(1)),
        Demand(0, [0, ~0, ~1], Cost(3)),
        Demand(0, [0, 1, 2], Cost(3)),
    ]
    charges = [
        {0: Cost(8), 1: Cost(3), 2: Cost(2)},
        {0: Cost(3), 1: Cost(3)},
        {1: Cost(8), 0: Cost(3), 2: Cost(0)},
    ]
    problem = Problem([0, 0, 1], demands, charges, range(3))
    assert min(problem.cost(labels).bytes for labels in itertools.product(*charges)) == 13
    assert problem.cost(problem.solve()).bytes == 13


FREE = [{0: Cost(), 1: Cost()}]


def test_shared_copy_is_counted_once() -> None:
    cost = Cost(10, 1)
    demands = [Demand(~0, [0, 1, 2], cost), *(Demand(i, [~1], Cost(4, 1)) for i in range(3))]
    problem = Problem([0, 0, 0], demands, FREE * 3)
    assert problem.cost([0, 0, 0]) == Cost(12, 3)
    assert problem.solve() == [1, 1, 1]
    assert problem.cost([1, 1, 1]) == cost


def test_costs_are_compared_in_order() -> None:
    """One byte more is worse than any number of moves, unless ``moves_first``.

    Of labels with equal costs, those with the fewest changes are taken.
    """
    fixed = [Demand(~0, [0], Cost(0, 5)), Demand(~1, [0], Cost(1, 0))]
    assert Problem([0], fixed, FREE).solve() == [1]
    assert Problem([0], fixed, FREE).solve(moves_first=True) == [0]
    chain = [Demand(0, [1], Cost(1)), Demand(1, [2], Cost(1))]
    for today, best in (([0, 1, 1], [1, 1, 1]), ([0, 0, 1], [0, 0, 0])):
        assert Problem(today, chain, FREE * 3).solve() == best


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
    """With so many nodes, both heuristics of minimum_cut.py act: global relabelling and gap relabelling."""
    count = 2_000
    random = np.random.default_rng(0)
    sizes = random.integers(1, 1000, count).tolist()
    middle = range(count - 1)
    demands = {
        "chain": [Demand(i, [i + 1], Cost(sizes[i], 1)) for i in middle],
        "wide": [Demand(0, range(1, count), Cost(sizes[0], 1))],
        "walls": [Demand(i, [i + 1, ~(i // 7 % 2)][: 1 + (i % 7 == 0)], Cost(sizes[i], 1)) for i in middle],
    }[kind]
    ends = [Demand(~1, [0], Cost(500, 1)), Demand(count - 1, [~1], Cost(500, 1))]
    problem = Problem([0] * count, [*demands, *ends], FREE * count)
    labels = problem.solve()
    assert problem.cost(labels) <= min(problem.cost([0] * count), problem.cost([1] * count))
