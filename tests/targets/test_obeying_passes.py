# SPDX-License-Identifier: Apache-2.0
"""No pass replaces operators that the target can run by an operator that it cannot run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import circlekit
from circlekit.errors import EquivalenceError, UnsupportedError
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ops.arithmetic.binary import Sub
from circlekit.passes.engine.registry import find_pass
from circlekit.passes.engine.run_for_target import run_for_target
from circlekit.rewrite.base import PASSES, Context, Pass
from circlekit.rewrite.target_rules import TargetRules
from circlekit.targets import target_choice
from tests.targets.toy import toy

TCONV = Path(__file__).parents[2] / "recipes" / "nets" / "tconv_bn.ck"

NEGATED = """
graph main(%x: f32[1,4], %z: f32[1,4]) -> %y {
  %n = Neg(%z)
  %y = Add(%x, %n)
}
"""

SPLITS = """
graph main(%x: f32[1,6], %z: f32[1,6]) -> %a, %b, %p, %q, %r {
  %a, %b = SplitV(%x, [3, 3], 1) {num_splits: 2}
  %p, %q, %r = SplitV(%z, [2, 2, 2], 1) {num_splits: 3}
}
"""


def codes(model: Model) -> list[str]:
    return [op.code for op in model.main]


def test_a_rewrite_whose_result_does_not_run_is_refused_with_a_sentence() -> None:
    model = circlekit.parse(NEGATED)
    report = circlekit.optimize(model, explain="fuse_neg", target=toy("NEG", "ADD"))
    assert codes(model) == ["NEG", "ADD"]
    assert [refusal.sentence for refusal in report.refusals] == ["%y: Toy has no SUB"]


@pytest.mark.parametrize(
    "target",
    [toy("NEG", "ADD", "SUB"), toy("ADD"), "none"],
    ids=["has it", "lacks what is replaced, too", "none"],
)
def test_a_rewrite_is_applied_where_nothing_is_lost(target: object) -> None:
    model = circlekit.parse(NEGATED)
    circlekit.optimize(model, target=target)  # type: ignore[arg-type]  # targets and a name
    assert codes(model) == ["SUB"]


def test_a_form_that_the_target_lacks_is_refused_like_an_operator() -> None:
    model = circlekit.parse(NEGATED)
    ints = toy("NEG", "ADD", SUB={"i32,i32:i32": {}})
    report = circlekit.optimize(model, explain="fuse_neg", target=ints)
    assert report.refusals[0].sentence == "%y: Toy has no SUB for f32,f32:f32; it has i32,i32:i32"


@pytest.mark.parametrize("passes", ["O1", "fuse_neg"])
def test_a_default_target_restricts_pipelines_and_single_passes(
    passes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = replace(toy("NEG", "ADD"), is_complete=True)
    monkeypatch.setattr(target_choice, "find_target", lambda name: default)
    model = circlekit.parse(NEGATED)
    circlekit.optimize(model, passes)
    assert codes(model) == ["NEG", "ADD"]
    circlekit.optimize(model, passes, target="none")
    assert codes(model) == ["SUB"]


def test_every_target_has_to_run_the_result() -> None:
    model = circlekit.parse(NEGATED)
    circlekit.optimize(model, target=[toy("NEG", "ADD", "SUB"), toy("NEG", "ADD")])
    assert codes(model) == ["NEG", "ADD"]


def test_a_pass_that_is_code_is_kept_from_the_operators_that_it_would_break() -> None:
    """One of two rewrites makes what the target lacks: the pass is undone, and runs without this rewrite."""
    model, name = circlekit.parse(SPLITS), "substitute_splitv_to_split"
    pairs = {"i32,f32:f32": {"values": {"num_splits": [2]}}}
    report = circlekit.optimize(model, name, explain=name, target=toy("SPLIT_V", SPLIT=pairs), verify=True)
    assert codes(model) == ["SPLIT", "SPLIT_V"]
    assert report.changes == {name: 1}
    sentence = "%p: Toy has SPLIT for i32,f32:f32 only with num_splits of 2, got 3"
    assert [refusal.sentence for refusal in report.refusals] == [sentence]


class AddToSub(Pass):
    """Replace the first Add by a Sub without asking the context; ``count`` says how often."""

    count = 0

    def run(self, model: Model, context: Context) -> int:
        for op in model.main.ops:
            if op.code == "ADD":
                type(self).count += 1
                sub = model.main.insert_before(op, Sub(op.inputs[0], op.inputs[1]))
                sub.take_result(0, op.output)
                model.main.remove(op)
                return 1
        return 0


@pytest.fixture
def wild(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(AddToSub, "name", "wild")
    monkeypatch.setattr(AddToSub, "count", 0)
    monkeypatch.setitem(PASSES, "wild", AddToSub)
    return "wild"


def test_a_pass_that_asks_for_nothing_is_undone_once_and_left_out(wild: str) -> None:
    model = circlekit.parse(NEGATED)
    before, ops, epoch = str(model), model.main.ops, model.main.epoch
    report = circlekit.optimize(model, wild, target=toy("NEG", "ADD"))
    assert (str(model), model.main.ops, model.main.epoch) == (before, ops, epoch)
    assert AddToSub.count == 1
    reason = "it would make an operator that does not run: %y: Toy has no SUB"
    assert f"wild is left out, because {reason}" in report.notes
    (explanation,) = circlekit.explain(model, wild, target=toy("NEG", "ADD"))
    assert explanation.is_prevented


@pytest.mark.parametrize(("takes_constants", "folded_bytes"), [(True, 16), (False, 0)])
def test_the_work_of_an_undone_run_of_constant_folding_does_not_count(
    takes_constants: bool, folded_bytes: int
) -> None:
    def why_not(op: Op) -> str | None:
        is_refused = op.code == "ADD" and any(v is not None and v.is_const for v in op.inputs)
        return "has a constant" if is_refused and not takes_constants else None

    text = "graph main(%x: f32[4]) -> %y {\n  %e = Exp([1.0, 2, 3, 4])\n  %y = Add(%x, %e)\n}"
    context = Context(target=TargetRules([why_not]))
    assert run_for_target(find_pass("fold_constants")(), circlekit.parse(text), context) == takes_constants
    assert context.folded.bytes == folded_bytes


def test_a_pass_that_asks_for_nothing_runs_where_nothing_is_lost(wild: str) -> None:
    model = circlekit.parse(NEGATED)
    circlekit.optimize(model, wild, target=toy("NEG"))  # ADD does not run either
    assert codes(model) == ["NEG", "SUB"]


def test_verification_fails_for_what_no_longer_runs(wild: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that claims to obey, keeps the values, and makes what the target lacks."""
    monkeypatch.setattr(AddToSub, "obeys_target", True)
    text = "graph main(%x: f32[1,4]) -> %y {\n  %y = Add(%x, [0.0])\n}"
    with pytest.raises(EquivalenceError, match="Toy ran the original, but does not run %y: Toy has no SUB"):
        circlekit.optimize(circlekit.parse(text), wild, target=toy("ADD"), verify=True)
    circlekit.optimize(circlekit.parse(text), wild, target=toy("MUL"), verify=True)  # ADD does not run either
    circlekit.optimize(circlekit.parse(text), wild, target=toy("ADD"))  # no verification was asked for


def test_the_report_counts_what_does_not_run() -> None:
    model = circlekit.parse(NEGATED)
    report = circlekit.optimize(model, target=toy("SUB"))
    (check,) = report.targets
    assert str(check) == "0 operators that Toy cannot run (2 before)"
    assert check.document() == {"target": "toy", "before": 2, "after": 0, "findings": [], "delegated": None}
    report = circlekit.optimize(circlekit.parse(NEGATED), "remove_dead", target=toy("ADD"))
    assert str(report.targets[0]) == "1 operator that Toy cannot run (1 before): 1 NEG"
    assert str(circlekit.optimize(circlekit.parse(NEGATED), target=toy("SUB", "NEG", "ADD")).targets[0]) == ""


def test_passes_may_make_operators_that_legalization_makes_runnable() -> None:
    """The target's TRANSPOSE_CONV has no bias.  The batch norm is fused; legalization splits off the bias."""
    model = circlekit.load(TCONV)
    circlekit.optimize(model, verify=True)
    assert codes(model) == ["TRANSPOSE_CONV"]
    bare = {"i32,f32,f32:f32": {"values": {"act": ["NONE"]}}}
    model = circlekit.load(TCONV)
    report = circlekit.optimize(model, target=toy("MUL", "ADD", "RELU6", TRANSPOSE_CONV=bare), verify=True)
    assert codes(model) == ["TRANSPOSE_CONV", "ADD"]
    assert report.legalizations
    assert str(report.targets[0]) == ""


def test_an_unknown_target_is_an_error_before_any_work() -> None:
    with pytest.raises(UnsupportedError, match=r"no target is named lucy; did you mean luci\?"):
        circlekit.optimize(circlekit.parse(NEGATED), target="lucy")


def test_what_stopped_the_target_before_is_no_loss() -> None:
    """ONE's interpreter has no int8 TRANSPOSE: the model has two, so a pass may make another one."""
    model = circlekit.parse("""
    graph main(%x: i8[1,3,4,5] quant(scale: 0.5)) -> %y {
      %t = Transpose(%x, [0,2,3,1]) : i8[1,4,5,3] quant(scale: 0.5)
      %r = Relu(%t)                 : i8[1,4,5,3] quant(scale: 0.5)
      %y = Transpose(%r, [0,3,1,2]) : i8[1,3,4,5] quant(scale: 0.5)
    }""")
    circlekit.optimize(model, ["nchw_to_nhwc_input_shape"], verify=True, target="luci")
    assert [op.code for op in model.main] == ["RELU", "TRANSPOSE"]
