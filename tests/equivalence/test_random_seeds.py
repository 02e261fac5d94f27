# SPDX-License-Identifier: Apache-2.0
"""Random operators without a seed: a rewrite may rename their results; changed values are found."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.errors import EquivalenceError
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ops.arithmetic.binary import Add
from circlekit.rewrite.base import PASSES, Context, Pass

BRANCH = """
graph main(%x: f32[2]) -> %y { %y = If([true], %x) {then_graph: @some, else_graph: @none} }
graph some(%a: f32[2]) -> %b {
  %r = RandomUniform([2])
  %b = Add(%a, %r)
}
graph none(%c: f32[2]) -> %e { %e = Neg(%c) }
"""
NOTE = "%r is random and has no seed: it is compared for one seed"


class Clips(Pass):
    """A wrong pass: it adds the activation RELU to sums."""

    def run(self, model: Model, context: Context) -> int:
        changes = 0
        for graph in model.graphs:
            for op in graph.ops:
                if isinstance(op, Add) and op.act is Activation.NONE:
                    op.act = Activation.RELU
                    graph.epoch += 1
                    changes += 1
        return changes


@pytest.fixture(autouse=True)
def clips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clips, "name", "clips")
    monkeypatch.setitem(PASSES, "clips", Clips)


def test_a_branch_with_a_random_operator_may_be_inlined() -> None:
    model = parse_model(BRANCH)
    report = circlekit.optimize(model, "O1", verify=True)
    assert [op.code for op in model.main] == ["RANDOM_UNIFORM", "ADD"]
    assert report.verified
    assert [note for note in report.notes if note.startswith(NOTE)]


def test_with_a_seed_there_is_nothing_to_note() -> None:
    report = circlekit.optimize(parse_model(BRANCH.replace("([2])", "([2]) {seed2: 7}")), "O1", verify=True)
    assert not [note for note in report.notes if "random" in note]


def test_the_model_gets_no_seed() -> None:
    model = parse_model(BRANCH)
    circlekit.optimize(model, "O1", verify=True)
    assert model.main.ops[0].attribute_items() == {"seed": 0, "seed2": 0}


@pytest.mark.parametrize("seed", ["", " {seed: 3}"])
def test_a_change_of_random_numbers_is_found(seed: str) -> None:
    with pytest.raises(EquivalenceError, match="clips changed output %y"):
        circlekit.optimize(parse_model(BRANCH.replace("([2])", f"([2]){seed}")), ["clips"], verify=True)


def test_random_results_of_two_models_may_have_different_names() -> None:
    other = parse_model(BRANCH.replace("%r", "%other"))
    found = circlekit.compare(parse_model(BRANCH), other)
    assert found.equal
    assert any(note.startswith(NOTE) for note in found.notes)
    assert not circlekit.compare(
        parse_model(BRANCH), parse_model(BRANCH.replace("Uniform", "StandardNormal"))
    ).equal
