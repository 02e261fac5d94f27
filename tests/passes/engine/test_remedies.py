# SPDX-License-Identifier: Apache-2.0
"""Remedies for operators that a target cannot run (findings): what resolves them, and what is tried first."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.passes.engine.remedies import optimized_delegation, resolved_places, with_remedies
from circlekit.targets.target import find_target
from circlekit.targets.unsupported import Finding, find_unsupported
from tests.targets.toy import toy


def findings(text: str) -> list[Finding]:
    """Return a finding for each word; ``Aa`` is an operator of the kind A with the result %a."""
    return [Finding("toy", "main", i, word[0], word[1:], "none") for i, word in enumerate(text.split())]


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ("Aa Ab Bc", "Ab Bc", "a"),
        ("Aa Ab Bc", "", "abc"),
        ("Aa Ab Bc", "Aa Ab Bc", ""),
        ("Aa Ab", "Ax", ""),  # one is gone, but %a and %b are both missing: one got another name
        ("Aa Ab", "Ax Ay", ""),
        ("Aa Ab Bc", "Ab Bc Cd", ""),  # a kind that was not there
        ("Aa Ab Bc", "Bc Bd", ""),  # more of another kind
        ("Aa Ab Bc", "Bx", "ab"),  # %c has another name
    ],
)
def test_findings_that_a_change_resolves(before: str, after: str, gone: str) -> None:
    assert resolved_places(findings(before), findings(after)) == [("main", name) for name in gone]


def test_the_first_remedy_is_told_and_the_model_stays() -> None:
    """Legalization replaces HARD_SWISH, which onert lacks; nothing replaces CEIL, which the toy lacks."""
    model = circlekit.parse("graph main(%x: f32[1,4]) -> %y, %z {\n%y = HardSwish(%x)\n%z = Ceil(%x)\n}")
    text = str(model)
    target = find_target("onert")
    (found,) = (f for f in with_remedies(model, target, find_unsupported(model, target)) if f.result == "y")
    assert found.remedy == "circlekit convert --target onert to .circle replaces it"
    without_ceil = toy("HARD_SWISH")
    (found,) = with_remedies(model, without_ceil, find_unsupported(model, without_ceil))
    assert (found.result, found.remedy) == ("z", "")
    assert str(model) == text


def test_a_pipeline_is_a_remedy() -> None:
    model = circlekit.parse("graph main(%x: f32[1,4]) -> %y {\n%a = Mul(%x, 1.0)\n%y = Abs(%a)\n}")
    target = toy("ABS")
    (found,) = with_remedies(model, target, find_unsupported(model, target))
    assert found.remedy == "circlekit optimize --O1 --target toy replaces it"
    assert with_remedies(model, target, []) == []


def test_a_pass_that_is_in_no_pipeline_is_a_remedy() -> None:
    """-x is x * -1; every format has NEG, and no pipeline replaces it."""
    model = circlekit.parse("graph main(%x: f32[1,4]) -> %y {\n%y = Neg(%x)\n}")
    target = toy("MUL")
    (found,) = with_remedies(model, target, find_unsupported(model, target))
    assert found.remedy == "the pass --replace_neg_with_mul replaces it"


def test_delegation_is_that_of_an_optimized_copy() -> None:
    model = circlekit.parse("graph main(%x: f32[1,4]) -> %y {\n%a = Mul(%x, 1.0)\n%y = Abs(%a)\n}")
    assert optimized_delegation(model, toy("ABS", "MUL")) is None
    assert (
        str(optimized_delegation(model, find_target("litert-xnnpack"))) == "1 of 1 operators in 1 partition"
    )
    assert len(model.main) == 2
