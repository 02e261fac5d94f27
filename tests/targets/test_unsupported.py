# SPDX-License-Identifier: Apache-2.0
"""Findings: operators, inputs and outputs that a target does not take, and where they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

import circlekit
from circlekit.errors import ModelError, UnsupportedError
from circlekit.targets.target import find_target
from circlekit.targets.target_choice import NO_TARGET, choose_targets
from circlekit.targets.unsupported import find_unsupported
from tests.targets.toy import toy

NET = circlekit.parse("""
graph main(%x: f32[4], %u: f64[4], %v: f64[4]) -> %a, %y {
  %a = Abs(%x)
  %b = Neg(%a)
  %c = Cast(%v) : f32[4]
  %y = Add(%b, %c)
}
""")


def test_places_are_named() -> None:
    found = find_unsupported(NET, replace(toy("ABS", "ADD", "CAST"), input_dtypes=frozenset({"f32", "i8"})))
    assert [str(finding) for finding in found] == [
        "main > op 1 NEG > %b: Toy has no NEG",
        "main > input 1 > %u: Toy takes inputs of f32, i8, got f64; "
        "export the model without this input, which no operator reads",
    ]
    assert found[0].place == ("main", "b")
    assert find_unsupported(NET, toy("ABS", "ADD", "CAST", "NEG")) == []


def test_findings_about_operators_are_told_from_those_about_inputs_and_outputs() -> None:
    found = find_unsupported(NET, replace(toy("ABS", "ADD", "CAST"), input_dtypes=frozenset({"f32", "i8"})))
    assert [finding.is_operator for finding in found] == [True, False]
    assert not replace(found[0], is_output=True).is_operator


def test_the_place_of_an_operator_without_results_ends_with_its_kind() -> None:
    text = 'graph main(%x: f32[4]) -> %x { Opaque(%x) {code: "CUSTOM", custom_code: "FlexAssert"} }'
    (found,) = find_unsupported(circlekit.parse(text), toy("ABS"))
    assert str(found).startswith("main > op 0 FlexAssert: Toy has no custom FlexAssert")


@pytest.mark.parametrize(
    ("outputs", "rest", "found"),
    [
        ("%a, %y", "%y = Add(%b, %c)", ["a"]),  # %c may be computed after %b
        ("%y, %a, %a", "%y = Add(%b, %c)", ["a"]),
        ("%a, %y", "%e = Add(%b, %c)\n%y = Add(%a, %e)", []),  # all is computed before the last reader
        ("%y", "%y = Add(%b, %c)", []),  # nothing reads the output %y
        ("%x, %y", "%y = Add(%b, %c)", []),  # an input of the graph
    ],
)
def test_outputs_that_onert_may_overwrite(outputs: str, rest: str, found: list[str]) -> None:
    """The memory of the output %a may be reused after the last operator that reads %a."""
    model = circlekit.parse(
        f"graph main(%x: f32[4]) -> {outputs} {{\n%a = Abs(%x)\n%b = Neg(%a)\n%c = Abs(%x)\n{rest}\n}}"
    )
    findings = find_unsupported(model, find_target("onert"), lambda op: None)
    assert [finding.result for finding in findings] == found
    assert find_unsupported(model, find_target("litert"), lambda op: None) == []


def test_targets_are_chosen_by_name_object_or_format() -> None:
    device = toy("ABS")
    assert choose_targets(device, "circle").targets == (device,)
    names = [target.name for target in choose_targets("onert, litert,onert", "circle").targets]
    assert names == ["onert", "litert"]
    assert choose_targets([NO_TARGET, device], "circle").targets == (device,)
    assert choose_targets(None, "tflite").is_default
    assert choose_targets(None, "tflite").legalized is None
    assert choose_targets(NO_TARGET, "tflite").legalized is None
    assert choose_targets(device, "tflite").legalized == (device,)
    assert [target.name for target in choose_targets(None, "tflite").targets] == ["litert"]
    assert not choose_targets(NO_TARGET, "tflite").targets
    with pytest.raises(UnsupportedError, match="no target is named abacus"):
        choose_targets("abacus", "circle")
    with pytest.raises(ModelError, match="expected the name of a target, got list"):
        choose_targets([["litert"]], "circle")  # type: ignore[list-item]  # the mistake
