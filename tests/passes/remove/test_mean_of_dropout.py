# SPDX-License-Identifier: Apache-2.0
"""The factor of a dropout that keeps the mean, and named operators that cannot be removed."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.ops.program.custom import IDENTITIES
from circlekit.passes.remove.remove_training import TRAINING_CHECKS, RemoveNodesOf, mean_refusal
from circlekit.rewrite.base import Context


@pytest.mark.parametrize(("kept", "scale"), [(0.5, 2), (0.8, 1.25), (0.25, 4), (0.1, 10.00005)])
def test_factor_keeps_the_mean(kept: float, scale: float) -> None:
    assert mean_refusal(kept, scale) is None


@pytest.mark.parametrize(
    ("kept", "scale", "sentence"),
    [
        (0.5, 1.5, "expected a factor of 2 for the kept part of 0.5, got 1.5"),
        (0.25, 0.25, "expected a factor of 4 for the kept part of 0.25, got 0.25"),
        (0.5, 2.0001, "expected a factor of 2 for the kept part of 0.5, got 2.0001"),
        (0.0, 1.0, "expected a factor of inf for the kept part of 0, got 1"),
    ],
)
def test_factor_changes_the_mean(kept: float, scale: float, sentence: str) -> None:
    assert mean_refusal(kept, scale) == sentence


def test_names_of_training_checks() -> None:
    assert {"Assert", "FlexAssert", "Print", "FlexPrint", "PrintV2", "FlexPrintV2"} == TRAINING_CHECKS
    assert not TRAINING_CHECKS & set(IDENTITIES)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("%a, %b = Split(0, %x) {num_splits: 2}", "%a: expected one result, got 2"),
        ("%a = Cast(%x) : i32[2,2]", "%a: is i32[2,2], %x is f32[2,2]"),
        ("%a = Reshape(%x, [4])", "%a: is f32[4], %x is f32[2,2]"),
        (
            '%a = Opaque() {code: "CUSTOM", custom_code: "Any"} : f32[2,2]',
            "%a: its operator has no first operand",
        ),
        (
            '%a = Opaque(none, %x) {code: "CUSTOM", custom_code: "Any"} : f32[2,2]',
            "%a: its operator has no first operand",
        ),
    ],
)
def test_named_operator_that_cannot_be_removed(body: str, sentence: str) -> None:
    model = parse_model(f"graph main(%x: f32[2,2]) -> %y {{ {body} %y = Neg(%a) }}")
    context = Context(refusals=[], settings={"remove_nodes_of": ["a"]})
    assert RemoveNodesOf().run(model, context) == 0
    assert [r.sentence[: len(sentence)] for r in context.refusals or ()] == [sentence]
