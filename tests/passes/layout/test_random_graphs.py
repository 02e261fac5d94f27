# SPDX-License-Identifier: Apache-2.0
"""Layout on random graphs: values, interface, predicted cost, and no change in a second run."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import HealthCheck, example, given, settings

from circlekit.interp.interpreter import run
from circlekit.ir.graph import Model
from circlekit.ir.text import print_model
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.layout.labels import Cost
from circlekit.passes.layout.optimize import OptimizeLayout, improved_labels, moves_by
from circlekit.passes.layout.region_finder import RegionFinder
from circlekit.passes.layout.region_problem import problem_of
from circlekit.passes.layout.region_rewriter import Applier, Constants
from circlekit.rewrite.base import Context
from circlekit.targets.cost import value_bytes
from tests.passes.kit import assert_close, interface_of, verify
from tests.passes.layout.random_graphs import NHWC, Step, make_model, steps

EXAMPLES = settings(
    max_examples=120, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def cost_of(model: Model) -> Cost:
    """Return the bytes moved by the transposes of ``model``, and their number."""
    moves = [op for op in model.main if isinstance(op, Transpose)]
    return Cost(sum(value_bytes(op.output) for op in moves), len(moves))


# a transpose and a chain of data movement that would change places in each sweep: see ``improved_labels``
CHANGE_PLACES: list[Step] = [
    (1, 24, 557),
    (11, 38, 122458),
    (11, 47, 868067),
    (10, 26, 139541),
    (9, 31, 5235),
    (10, 27, 5038),
    (4, 9, 162),
    (8, 24, 674),
    (11, 38, 122458),
]


@EXAMPLES
@example(CHANGE_PLACES)
@given(steps(14))
def test_values_and_interface_stay_equal_and_cost_never_grows(chosen: list[Step]) -> None:
    model = make_model(chosen)
    before, interface = cost_of(model), interface_of(model)
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)
    wanted = run(model, [x])
    changes = OptimizeLayout().run(model, Context(refusals=[]))
    after = cost_of(model)
    assert after == before or (changes and after.improves_on(before))
    assert interface_of(model) == interface
    verify(model)
    assert_close(run(model, [x]), wanted)
    once = print_model(model)
    assert OptimizeLayout().run(model, Context()) == 0
    assert print_model(model) == once


@EXAMPLES
@given(steps(10))
def test_labelling_is_optimal_and_cost_is_as_predicted(chosen: list[Step]) -> None:
    """Of all labels of a region, ``solve`` finds the cheapest; applying them costs what the problem says.

    If the elements have the same order in memory in all layouts, a copy is a Reshape: it counts as a move,
    but is no Transpose.
    """
    model = make_model(chosen)
    finder = RegionFinder(model.main, [NHWC], most_sides=2)
    regions = list(finder.regions(moves_by(model.main, [NHWC])))
    expected, has_reshapes = cost_of(model), False
    taken = []
    for region in regions:
        problem, current = problem_of(region, finder), region.current_cost()
        every = [problem.cost(labels) for labels in itertools.product(*(v.charges for v in region.variables))]
        assert problem.cost(problem.solve()) == min(every)
        fewest = min(every, key=lambda c: (c.moves, c.bytes, c.ops_after))
        assert problem.cost(problem.solve(moves_first=True)) == fewest
        labels = improved_labels(finder, region)
        if labels is None:
            assert not any(c.improves_on(current) for c in (min(every), fewest))
            continue
        cost = problem.cost(labels)
        assert cost.improves_on(current)
        expected = Cost(
            expected.bytes - current.bytes + cost.bytes, expected.moves - current.moves + cost.moves
        )
        has_reshapes |= any(t.has_one_order for t in region.tensors)
        taken.append((region, labels))
    applier = Applier(finder, Constants(model.main))
    for region, labels in taken:
        applier.apply(region, labels)
    after = cost_of(model)
    assert after.bytes == expected.bytes
    assert after.moves == expected.moves or has_reshapes
