# SPDX-License-Identifier: Apache-2.0
"""The driver of passes: order, rounds, phases, and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from circlekit.errors import RewriteError
from circlekit.ir.graph import Graph, Model
from circlekit.ir.text import parse_model
from circlekit.ops.arithmetic.unary import Abs, Neg
from circlekit.passes.engine.pass_manager import MAX_ROUNDS, run_passes
from circlekit.passes.engine.registry import all_passes, only_pipelines, pass_names, select_passes
from circlekit.passes.pipelines import ON_REQUEST, PIPELINES, Phase, in_order, pipeline_passes
from circlekit.rewrite.base import PASSES, Context, Pass

O1 = pipeline_passes("O1")

PHASES = dict.fromkeys(phase for phases in PIPELINES.values() for phase in phases)
"""The phases of all pipelines, each once."""


def make_pass(name: str, change: Callable[[Graph], int], formats: frozenset[str] | None = None) -> type[Pass]:
    """Return an unregistered pass; ``change`` gets the main graph."""

    class Made(Pass):
        """Made for a test."""

        def run(self, model: Model, context: Context) -> int:
            changes = change(model.main)
            model.main.epoch += changes
            return changes

    Made.name = name
    if formats is not None:
        Made.formats = formats
    return Made


def countdown(name: str, start: int, log: list[str]) -> type[Pass]:
    """Return a pass that makes one change in each of its first ``start`` runs."""
    left = [start]

    def change(graph: Graph) -> int:
        log.append(name)
        left[0] -= 1
        return int(left[0] >= 0)

    return make_pass(name, change)


@pytest.fixture
def model() -> Model:
    return Model([Graph("main")])


def test_rounds_repeat_until_nothing_changes(model: Model) -> None:
    log: list[str] = []
    records = run_passes(model, [countdown("a", 1, log), countdown("b", 2, log)], Context())
    assert log == ["a", "b", "a", "b", "a", "b"]
    assert [(r.name, r.changes, r.runs) for r in records] == [("a", 1, 3), ("b", 2, 3)]


def test_idle_pass_is_skipped_until_the_model_changes(model: Model) -> None:
    log: list[str] = []
    run_passes(model, [countdown("a", 0, log), countdown("b", 1, log), countdown("c", 0, log)], Context())
    # round 1: a idle, b changes, c idle; round 2: a and b run again, c has seen all changes
    assert log == ["a", "b", "c", "a", "b"]


def test_observers_see_every_run(model: Model) -> None:
    told: list[str] = []
    run_passes(
        model,
        [countdown("a", 1, [])],
        Context(),
        after=lambda name, changes: told.append(f"{name} made {changes}"),
        before=lambda name: told.append(f"{name} starts"),
    )
    assert told == ["a starts", "a made 1", "a starts", "a made 0"]


def test_pipeline_omits_passes_of_the_other_format(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_pass("only_circle", lambda graph: 0, frozenset({"circle"}))
    monkeypatch.setitem(PASSES, "only_circle", made)
    monkeypatch.setitem(PIPELINES, "demo", (Phase("one", "", ("only_circle", "remove_dead")),))
    assert pass_names("demo", format="tflite") == ["remove_dead"]
    assert pass_names("demo", format="circle") == ["only_circle", "remove_dead"]
    assert pass_names(["only_circle"], format="tflite") == ["only_circle"]


def test_pipeline_omits_passes_that_undo_a_named_pass() -> None:
    names = pass_names(["O1", "decompose_hardswish"])
    assert "decompose_hardswish" in names
    assert "fuse_hardswish" not in names
    assert pass_names(["fuse_hardswish", "decompose_hardswish"]) == ["fuse_hardswish", "decompose_hardswish"]


def test_passes_that_never_converge_are_named(model: Model) -> None:
    endless, still = make_pass("endless", lambda graph: 1), make_pass("still", lambda graph: 0)
    with pytest.raises(RewriteError, match=f"after {MAX_ROUNDS} rounds .* still change the model: endless$"):
        run_passes(model, [endless, still], Context())


@pytest.mark.parametrize("converges", [True, False])
def test_a_deep_model_gets_a_round_for_each_operator(converges: bool) -> None:
    """If the model is again in an earlier state, there are no more rounds: the passes undo each other."""
    lines = [f"%v{i + 1} = Abs(%v{i})" for i in range(MAX_ROUNDS + 20)]
    text = "\n".join(lines)
    deep = parse_model(f"graph main(%v0: f32[1]) -> %v{len(lines)} {{\n{text}\n}}")
    rounds = []

    def negate_one(graph: Graph) -> int:
        rounds.append(1)
        op = next((op for op in graph if converges and isinstance(op, Abs)), None)
        if op is not None:
            new = graph.insert_before(op, Neg(*filter(None, op.inputs)))
            new.take_result(0, op.output)
            graph.remove(op)
        return int(op is not None or not converges)

    if converges:
        run_passes(deep, [make_pass("one_by_one", negate_one)], Context())
        assert {op.code for op in deep.main} == {"NEG"}
        return
    with pytest.raises(RewriteError, match=r"still change the model: one_by_one$"):
        run_passes(deep, [make_pass("one_by_one", negate_one)], Context())
    assert len(rounds) == MAX_ROUNDS + 1


def test_unknown_pass_is_refused_with_a_suggestion(model: Model) -> None:
    with pytest.raises(RewriteError, match="no pass 'remove_deed'; did you mean remove_dead"):
        run_passes(model, ["remove_deed"], Context())
    with pytest.raises(RewriteError, match=r"no pass or pipeline 'zzzz'; pipelines: O1, Omem$"):
        pass_names("zzzz")


def test_three_similar_names_are_suggested() -> None:
    with pytest.raises(RewriteError, match=r"did you mean \w+ or \w+ or \w+\?$"):
        pass_names("remove_unnecessary")


def test_only_pipelines() -> None:
    assert only_pipelines("O1")
    assert only_pipelines(["O1"])
    assert not only_pipelines(["O1", "remove_dead"])
    assert not only_pipelines("remove_dead")


def test_names_of_pipelines_stand_for_their_passes() -> None:
    assert pass_names("O1") == O1
    assert pass_names(["remove_dead", "O1"])[0] == "remove_dead"
    assert len(pass_names(["remove_dead", "O1"])) == len(O1)


def test_disabled_passes_are_omitted_and_must_exist() -> None:
    assert pass_names("O1", disable=["remove_dead"]) == [n for n in O1 if n != "remove_dead"]
    with pytest.raises(RewriteError, match="did you mean remove_dead"):
        pass_names("O1", disable=["remove_ded"])


def test_passes_run_in_the_order_of_the_pipeline() -> None:
    assert in_order(reversed(O1)) == O1
    assert in_order(["zeta", "alpha", O1[0]]) == [O1[0], "alpha", "zeta"]


def test_phase_converges_before_the_next_one(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last phase all passes run again, except those that have seen the latest change."""
    log: list[str] = []
    made = {"a": countdown("a", 2, log), "b": countdown("b", 1, log), "c": countdown("c", 1, log)}
    for name, item in made.items():
        monkeypatch.setitem(PASSES, name, item)
    records = run_passes(model, [Phase("1", "", ("a", "b")), "c"], Context())
    assert log == ["a", "b", "a", "b", "a", "c", "c", "a", "b"]
    assert [(r.name, r.changes) for r in records] == [("a", 2), ("b", 1), ("c", 1)]


def test_phases_that_undo_each_other_are_named(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase converges, all of them together do not."""
    state = {"x": 0}

    def to(value: int) -> Callable[[Graph], int]:
        def change(graph: Graph) -> int:
            changed = state["x"] != value
            state["x"] = value
            return int(changed)

        return change

    for name, item in {"one": make_pass("one", to(1)), "two": make_pass("two", to(2))}.items():
        monkeypatch.setitem(PASSES, name, item)
    with pytest.raises(RewriteError, match=r"still change the model: one, two$"):
        run_passes(model, [Phase("1", "", ("one",)), Phase("2", "", ("two",))], Context())


def test_a_pipeline_is_selected_as_its_phases() -> None:
    selected = select_passes(["remove_dead", "O1", "replace_sub_with_add"], ["fuse_neg"])
    assert (selected[0], selected[-1]) == ("remove_dead", "replace_sub_with_add")
    phases = [item for item in selected if isinstance(item, Phase)]
    assert [phase.name for phase in phases] == [phase.name for phase in PIPELINES["O1"]]
    members = [name for phase in phases for name in phase.passes]
    assert members == [name for name in O1 if name not in ("fuse_neg", "remove_dead")]


def test_every_pass_has_one_place() -> None:
    """Each pass is either in one phase or in ON_REQUEST."""
    own = {n for n, item in all_passes().items() if item.__module__.startswith("circlekit.")}
    places = [name for group in (*PHASES, *ON_REQUEST) for name in group.passes]
    where = "compiler/circlekit/passes/pipelines.py"
    failures = [
        f"add {name} to a phase in {where}, or to ON_REQUEST if it only runs by request"
        for name in sorted(own.difference(places))
    ]
    failures += [f"{where} names {name}, but there is no such pass" for name in sorted(set(places) - own)]
    failures += [
        f"{where} names {name} {count} times, expected once"
        for name, count in Counter(places).items()
        if count > 1
    ]
    assert not failures, "\n".join(failures)


def test_every_phase_gives_a_reason() -> None:
    for group in (*PHASES, *ON_REQUEST):
        assert group.reason.endswith("."), group.name


def test_every_pass_has_a_docstring_and_a_unique_name() -> None:
    for name, item in all_passes().items():
        assert item.name == name
        assert (item.__doc__ or "").strip(), f"{name} has no docstring, its help line"
    assert all_passes() == dict(sorted(PASSES.items()))


@pytest.mark.parametrize(("format", "version"), [("circle", None), ("tflite", 1)])
@pytest.mark.parametrize("passes", [["remove_dead"], []])
def test_versions_that_are_too_low_are_cleared_in_circle(
    format: str, version: int | None, passes: list[str]
) -> None:
    """RELU of int8 needs version 2.  A saved circle file gets it; a TFLite file keeps version 1."""
    quantized = "i8[1,4] quant(scale: 1)"
    model = parse_model(f"graph main(%x: {quantized}) -> %y {{ %y = Relu(%x) : {quantized} }}")
    relu = model.main.ops[0]
    assert relu.required_version() == 2
    relu.version = 1
    run_passes(model, passes, Context(format))
    assert relu.version == version
    relu.version = 2
    run_passes(model, passes, Context(format))
    assert relu.version == 2
