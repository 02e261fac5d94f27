# SPDX-License-Identifier: Apache-2.0
"""Models of several graphs: bodies of loops and branches, and graphs that signatures name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.bisect import find_culprit
from circlekit.equivalence.delta_debugging import reduce_model
from circlekit.equivalence.reduction_steps import entry_views
from circlekit.equivalence.verify import Verifier
from circlekit.errors import EquivalenceError
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ir.verifier import verify
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.rewrite.base import PASSES, Context, Pass

LOOP = """
graph main(%x: f32[2,8]) -> %z {
  %a = Tanh(%x)
  %n, %y = While(0, %a) {cond: @early, body: @step}
  %z = Abs(%y)
}
graph early(%i: i32[], %x: f32[2,8]) -> %go_on {
  %go_on = Less(%i, 3)
}
graph step(%i: i32[], %x: f32[2,8]) -> %next, %out {
  %next = Add(%i, 1)
  %w = const f32[8,8] gaussian(0, 0.3)
  %m = FullyConnected(%x, %w, none)
  %c = If(true, %m) {then_graph: @curve, else_graph: @line}
  %r = Relu(%c)
  %out = Mul(%r, 0.5)
}
graph curve(%x: f32[2,8]) -> %y {
  %s = Sin(%x)
  %y = Exp(%s)
}
graph line(%x: f32[2,8]) -> %y {
  %y = Neg(%x)
}
"""

ENTRIES = """
signature "first" @main (x: %x) -> (y: %y)
signature "second" @other (x: %u) -> (y: %v)
graph main(%x: f32[2]) -> %y {
  %y = Neg(%x)
}
graph other(%u: f32[2,4]) -> %v {
  %t = Tanh(%u)
  %e = Exp(%t)
  %v = Mul(%e, [1.0, 2.0, 3.0, 4.0])
}
"""


class Doubles(Pass):
    """A wrong pass: it doubles the constant operand of each MUL in all graphs, once."""

    def run(self, model: Model, context: Context) -> int:
        if model.extra.pop("doubled", None):
            return 0
        model.extra["doubled"] = True
        count = 0
        for op in model.ops():
            factor = op.inputs[1] if op.code == "MUL" else None
            if factor is not None and factor.data is not None:
                factor.data = np.asarray(factor.data * np.float32(2))
                count += 1
        model.main.epoch += count
        return count


@pytest.fixture(autouse=True)
def doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Doubles, "name", "doubles")
    monkeypatch.setitem(PASSES, "doubles", Doubles)


def test_an_operator_in_a_body_is_reduced_to_a_model_of_its_own() -> None:
    """SIN is in a branch in a loop; one graph that has only SIN is left."""

    def shows(model: Model) -> bool:
        assert not verify(model)
        return any(op.code == "SIN" for op in model.ops())

    small = reduce_model(parse_model(LOOP), shows)
    assert [[op.code for op in graph] for graph in small.graphs] == [["SIN"]]
    assert [v.shape for v in small.main.inputs] == [(1, 1)]


def test_a_body_shrinks_where_the_loop_must_stay() -> None:
    def shows(model: Model) -> bool:
        codes = {op.code for op in model.ops()}
        return {"WHILE", "SIN"} <= codes and any(op.code == "WHILE" for op in model.main)

    small = reduce_model(parse_model(LOOP), shows)
    assert [op.code for op in small.main] == ["WHILE"]
    inner = [op.code for graph in small.graphs[1:] for op in graph]
    assert "SIN" in inner
    assert len(inner) <= 3
    assert max(v.numel for v in small.main.inputs) == 1


def test_a_fault_in_a_body_is_found_and_reduced() -> None:
    culprit = find_culprit(parse_model(LOOP), ["doubles"], "circle")
    assert culprit is not None
    assert culprit.step == "doubles"
    assert [[op.code for op in graph] for graph in culprit.model.graphs] == [["MUL"]]


def test_graphs_that_signatures_name_are_verified() -> None:
    with pytest.raises(EquivalenceError, match="doubles, in the graph other, changed output %v"):
        circlekit.optimize(parse_model(ENTRIES), ["doubles"], verify=True)
    report = circlekit.optimize(parse_model(ENTRIES), "O1", verify=True)
    assert report.verified


def test_graphs_that_signatures_name_are_compared() -> None:
    a, b = parse_model(ENTRIES), parse_model(ENTRIES)
    assert circlekit.compare(a, b).equal
    Doubles().run(b, Context())
    found = circlekit.compare(a, b)
    assert not found.equal
    assert "%v" in str(found)


def test_a_difference_of_interfaces_names_the_graph() -> None:
    a, b = parse_model(ENTRIES), parse_model(ENTRIES.replace("%v", "%w"))
    sentences = circlekit.compare(a, b).interface
    assert "in the graph other: output 0 was %v: f32[2,4], is %w: f32[2,4]" in sentences


def test_a_fault_in_a_graph_that_a_signature_names_is_reduced(tmp_path: Path) -> None:
    with pytest.raises(EquivalenceError, match="doubles is wrong"):
        circlekit.optimize(parse_model(ENTRIES), ["doubles"], bisect=tmp_path / "small.ck")
    small = circlekit.load(tmp_path / "small.ck")
    assert [[op.code for op in graph] for graph in small.graphs] == [["MUL"]]


def test_a_graph_that_cannot_run_is_noted() -> None:
    text = ENTRIES.replace(
        "%t = Tanh(%u)", '%t = Opaque(%u) {code: "CUSTOM", custom_code: "Nobody"} : f32[2,4]'
    )
    report = circlekit.optimize(parse_model(text), "O1", verify=True)
    assert any("the graph other is not verified: custom operator Nobody" in note for note in report.notes)


def test_a_view_has_the_graphs_that_its_entry_calls() -> None:
    """If each view had all graphs, a graph would run once for each signature, perhaps a thousand times."""
    loop = LOOP.replace("graph main", "graph looped")
    model = parse_model(ENTRIES + 'signature "third" @looped (x: %x) -> (z: %z)' + loop)
    views = entry_views(model)
    names = [[graph.name for graph in view.graphs] for view in views]
    assert names[0] == ["other"]
    assert names[1][0] == "looped"
    assert sorted(names[1][1:]) == ["curve", "early", "line", "step"]
    assert views[1].main is next(graph for graph in model.graphs if graph.name == "looped")


def test_a_graph_has_the_kernels_of_the_whole_model() -> None:
    """LiteRT takes all kernels from one set, and the reference set has no ELU.

    So with an ELU in ``main``, also the graph ``other`` runs with the optimized kernels.
    """
    plain, with_elu = parse_model(ENTRIES), parse_model(ENTRIES.replace("%y = Neg(%x)", "%y = Elu(%x)"))
    for model, kernels in ((plain, Kernels.REFERENCE), (with_elu, Kernels.OPTIMIZED)):
        (other,) = Verifier(model).others
        assert other is not None
        assert {run.kernels for run in other.runs} == {kernels}
