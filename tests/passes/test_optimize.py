# SPDX-License-Identifier: Apache-2.0
"""The driver of passes: order, rounds, what is not run again, names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from circlekit.errors import RewriteError
from circlekit.ir.graph import Graph, Model
from circlekit.passes.engine.driver import MAX_ROUNDS, run_passes
from circlekit.passes.engine.registry import all_passes, pass_names
from circlekit.passes.pipelines import PIPELINES, in_order
from circlekit.rewrite.base import PASSES, Context, Pass


def make_pass(name: str, change: Callable[[Graph], int], formats: frozenset[str] | None = None) -> type[Pass]:
    """A pass that PASSES does not know; ``change`` gets the main graph."""

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
    """A pass that changes one thing in each of its first ``start`` runs."""
    left = [start]

    def change(graph: Graph) -> int:
        log.append(name)
        left[0] -= 1
        return int(left[0] >= 0)

    return make_pass(name, change)


@pytest.fixture
def model() -> Model:
    return Model([Graph("main")])


def test_rounds_go_on_until_one_changes_nothing(model: Model) -> None:
    log: list[str] = []
    records = run_passes(model, [countdown("a", 1, log), countdown("b", 2, log)], Context())
    assert log == ["a", "b", "a", "b", "a", "b"]
    assert [(r.name, r.changes, r.runs) for r in records] == [("a", 1, 3), ("b", 2, 3)]


def test_a_pass_is_not_run_while_nothing_changed_since_it_was_idle(model: Model) -> None:
    log: list[str] = []
    run_passes(model, [countdown("a", 0, log), countdown("b", 1, log), countdown("c", 0, log)], Context())
    # round 1: a idle, b changes, c idle; round 2: a and b look again, c has seen all
    assert log == ["a", "b", "c", "a", "b"]


def test_observers_are_told_every_run(model: Model) -> None:
    told: list[str] = []
    run_passes(
        model,
        [countdown("a", 1, [])],
        Context(),
        after=lambda name, changes: told.append(f"{name} made {changes}"),
        before=lambda name: told.append(f"{name} starts"),
    )
    assert told == ["a starts", "a made 1", "a starts", "a made 0"]


def test_a_pipeline_leaves_out_what_makes_no_sense_for_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_pass("only_circle", lambda graph: 0, frozenset({"circle"}))
    monkeypatch.setitem(PASSES, "only_circle", made)
    monkeypatch.setitem(PIPELINES, "demo", ("only_circle", "remove_dead"))
    assert pass_names("demo", format="tflite") == ["remove_dead"]
    assert pass_names("demo", format="circle") == ["only_circle", "remove_dead"]
    assert pass_names(["only_circle"], format="tflite") == ["only_circle"]


def test_a_pipeline_leaves_out_what_undoes_a_named_pass() -> None:
    names = pass_names(["O1", "decompose_hardswish"])
    assert "decompose_hardswish" in names
    assert "fuse_hardswish" not in names
    assert pass_names(["fuse_hardswish", "decompose_hardswish"]) == ["fuse_hardswish", "decompose_hardswish"]


def test_passes_that_never_rest_are_named(model: Model) -> None:
    endless, still = make_pass("endless", lambda graph: 1), make_pass("still", lambda graph: 0)
    with pytest.raises(RewriteError, match=f"after {MAX_ROUNDS} rounds .* still change the model: endless$"):
        run_passes(model, [endless, still], Context())


def test_an_unknown_pass_is_refused_with_what_is_near(model: Model) -> None:
    with pytest.raises(RewriteError, match="no pass 'remove_deed'; did you mean remove_dead"):
        run_passes(model, ["remove_deed"], Context())
    with pytest.raises(RewriteError, match=r"no pass or pipeline 'zzzz'$"):
        pass_names("zzzz")


def test_names_of_pipelines_stand_for_their_passes() -> None:
    assert pass_names("O1") == list(PIPELINES["O1"])
    assert pass_names(["remove_dead", "O1"])[0] == "remove_dead"
    assert len(pass_names(["remove_dead", "O1"])) == len(PIPELINES["O1"])


def test_disabled_passes_are_left_out_and_must_exist() -> None:
    assert pass_names("O1", disable=["remove_dead"]) == [n for n in PIPELINES["O1"] if n != "remove_dead"]
    with pytest.raises(RewriteError, match="did you mean remove_dead"):
        pass_names("O1", disable=["remove_ded"])


def test_order_is_the_pipelines_not_the_callers() -> None:
    assert in_order(reversed(PIPELINES["O1"])) == list(PIPELINES["O1"])
    assert in_order(["zeta", "alpha", PIPELINES["O1"][0]]) == [PIPELINES["O1"][0], "alpha", "zeta"]


def test_pipelines_list_passes_that_exist_once() -> None:
    known = all_passes()
    for members in PIPELINES.values():
        assert len(set(members)) == len(members)
        assert set(members) <= set(known)


def test_every_pass_says_what_it_does_and_has_its_own_name() -> None:
    for name, item in all_passes().items():
        assert item.name == name
        assert (item.__doc__ or "").strip(), f"{name} has no docstring, its help line"
    assert all_passes() == dict(sorted(PASSES.items()))
