# SPDX-License-Identifier: Apache-2.0
"""A fixed sample of tools/random_graphs: passes, lists of passes and O1 on random models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circlekit.equivalence.delta_debugging import reduce_model
from circlekit.ir.graph import Graph
from circlekit.ir.text import parse_model
from circlekit.ops.arithmetic.binary import Sub
from circlekit.rewrite.base import PASSES as DEFINED
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.picture import Picture
from circlekit.testing.model_builder import RANDOM_OPERATORS, ModelBuilder, Rejected
from circlekit.testing.random_models import add_instance
from tools.random_graphs.checks import Fault, Original, count_ops
from tools.random_graphs.examine import Finding, examine, reproduces
from tools.random_graphs.graphs import PARTS, Step, make, pictures, random_steps

FIRST, GRAPHS = 31_006, 9

UNMADE = 0.05
"""Largest share of pictures without an instance: they need operands that the generator does not make."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + GRAPHS))
def test_passes_on_random_graph(seed: int) -> None:
    found = examine(seed).findings
    assert not found, "\n".join(f"{','.join(f.passes)} ({f.format}): {f.sentence}" for f in found)


def test_models_are_deterministic() -> None:
    steps = random_steps(FIRST)
    one, two = (Original(*make(FIRST, steps)) for _ in range(2))
    assert one.text == two.text
    for a, b in zip(one.outputs[0], two.outputs[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_generator_part_is_used() -> None:
    """A part that is never usable tests nothing."""
    for index, part in enumerate(PARTS):
        if part not in PARTS[:index]:
            models = (make(seed, [Step(0, seed), Step(index, seed)])[0] for seed in range(60))
            assert any(count_ops(model) > 1 for model in models), part


@pytest.fixture
def wrong_pass() -> Iterator[str]:
    """Define a pass that swaps the operands of subtractions from a constant; yield its name."""

    class WrongSub(GraphPass):
        """a - b == b - a"""

        name = "wrong_sub_for_this_test"

        def run_graph(self, graph: Graph, context: Context) -> int:
            subs = [op for op in graph if isinstance(op, Sub) and op.lhs.is_const]
            for op in subs:
                lhs, rhs = op.lhs, op.rhs
                op.set_input(0, rhs)
                op.set_input(1, lhs)
            return len(subs)

    yield WrongSub.name
    del DEFINED[WrongSub.name]


def wrong_values(seed: int, name: str) -> Finding | None:
    """Return the finding if the pass changes values of the model of ``seed``."""
    try:
        Original(*make(seed, random_steps(seed))).check((name,), "circle", with_text=False)
    except Fault as fault:
        return Finding(seed, fault.kind, (name,), "circle", str(fault)) if fault.kind == "values" else None
    return None


def test_faulty_pass_is_found_and_reduced(wrong_pass: str, tmp_path: Path) -> None:
    first = next(f for seed in range(60) if (f := wrong_values(seed, wrong_pass)) is not None)
    model, _ = make(first.seed, random_steps(first.seed))
    small = reduce_model(model, reproduces(first, tmp_path), 200)
    assert 1 <= count_ops(small) <= 3
    assert any(isinstance(op, Sub) for op in small.ops())


def test_rounding_difference_is_not_a_finding() -> None:
    """A rounding step after a cancelling sum depends on the last bit."""
    text = """graph main(%x: f32[64]) -> %y {
      %a = Mul(%x, 1.0000001)
      %b = Sub(%a, %x)
      %c = Mul(%b, 1000000.0)
      %y = Round(%c)
    }"""
    model = parse_model(text)
    original = Original(model, [np.random.default_rng(0).normal(0, 1, 64).astype(np.float32)])
    other = parse_model(text.replace("%a = Mul(%x, 1.0000001)", "%a = Mul(%x, 1.0000002)"))
    original.check_same(other)
    wrong = parse_model(text.replace("1000000.0", "300000000.0"))
    with pytest.raises(Fault, match="values"):
        original.check_same(wrong)


def test_overflow_difference_is_not_a_finding() -> None:
    """DIV clamps 1 / sqrt(0) to the largest float, but RSQRT(0) is infinite.  So %d is 0 or NaN."""
    text = """graph main(%x: f32[1,4]) -> %y {
      %s = Sqrt(%x)
      %r = Div(1.0, %s)
      %m = Mean(%r, [1]) {keep_dims: true}
      %d = Sub(%m, %r)
      %y = Mean(%d, [1])
    }"""
    model = parse_model(text)
    original = Original(model, [np.zeros((1, 4), np.float32)])
    assert not any(original.has_nan)
    other = text.replace("%s = Sqrt(%x)", "").replace("%r = Div(1.0, %s)", "%r = Rsqrt(%x)")
    original.check_same(parse_model(other))


def test_unexpected_nan_is_a_finding() -> None:
    model = parse_model("graph main(%x: f32[4]) -> %y { %y = Exp(%x) }")
    original = Original(model, [np.full(4, 1000, np.float32)])
    wrong = parse_model("graph main(%x: f32[4]) -> %y { %n = Neg(%x)\n %y = Log(%n) }")
    with pytest.raises(Fault, match="values"):
        original.check_same(wrong)


def is_made(picture: Picture, seed: int) -> bool:
    try:
        add_instance(ModelBuilder.of_seed(seed), picture)
    except Rejected:
        return False
    return True


def test_nearly_every_picture_has_an_instance() -> None:
    """An instance is operators that match the picture; every third picture is tried."""
    sample = pictures()[::3]
    wanted = [p for p in sample if not any(k.code in RANDOM_OPERATORS for n in p.nodes for k in n.kinds)]
    never = [p for p in wanted if not any(is_made(p, seed) for seed in range(60))]
    assert len(never) <= UNMADE * len(sample), [p.root for p in never]
