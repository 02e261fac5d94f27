# SPDX-License-Identifier: Apache-2.0
"""Which operators subtract from a value its own mean over the last axis."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.normalization.fuse_mean_subtraction import _centered_operand

MEAN, SUB = "Mean(%x, [-1]) {keep_dims: true}", "Sub(%x, %m)"


@pytest.mark.parametrize(
    ("type", "mean", "result", "is_centered"),
    [
        ("f32[4,4]", MEAN, SUB, True),
        ("f32[4,4]", "Mean(%x, [1]) {keep_dims: true}", SUB, True),
        ("f32[?,2]", MEAN, SUB, True),
        ("f32[4,4]", "Mean(%x, [0]) {keep_dims: true}", SUB, False),
        ("f32[4,4]", "Mean(%x, [0,1]) {keep_dims: true}", SUB, False),
        ("f32[4,4]", "Mean(%x, [-1])", SUB, False),
        ("f32[4,4]", "Mean(%o, [-1]) {keep_dims: true}", SUB, False),
        ("f32[4,4]", "Mean(%x, %i) {keep_dims: true}", SUB, False),
        ("f32[4,4]", "Sum(%x, [-1]) {keep_dims: true}", SUB, False),
        ("f32[4,4]", MEAN, "Sub(%m, %x)", False),
        ("f32[4,4]", MEAN, "Add(%x, %m)", False),
        ("f32[4,4]", MEAN, "Sub(%x, %o)", False),
        ("f32[4,4]", MEAN, "Sub(%x, %m) {act: RELU}", False),
        ("f32[4,1]", MEAN, SUB, False),
        ("f32[4,?]", MEAN, SUB, False),
        ("f32[*]", MEAN, SUB, False),
        ("f32[]", f"{MEAN} : f32[]", SUB, False),
        ("i32[4,4]", MEAN, SUB, False),
    ],
)
def test_centered_operands(type: str, mean: str, result: str, is_centered: bool) -> None:
    model = parse_model(
        f"graph main(%x: {type}, %o: {type}, %i: i32[1]) -> %y {{ %m = {mean} %y = {result} }}"
    )
    found = _centered_operand(model.main.ops[-1])
    assert found is (model.main.inputs[0] if is_centered else None)
