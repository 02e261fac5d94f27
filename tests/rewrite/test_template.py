# SPDX-License-Identifier: Apache-2.0
"""Families of rewrites: a template and the subclasses that define its parameters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from circlekit.errors import RewriteError
from circlekit.ir.text import parse_model
from circlekit.rewrite import PASSES, Context, Rewrite, Rules


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    known = dict(PASSES)
    yield
    PASSES.clear()
    PASSES.update(known)


class Inverse(Rewrite):
    """$one($other(x))  ==  x."""

    name = "test_remove_$one"
    before = """
        y = $other(x)
        z = $one(y)
    """
    after = "x"


def test_template_is_not_a_pass() -> None:
    assert not [name for name in PASSES if "test_remove" in name]
    with pytest.raises(RewriteError, match="is a template; a subclass must give a value"):
        Inverse.definition()


def test_member_substitutes_its_parameters() -> None:
    class Exponential(Inverse, one="Exp", other="Log"):
        pass

    assert PASSES["test_remove_Exp"] is Exponential
    assert Exponential.__doc__ == "Exp(Log(x))  ==  x."
    model = parse_model("graph g(%x: f32[2]) -> %o { %a = Log(%x) %b = Exp(%a) %o = Log(%b) }")
    assert Exponential().run(model, Context()) == 1
    assert [op.code for op in model.main] == ["LOG"]


def test_member_may_override_texts() -> None:
    class Own(Inverse, one="Exp", other="Log"):
        """Its own docstring."""

        name = "test_own"

    assert (Own.__doc__, PASSES["test_own"]) == ("Its own docstring.", Own)
    assert Own.definition().before.root.kind_names() == "Exp"


def test_members_without_a_class_statement() -> None:
    class Twice(Rewrite):
        before = "y = $op(x)\nz = $op(y)"
        after = "z = $op(x)"

    class Idempotent(Rules):
        """op(op(x))  ==  op(x)."""

        name = "test_idempotent"
        rules = Twice.members(op=("Relu", "Abs"))

    assert [rule.__name__ for rule in Idempotent.rules] == ["Twice_Relu", "Twice_Abs"]
    assert Idempotent.rules[0].__module__ == __name__
    model = parse_model("graph g(%x: f32[2]) -> %o { %a = Relu(%x) %b = Relu(%a) %o = Abs(%b) }")
    assert Idempotent().run(model, Context()) == 1
    assert [op.code for op in model.main] == ["RELU", "ABS"]


def test_members_are_all_combinations() -> None:
    class Pair(Rewrite):
        """$first($second)"""

        before = "y = $second(x)\nz = $first(y)"
        after = "x"

    rules = Pair.members(first=("Exp", "Neg"), second=("Log", "Abs"))
    assert [rule.__doc__ for rule in rules] == ["Exp(Log)", "Exp(Abs)", "Neg(Log)", "Neg(Abs)"]


def test_parameter_value_may_contain_parameters_or_be_a_number() -> None:
    class Made(Inverse):
        axis = 0

    made = Made.member(one="$base", other="Log", base="Exp", name="test_made", axis=3)
    assert PASSES["test_made"] is made
    assert made.definition().before.root.kind_names() == "Exp"
    assert (made.axis, Made.axis) == (3, 0)  # type: ignore[attr-defined]  # a class made at run time


def test_parameters_defined_in_two_steps() -> None:
    class Half(Inverse, one="Exp"):
        name = "test_half_$other"

    assert "test_half_$other" not in PASSES
    Half.member(other="Log")
    assert "test_half_Log" in PASSES


def test_parameters_that_contain_each_other_are_refused() -> None:
    for words in ({"one": "$one", "other": "Log"}, {"one": "$other", "other": "$one"}):
        with pytest.raises(RewriteError, match=r"the value of \$(one|other) contains itself"):
            Inverse.member(**words, name="test_endless")


def test_unused_parameter_is_refused() -> None:
    with pytest.raises(RewriteError, match=r"the texts of the class have no \$third"):
        Inverse.member(one="Exp", other="Log", third="Abs")


def test_parameter_without_a_value_is_refused() -> None:
    with pytest.raises(RewriteError, match=r"a \$word in its pictures has no value"):

        class Missing(Inverse, one="Exp"):
            name = "test_missing"
