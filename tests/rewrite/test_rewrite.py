# SPDX-License-Identifier: Apache-2.0
"""How often a rewrite is applied, and to which matches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.errors import EquivalenceError, RewriteError
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Value
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite import PASSES, Rewrite, Rules, condition
from circlekit.rewrite.base import Budget, Context, FoldedWork
from circlekit.rewrite.target_rules import TargetRules


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    # load all passes first: a pass that is first loaded by a test would be cleared and never loaded again
    known = all_passes()
    yield
    PASSES.clear()
    PASSES.update(known)


class Swap(Rewrite):
    """a + b  ==  b + a, which matches its own result."""

    before = "z = Add(a, b)"
    after = "z = Add(b, a)"


class Grow(Rewrite):
    """|x|  ==  ||x||, which matches its own result and adds an operator each time."""

    before = "z = Abs(x)"
    after = "y = Abs(x)\nz = Abs(y)"


@pytest.mark.parametrize("kind", [Swap, Grow])
def test_a_picture_that_matches_its_own_result_is_an_error(
    kind: type[Rewrite], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "name", "endless")
    model = parse_model("graph g(%x: f32[2]) -> %z { %y = Abs(%x) %z = Add(%y, %x) }")
    with pytest.raises(RewriteError, match="the pass endless does not terminate: it still matches"):
        kind().run(model, Context())


def test_bisection_names_an_endless_pass_and_shrinks_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Swap, "name", "endless")
    monkeypatch.setitem(PASSES, "endless", Swap)
    text = "graph g(%x: f32[2]) -> %o { %y = Abs(%x) %z = Add(%y, %x) %o = Neg(%z) }"
    with pytest.raises(EquivalenceError, match=r"endless is wrong.*does not terminate"):
        circlekit.optimize(parse_model(text), ["endless", "remove_dead"], bisect=tmp_path / "small.ck")
    assert [op.code for op in circlekit.load(tmp_path / "small.ck").main] == ["ADD"]


def test_a_rule_of_a_pass_that_matches_its_own_result_is_an_error() -> None:
    class Endless(Rules):
        name = "endless_rules"
        rules = (Swap,)

    model = parse_model("graph g(%x: f32[2]) -> %z { %y = Abs(%x) %z = Add(%y, %x) }")
    with pytest.raises(RewriteError, match="the pass endless_rules does not terminate"):
        Endless().run(model, Context())


def test_two_passes_that_undo_each_other_are_an_error() -> None:
    class ToRelu(Rewrite):
        name = "to_relu"
        before = "z = Abs(x)"
        after = "z = Relu(x)"

    class ToAbs(Rewrite):
        name = "to_abs"
        before = "z = Relu(x)"
        after = "z = Abs(x)"

    model = parse_model("graph g(%x: f32[2]) -> %z { %z = Abs(%x) }")
    with pytest.raises(RewriteError, match=r"100 rounds.*to_relu, to_abs"):
        run_passes(model, [ToRelu, ToAbs], Context())


class Double(Rewrite):
    """Neg(Neg(x))  ==  x."""

    before = "y = Neg(x)\nz = Neg(y)"
    after = "x"


def test_a_long_chain_is_rewritten_in_one_run() -> None:
    """Many rewrites with the same root are no endless loop if each of them removes operators."""
    chain = "".join(f"%v{i + 1} = Neg(%v{i})\n" for i in range(400))
    model = parse_model(f"graph g(%v0: f32[2]) -> %o {{ {chain} %o = Abs(%v400) }}")
    assert Double().run(model, Context()) == 200
    assert [op.code for op in model.main] == ["ABS"]


@pytest.mark.parametrize(
    ("before", "after", "applied"),
    [
        ("z = Neg(x)", "z = Relu(x)", 1),
        ("z = Neg(x)", "y = Relu(x)\nz = Abs(y)", 1),
        ("z = Neg(x)", "x", 0),  # Abs would read the variable, and Abs may run later than Neg
        ("y = Neg(x)\nz = Abs(y)", "z = Abs(x)", 0),
    ],
)
def test_variables_are_read_at_the_same_time(before: str, after: str, applied: int) -> None:
    kind = type("Reader", (Rewrite,), {"name": "reader", "before": before, "after": after})
    model = parse_model("graph g() -> %o { %s: f32[2] variable %y = Neg(%s) %o = Abs(%y) }")
    assert kind().run(model, Context()) == applied


def test_a_budget_ends_the_rewrites() -> None:
    model = parse_model(
        "graph g(%x: f32[2]) -> %o { %a = Neg(%x) %b = Neg(%a) %c = Neg(%b) %d = Neg(%c) %o = Abs(%d) }"
    )
    budget = Budget(1)
    assert Double().run(model, Context(budget=budget)) == 1
    assert (budget.left, budget.made, len(model.main)) == (0, 1, 3)
    assert budget.last.startswith("%b = Neg(%a)")


def test_a_fresh_context_has_used_nothing() -> None:
    """Zero limits of folded work mean that no folding pass has set them yet."""
    context = Context()
    assert context.folded == FoldedWork(bytes=0, max_bytes=0, macs=0, max_macs=0)
    assert Budget() == Budget(left=None, made=0, last="")
    assert TargetRules([]) == TargetRules([], (), False, [], {}, None, run_bytes=0)
    assert (context.refusals, context.budget, context.exact) == (None, None, False)


Q = "quant(scale: 0.5, zero_point: 1)"


@pytest.mark.parametrize(
    ("source", "result", "outputs", "applied"),
    [
        ("f32[2,3]", "f32[2,3]", "%o", 1),
        ("f32[?,3]", "f32[?,3]", "%o", 1),
        (f"i8[2] {Q}", f"i8[2] {Q}", "%o", 1),
        ("f32[?,3]", "f32[2,3]", "%o", 0),
        ("f32[2,3]", "f32[?,3]", "%o", 0),
        ("f32[*]", "f32[*]", "%o", 0),
        ("f32[2,3]", "f32[*]", "%o", 0),
        ("f32[*]", "f32[2,3]", "%o", 0),
        ("f32[2]", "i32[2]", "%o", 0),
        (f"i8[2] {Q}", "i8[2] quant(scale: 0.5, zero_point: 2)", "%o", 0),
        (f"i8[2] {Q}", "i8[2]", "%o", 0),
        ("f32[2]", "f32[2]", "%z", 0),  # an input would be an output
    ],
)
def test_a_value_takes_the_place_of_another_of_the_same_type(
    source: str, result: str, outputs: str, applied: int
) -> None:
    class Forget(Rewrite):
        quantized = True
        before = "z = Cast(x) {in_data_type: any, out_data_type: any}"
        after = "x"

    types = f"{{in_data_type: {source.partition('[')[0]}, out_data_type: {result.partition('[')[0]}}}"
    body = f'%z = Cast(%x) {types} : {result} %o = Opaque(%z) {{code: "CUSTOM"}} : f32[2]'
    text = f"graph g(%x: {source}) -> {outputs} {{ {body} }}"
    model = parse_model(text)
    assert Forget().run(model, Context()) == applied
    assert len(model.main) == 2 - applied


def test_constants_of_the_model_are_read_only() -> None:
    class InPlace(Rewrite):
        before = "z = Mul(x, a: const)"
        after = "z = Div(x, b)"

        def constants(self, a: Array) -> dict[str, Array]:
            return {"b": np.reciprocal(a, out=a)}

    model = parse_model("graph main(%x: f32[2]) -> %y { %c = const f32[2] [4, 2] %y = Mul(%x, %c) }")
    with pytest.raises(ValueError, match="read-only"):
        InPlace().run(model, Context())
    assert model.main.ops[0].inputs[1].data.tolist() == [4, 2]  # type: ignore[union-attr]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older exceptions have no notes")
def test_an_exception_of_a_pass_says_where_it_occurred() -> None:
    class Faulty(Rewrite):
        before = "z = Neg(x)"
        after = "z = Mul(x, k)"

        def constants(self) -> dict[str, Array]:
            return {"k": [][0]}

    model = parse_model("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    with pytest.raises(IndexError) as raised:
        Faulty().run(model, Context())
    assert getattr(raised.value, "__notes__", None) == ["in constants of Faulty, for %y"]


@pytest.mark.parametrize("answer", [True, False, np.True_, ""])
def test_a_condition_answers_with_a_sentence_or_none(answer: bool) -> None:
    class Undecided(Rewrite):
        before = "z = Neg(x)"
        after = "z = Abs(x)"

        @condition
        def holds(self, x: Value) -> str | None:
            return answer  # type: ignore[return-value]  # the mistake

    model = parse_model("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    with pytest.raises(RewriteError, match="condition holds of Undecided: expected None if it holds"):
        Undecided().run(model, Context())
