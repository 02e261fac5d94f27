# SPDX-License-Identifier: Apache-2.0
"""``collapse`` replaces chains of data movement by MovementOps of equal index maps; ``expand`` undoes it."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.passes.layout.movement_op import MovementOp, collapse, expand
from circlekit.passes.layout.movement_writer import MovementWriter
from circlekit.rewrite.base import Context
from tests.passes.kit import make_input
from tests.passes.layout.random_graphs import BUILDERS, NHWC, OTHER, make_model

HEAD = "%a = Relu(%x) "
BODIES = {
    "%r = Reshape(%a, [1,2,3,4,4]) %t = Transpose(%r, [0,2,1,3,4]) %y = Reshape(%t, [1,6,4,4])": 3,
    "%r = Tile(%a, [1,1,1,2]) %s = Reshape(%r, [1,6,8,4]) %y = Abs(%s)": 2,
    "%r = Reshape(%a, [1,6,16,1]) %y = Abs(%r)": 1,
    "%t = Transpose(%a, [0,2,3,1]) %r = Reshape(%t, [1,4,2,12]) %y = Abs(%r)": 1,
    "%r = Reshape(%a, [1,6,2,8]) %t = Transpose(%r, [0,2,3,1]) %y = Abs(%t)": 1,
    "%r = Reshape(%a, [1,6,2,8]) %y = Abs(%r) %z = Neg(%r)": 1,
    "%t = Transpose(%a, [0,2,3,1]) %y = Abs(%t)": 0,
    "%r = Slice(%a, [0,0,0,0], [1,6,2,4]) %y = Abs(%r)": 0,
    "%r = Reshape(%a, [1,6,16]) %y = Abs(%r)": 0,
    "%r = Reshape(%a, [6,16]) %t = Transpose(%r, [1,0]) %y = Abs(%t)": 0,
    "%r = Reshape(%a, [1,6,16]) %y = Reshape(%r, [1,6,8,2])": 2,
    "%r = Reshape(%a, [1,6,16]) %z = Neg(%r) %y = Reshape(%r, [1,6,8,2])": 0,
    "%r = Concatenation(%a, %a) {axis: 3} %s = Reshape(%r, [1,6,8,4]) %y = Abs(%s)": 1,
    "%t = Transpose(%a, [0,2,1,3]) %r = Reshape(%t, [1,96]) %s = Slice(%r, [0,1], [1,90]) "
    "%y = Reshape(%s, [1,5,3,6])": 0,  # no index map: the slice begins and ends inside of an axis
    "%r = ReverseV2(%a, [1]) %s = Reshape(%r, [1,6,8,2]) %y = Abs(%s)": 2,
}
"""{operators after HEAD: how many of them one MovementOp replaces, or 0 if there is none}."""


def collapsed(model: Model, perms: list[tuple[int, ...]]) -> list[MovementOp]:
    collapse(model.main, perms, MovementWriter(model.main, Context()))
    return [op for op in model.main if isinstance(op, MovementOp)]


def check_maps(model: Model, perms: list[tuple[int, ...]]) -> list[MovementOp]:
    """Collapse and expand; compare each index map with the values of its chain in a run of the original."""
    before = clone(model)
    arrays: dict[str, Array] = {}
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    run(before, inputs, on_value=arrays.__setitem__)
    ops = collapsed(model, perms)
    for op in ops:
        assert all(chained.graph is None for chained, _ in op.chain)
        found = op.map.apply(arrays[op.input.name])
        np.testing.assert_array_equal(found, arrays[op.output.name].reshape(-1))
    expand(model.main, ())
    assert difference(model, before) is None
    return ops


@pytest.mark.parametrize("body", BODIES)
def test_a_chain_between_values_of_rank_4_becomes_one_operator(body: str) -> None:
    outputs = "%y, %z" if "%z" in body else "%y"
    model = parse_model(f"graph main(%x: f32[1,6,4,4]) -> {outputs} {{ {HEAD}{body} }}")
    ops = check_maps(model, [NHWC])
    assert [len(op.chain) for op in ops] == ([BODIES[body]] if BODIES[body] else [])


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_come_back_unchanged(seed: int) -> None:
    random = np.random.default_rng(seed)
    limits = (len(BUILDERS), 50, 10**6)
    chosen = [
        (int(random.integers(a)), int(random.integers(b)), int(random.integers(c)))
        for a, b, c in [limits] * 12
    ]
    check_maps(make_model(chosen), [NHWC, OTHER])
