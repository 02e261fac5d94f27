# SPDX-License-Identifier: Apache-2.0
"""``check_pass`` accepts a right pass and names what is wrong with a wrong one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from circlekit.errors import FileError, RewriteError
from circlekit.ir.graph import Graph
from circlekit.ops.arithmetic.binary import Add, Sub
from circlekit.ops.arithmetic.unary import Neg
from circlekit.passes.engine.registry import all_passes
from circlekit.recipes.dredd import Result
from circlekit.rewrite import Rewrite
from circlekit.rewrite.base import PASSES, Context, GraphPass
from circlekit.testing import PassTestError, check_pass

POSITIVE = """
graph main(%x: f32[4], %z: f32[4]) -> %y { %y = Sub(%x, %z) }
rules { order(Sub) }
"""
NEAR_MISS = """
graph main(%x: f32[4]) -> %y { %y = Neg(%x) }
rules { unchanged() }
"""


@pytest.fixture(autouse=True)
def forget_passes() -> Iterator[None]:
    """Remove the passes that a test defines from the registry."""
    known = all_passes()
    yield
    for name in PASSES.keys() - known.keys():
        del PASSES[name]


class _OnSub(GraphPass):
    """Calls ``change`` for every Sub."""

    def change(self, graph: Graph, op: Sub) -> int:
        raise NotImplementedError

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self.change(graph, op) for op in list(graph) if isinstance(op, Sub))


def test_a_right_pass(tmp_path: Path) -> None:
    class FuseMulWithMul(Rewrite):
        """(x * a) * b  ==  x * (a * b)."""

        name = "fuse_mul_with_mul_for_test"
        before = """
            y = Mul(x, a: const)
            z = Mul(y, b: const)
        """
        after = """
            z = Mul(x, c)
        """

        def constants(self, a, b):  # type: ignore[no-untyped-def]
            return {"c": a * b}

    positive = """
        graph main(%x: f32[2,3]) -> %z {
          %y = Mul(%x, [2.0, 3.0, 4.0])
          %z = Mul(%y, 0.5)
        }
        rules { order(Mul) }
    """
    near_miss = """
        graph main(%x: f32[2,3]) -> %z {
          %y = Mul(%x, [2.0, 3.0, 4.0]) {act: RELU}
          %z = Mul(%y, 0.5)
        }
        rules { unchanged() refused("act is RELU") }
    """
    check_pass(FuseMulWithMul, [positive, near_miss])
    name = FuseMulWithMul.name
    (tmp_path / f"{name}.ck").write_text(positive)
    with pytest.raises(PassTestError, match=f"such as {name}-CONDITION.ck"):
        check_pass(name, tmp_path)
    FuseMulWithMul.has_conditions = False
    check_pass(name, tmp_path)
    FuseMulWithMul.has_conditions = True
    (tmp_path / f"{name}-activation.ck").write_text(near_miss)
    check_pass(name, tmp_path)
    (tmp_path / f"{name}-activation.ck").write_text(near_miss.replace("act is RELU", "not this sentence"))
    with pytest.raises(PassTestError, match="not this sentence"):
        check_pass(name, tmp_path)


def test_a_pass_that_changes_values() -> None:
    class SwapSub(_OnSub):
        """a - b == b - a."""

        name = "swap_sub_for_test"

        def change(self, graph: Graph, op: Sub) -> int:
            lhs, rhs = op.lhs, op.rhs
            if lhs.name != "x":
                return 0
            op.set_input(0, rhs)
            op.set_input(1, lhs)
            return 1

    with pytest.raises(PassTestError, match="values of %y on normal inputs"):
        check_pass(SwapSub, [POSITIVE, NEAR_MISS])


def test_a_pass_that_never_comes_to_rest() -> None:
    class CountForever(_OnSub):
        """Says that it changed something."""

        name = "count_forever_for_test"

        def change(self, graph: Graph, op: Sub) -> int:
            return 1

    with pytest.raises(PassTestError, match="still change"):
        check_pass(CountForever, [POSITIVE, NEAR_MISS])


@pytest.mark.parametrize(
    ("values", "interface", "is_wrong"), [(False, False, True), (True, False, True), (False, True, False)]
)
def test_only_passes_that_declare_it_change_the_interface(
    values: bool, interface: bool, is_wrong: bool
) -> None:
    class RenameInput(_OnSub):
        """Renames an input."""

        name = "rename_input_for_test"
        changes_values = values
        changes_interface = interface

        def change(self, graph: Graph, op: Sub) -> int:
            renamed = op.lhs.name == "renamed"
            op.lhs.name = "renamed"
            return not renamed

    with pytest.raises(PassTestError, match="interface") if is_wrong else nullcontext():
        check_pass(RenameInput, [POSITIVE, NEAR_MISS])


def test_a_near_miss_that_is_rewritten_and_a_positive_that_is_not() -> None:
    class ReplaceSub(_OnSub):
        """a - b == a + -b."""

        name = "replace_sub_for_test"

        def change(self, graph: Graph, op: Sub) -> int:
            negated = graph.insert_before(op, Neg(op.rhs))
            added = graph.insert_before(op, Add(op.lhs, negated.output))
            graph.replace(op.output, added.output)
            graph.remove(op)
            return 1

    near_miss = POSITIVE.replace("order(Sub)", "unchanged()")
    with pytest.raises(PassTestError) as caught:
        check_pass(ReplaceSub, [NEAR_MISS.replace("unchanged()", "order(Neg)"), near_miss])
    first, *_ = str(caught.value).splitlines()
    assert "expected a change, got none: nothing matched" in first
    assert "expected no changes, got 1" in str(caught.value)


def test_a_positive_that_is_refused_shows_the_refusals() -> None:
    class Refuse(GraphPass):
        """Refuses everything."""

        name = "refuse_for_test"

        def run_graph(self, graph: Graph, context: Context) -> int:
            for op in graph.ops:
                context.refuse(self.name, op, f"%{op.output.name}: not today")
            return 0

    with pytest.raises(PassTestError, match="expected a change, got none: %y: not today"):
        check_pass(Refuse, POSITIVE)


@pytest.mark.parametrize("rule", ["unchanged()", "unchanged( )"])
def test_a_near_miss_of_a_pipeline_is_run_as_in_a_pipeline(rule: str) -> None:
    """In O1, this pass does not replace one operator by two; alone, it does."""
    recipe = f"""
        graph main(%x: f32[2,3], %w: f32[4,3], %b: f32[4]) -> %y {{ %y = FullyConnected(%x, %w, %b) }}
        rules {{ passes(O1) {rule} }}
    """
    with pytest.raises(PassTestError) as caught:
        check_pass("replace_non_const_fc_with_batch_matmul", recipe)
    (only,) = str(caught.value).splitlines()
    assert only.startswith("expected a recipe that shows what")


@pytest.mark.parametrize("tested", [None, 3, Sub])
def test_something_that_is_no_pass(tested: object) -> None:
    with pytest.raises(RewriteError, match="expected the class of a pass, or its name, got "):
        check_pass(tested, [POSITIVE])  # type: ignore[arg-type]


def test_a_pass_without_a_name() -> None:
    class Nameless(_OnSub):
        """Made for a test."""

    with pytest.raises(RewriteError, match="Nameless: expected a class with a name"):
        check_pass(Nameless, [POSITIVE])


def test_a_model_that_has_nothing_of_the_picture_is_no_near_miss() -> None:
    class RemoveTwoNegs(Rewrite):
        """-(-x)  ==  x."""

        name = "remove_two_negs_for_test"
        before = """
            y = Neg(x)
            z = Neg(y)
        """
        after = "x"

    positive = """
        graph main(%x: f32[3]) -> %w { %y = Neg(%x) %z = Neg(%y) %w = Exp(%z) }
        rules { ops(Exp: 1) }
    """
    near_miss = positive.replace("ops(Exp: 1)", "unchanged()").replace("Neg(%x)", "Abs(%x)")
    check_pass(RemoveTwoNegs, [positive, near_miss])
    with pytest.raises(PassTestError) as caught:
        check_pass(RemoveTwoNegs, [positive, near_miss.replace("Neg(%y)", "Sin(%y)")])
    expected = "expected a near miss, got a model without the last operator of the picture"
    assert str(caught.value).endswith(f"-1: {expected} of {RemoveTwoNegs.name}")


def test_missing_recipes() -> None:
    class Idle(_OnSub):
        """Does nothing."""

        name = "idle_for_test"

    with pytest.raises(PassTestError, match=r"such as idle_for_test.ck"):
        check_pass(Idle, [NEAR_MISS])


def test_an_empty_path_is_not_the_working_directory() -> None:
    with pytest.raises(FileError, match="a file without a name cannot be read"):
        check_pass("fuse_gelu", "")


@pytest.mark.parametrize(
    ("refusal", "litert", "format", "fails"),
    [
        ("no SUB", 1, "tflite", True),
        ("no SUB", 0, "tflite", False),
        ("no SUB", 1, "circle", False),
        ("", 1, "tflite", False),
    ],
)
def test_litert_runs_what_it_ran_before(
    refusal: str, litert: int, format: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NegateSub(_OnSub):
        """a - b == a + -b."""

        name = "negate_sub_for_test"
        has_conditions = False

        def change(self, graph: Graph, op: Sub) -> int:
            negated = graph.insert_before(op, Neg(op.rhs))
            added = graph.insert_before(op, Add(op.lhs, negated.output))
            graph.replace(op.output, added.output)
            graph.remove(op)
            return 1

    module = sys.modules["circlekit.testing.check_pass"]
    result = Result("", litert=litert, litert_refusal=refusal)
    monkeypatch.setattr(module, "run_case", lambda *_, **__: result)
    recipe = POSITIVE.replace("order(Sub)", f"format({format})")
    if fails:
        with pytest.raises(PassTestError, match="LiteRT runs the model before the pass, but not after"):
            check_pass(NegateSub, recipe)
    else:
        check_pass(NegateSub, recipe)
