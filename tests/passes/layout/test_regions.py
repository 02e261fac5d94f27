# SPDX-License-Identifier: Apache-2.0
"""In regions of random graphs, the values of a tensor are transposes of its root, as a run shows.

The terms (region, tensor, root, side, variable) are those of ``region.py``.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.value import Array
from circlekit.passes.layout.optimize import moves_by
from circlekit.passes.layout.region_finder import RegionFinder
from tests.passes.kit import make_input
from tests.passes.layout.random_graphs import BUILDERS, NHWC, OTHER, Step, make_model


def drawn(seed: int) -> list[Step]:
    """Return random steps, on average more than half of them transposes."""
    random = np.random.default_rng(seed)
    count = len(BUILDERS)
    transposes = (0, 1, count - 1)
    kinds = [
        int(random.choice(transposes) if random.integers(2) else random.integers(count)) for _ in range(14)
    ]
    return [(kind, int(random.integers(50)), int(random.integers(10**6))) for kind in kinds]


@pytest.mark.parametrize("most_sides", [2, 12])
@pytest.mark.parametrize("seed", range(30))
def test_values_of_a_tensor_are_transposes_of_its_root(seed: int, most_sides: int) -> None:
    model = make_model(drawn(seed))
    perms = [NHWC, OTHER] if most_sides > 2 else [NHWC]
    finder = RegionFinder(model.main, perms, most_sides=most_sides)
    regions = list(finder.regions(moves_by(model.main, perms)))
    arrays: dict[str, Array] = {}
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    run(model, inputs, on_value=arrays.__setitem__)
    arrays |= {value.name: array for value, array in zip(model.main.inputs, inputs, strict=True)}
    members = [value for region in regions for tensor in region.tensors for value in tensor.sides]
    assert len(members) == len({*members})
    for region in regions:
        assert len(region.sides) <= most_sides
        for tensor in region.tensors:
            root = arrays[tensor.root.name]
            for value, side in tensor.sides.items():
                moved = root.transpose(finder.perm(tensor.side, side))
                np.testing.assert_array_equal(arrays[value.name], moved)
                assert finder.sides[value] == side
            places = np.arange(root.size).reshape(root.shape)
            places_on = {side: places.transpose(finder.perm(tensor.side, side)) for side in region.sides}
            for a, b in product(region.sides, repeat=2):
                is_same = np.array_equal(places_on[a], places_on[b])
                assert (tensor.shapes[a] == tensor.shapes[b]) is is_same
                is_view = np.array_equal(places_on[a].reshape(-1), places_on[b].reshape(-1))
                assert (tensor.orders[a] == tensor.orders[b]) is is_view
        for variable in region.variables:
            values = [variable.op.inputs[index] for index in sorted(variable.operands)] + variable.op.results
            with_side = [value for value in values if value is not None and finder.has_side(value)]
            assert {finder.sides[value] for value in with_side} <= {variable.side}
            assert variable.changes[variable.side] == {}
