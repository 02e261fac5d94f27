# SPDX-License-Identifier: Apache-2.0
"""The context of passes: refusals, budgets and settings; the registration of passes."""

from __future__ import annotations

import pytest

from circlekit.errors import RewriteError
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.text import parse_model
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.rewrite import Rewrite
from circlekit.rewrite.base import (
    DEFAULT_PROGRESS,
    PASSES,
    Budget,
    Context,
    GraphPass,
    Option,
    Pass,
    Refusal,
)


@pytest.fixture
def op() -> Op:
    return parse_model("graph g(%x: f32[2]) -> %y { %y = Neg(%x) }").main.ops[0]


@pytest.mark.parametrize(
    ("sentence", "left", "accepted", "after"),
    [
        (None, None, True, (None, 1)),
        (None, 2, True, (1, 1)),
        (None, 1, True, (0, 1)),
        (None, 0, False, (0, 0)),
        ("no", None, False, (None, 0)),
        ("no", 1, False, (1, 0)),
    ],
)
def test_accepted_rewrites_are_counted(
    op: Op, sentence: str | None, left: int | None, accepted: bool, after: tuple[int | None, int]
) -> None:
    budget = Budget(left)
    context = Context(budget=budget, refusals=[])
    assert context.accepts("some_pass", op, sentence, 2) is accepted
    assert (budget.left, budget.made) == after
    assert budget.last.startswith("%y = Neg(%x)") is accepted
    expected = [] if sentence is None else [Refusal("some_pass", "g", op, "%y: no", 2)]
    assert context.refusals == expected


def test_rewrites_are_accepted_without_a_budget(op: Op) -> None:
    context = Context()
    assert context.may_rewrite
    assert context.accepts("some_pass", op, None)
    assert not context.accepts("some_pass", op, "no")


def test_refusals_state_no_progress_by_default(op: Op) -> None:
    context = Context(refusals=[])
    assert not context.accepts("p", op, "no")
    context.refuse("p", op, "no")
    assert context.refusals == [Refusal("p", "g", op, "%y: no", 0, False, 0, ())] * 2


def test_the_nearest_refusal_comes_first(op: Op) -> None:
    """The larger ``progress - missing`` comes first; if it is equal, the larger ``progress``.

    A progress of 0 counts as 3.  Partial matches are last.
    """

    def made(progress: int, missing: int, is_partial: bool = False) -> Refusal:
        return Refusal("p", "g", op, "no", progress, is_partial, missing)

    ordered = [
        made(9, 1), made(9, 3), made(7, 1), made(7, 2), made(5, 0), made(5, 1), made(4, 0),
        made(0, 0), made(2, 0), made(9, 1, is_partial=True), made(2, 0, is_partial=True),
    ]  # fmt: skip
    for order in (ordered[::-1], ordered[::2] + ordered[1::2]):
        assert sorted(order, key=lambda refusal: refusal.distance) == ordered
    assert made(0, 2).distance == made(DEFAULT_PROGRESS, 2).distance


def test_the_budget_keeps_the_text_of_the_latest_rewrite(op: Op) -> None:
    budget = Budget()
    context = Context(budget=budget)
    context.count_rewrite("text of an operator")
    assert budget.last == "text of an operator"
    context.count_rewrite(None)
    assert (budget.last, budget.made) == ("", 2)


def test_refusals_name_their_value(op: Op) -> None:
    context = Context(refusals=[])
    context.refuse("p", op, "is too large")
    context.refuse("p", op, "%x: is too large")
    assert context.refusals == [Refusal("p", "g", op, f"%{name}: is too large") for name in "yx"]
    partial = Context(refusals=[], partial_matches=True)
    partial.refuse("p", op, "no", 3)
    assert partial.refusals == [Refusal("p", "g", op, "%y: no", 3, is_partial=True)]


def test_refusals_of_operators_without_results_or_graph() -> None:
    check = parse_model(
        'graph g(%x: f32[2]) -> %x { Opaque(%x) {code: "CUSTOM", custom_code: "Assert"} }'
    ).main.ops[0]
    context = Context(refusals=[])
    context.refuse("p", check, "no")
    assert check.graph is not None
    check.graph.remove(check)
    context.refuse("p", check, "no")
    assert context.refusals == [Refusal("p", graph, check, "no") for graph in ("g", "")]


def test_settings_have_defaults() -> None:
    class Counting(GraphPass):
        """Made for a test."""

        options = (Option("step", "how far", "N", int, default=3), Option("other", "nothing"))

        def run_graph(self, graph: Graph, context: Context) -> int:
            return int(self.setting(context, "step"))

    model = Model([Graph("a"), Graph("b")])
    assert Counting().run(model, Context()) == 6
    assert Counting().run(model, Context(settings={"step": 5})) == 10
    assert "" not in PASSES  # a pass without a name is not registered


def test_two_passes_of_one_name_are_an_error() -> None:
    def define(module: str, qualname: str) -> type:
        body = {"name": "made_twice", "__module__": module, "__qualname__": qualname}
        return type("Made", (GraphPass,), body)

    try:
        define("here", "Made")
        again = define("here", "Made")
        assert PASSES["made_twice"] is again
        for module, qualname in (("there", "Made"), ("here", "Other")):
            message = rf"pass made_twice is declared twice: by here\.Made and by {module}\.{qualname}"
            with pytest.raises(RewriteError, match=message):
                define(module, qualname)
    finally:
        PASSES.pop("made_twice", None)


def test_a_pass_returns_the_number_of_its_changes() -> None:
    class ForgetsGraph(GraphPass):
        """Made for a test."""

        def run_graph(self, graph: Graph, context: Context) -> int:
            return None  # type: ignore[return-value]

    model = Model([Graph("a")])
    expected = "run_graph of the pass ForgetsGraph: expected to get the number of changes, got NoneType"
    with pytest.raises(RewriteError, match=expected):
        ForgetsGraph().run(model, Context())

    class ForgetsModel(Pass):
        """Made for a test."""

        def run(self, model: Model, context: Context) -> int:
            return "2"  # type: ignore[return-value]

    with pytest.raises(RewriteError, match=r"run of the pass ForgetsModel: .* number of changes, got str"):
        run_passes(model, [ForgetsModel], Context())


@pytest.mark.parametrize(("attribute", "content"), [("name", 3), ("before", ["y = Neg(x)"]), ("after", None)])
def test_texts_of_a_rewrite_are_strings(attribute: str, content: object) -> None:
    body = {"before": "y = Neg(x)", "after": "x", attribute: content, "__module__": "mine"}
    with pytest.raises(RewriteError, match=rf"mine\.Made\.{attribute}: expected a string, got "):
        type("Made", (Rewrite,), body)


def test_the_name_of_a_pass_is_a_string() -> None:
    with pytest.raises(RewriteError, match=r"mine\.Made\.name: expected a string, got list"):
        type("Made", (GraphPass,), {"name": ["a"], "__module__": "mine"})


def test_a_result_is_not_assigned_in_after() -> None:
    message = "`after` is `z = x`, without an operator; to put x in the place of z, write only x"
    with pytest.raises(RewriteError, match=message):
        type("Made", (Rewrite,), {"before": "z = Neg(x)", "after": " z = x\n", "__module__": "mine"})
