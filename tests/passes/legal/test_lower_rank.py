# SPDX-License-Identifier: Apache-2.0
"""Axes that are treated alike are merged until the runtime has the rank; reduced axes are kept."""

from __future__ import annotations

import pytest

from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from tests.passes.legal.made_up_runtimes import check, runtime

FIVE = "%a = Reshape(%x, [1, 8, 6, 2, 2])\n"

RANK_4 = {"rank": 4}


@pytest.mark.parametrize(
    ("code", "body", "ops"),
    [
        ("PAD", "%y = Pad(%a, [[0,0],[1,1],[1,2],[0,0],[0,0]])", "Reshape Pad Reshape"),
        ("PADV2", "%y = PadV2(%a, [[0,0],[0,0],[0,0],[0,0],[1,0]], -1.0)", "Reshape PadV2 Reshape"),
        ("SLICE", "%y = Slice(%a, [0,1,0,0,0], [1,4,6,2,2])", "Reshape Slice Reshape"),
        ("SLICE", "%y = Slice(%a, [0,1,2,0,1], [1,-1,3,1,1])",
         "Reshape Slice Reshape Slice Reshape Slice Reshape Slice Reshape"),
        ("MEAN", "%y = Mean(%a, [1, 2])", "Reshape Mean Reshape"),
        ("MEAN", "%y = Mean(%a, [-1, 1]) {keep_dims: true}", "Reshape Mean Reshape"),
        ("MEAN", "%y = Mean(%a, [0, 2, 4])", "Reshape Mean Reshape Mean Reshape Mean Reshape"),
        ("SUM", "%y = Sum(%a, [1, 4, 2]) {keep_dims: true}", "Reshape Sum Reshape"),
        ("REDUCE_MAX", "%y = ReduceMax(%a, [1, 3])", "Reshape ReduceMax Reshape ReduceMax Reshape"),
        ("PAD", "%y = Pad(%a, [[0,0],[1,1],[1,2],[0,0],[0,3]])",
         "Reshape Pad Reshape Pad Reshape Pad Reshape"),
        ("PADV2", "%y = PadV2(%a, [[1,0],[0,0],[1,2],[0,0],[0,3]], 2.0)",
         "Reshape PadV2 Reshape PadV2 Reshape PadV2 Reshape"),
    ],
)  # fmt: skip
def test_axes_that_are_treated_alike_become_one(code: str, body: str, ops: str) -> None:
    forms = ("f32,i32:f32", "f32,i32,i32:f32", "f32,i32,f32:f32")
    check(FIVE + body, runtime(forms={code: dict.fromkeys(forms, RANK_4)}), f"Reshape {ops}")


@pytest.mark.parametrize(
    ("data", "result", "ops"),
    [
        ("f32[1,8,6,2,2]", "f32[1,2,2]", 3),
        ("f32[?,8,6,2,2]", "f32[?,2,2]", 1),
        ("i8[1,8,6,2,2] quant(scale: 0.5)", "i8[1,2,2] quant(scale: 0.5)", 1),
    ],
)
def test_unknown_sizes_and_quantized_values_are_not_merged(data: str, result: str, ops: int) -> None:
    model = parse_model(f"graph main(%x: {data}) -> %y {{ %y = ReduceMax(%x, [1, 2]) : {result} }}")
    target = runtime(forms={"REDUCE_MAX": {"f32,i32:f32": RANK_4, "i8q,i32:i8q": RANK_4}})
    assert len(legalize(model, "circle", targets=[target]).main) == ops


def test_computed_axes_are_not_merged() -> None:
    text = """graph main(%x: f32[1,8,6,2,2], %a: i32[2], %b: i32[5], %c: i32[]) -> %y, %z, %w {
      %y = ReduceMax(%x, %a) : f32[1,2,2]
      %z = Slice(%x, %b, [1, 4, 6, 2, 2]) : f32[1,4,6,2,2]
      %w, %v = SplitV(%x, [3, 5], %c) {num_splits: 2} : f32[1,3,6,2,2], f32[1,5,6,2,2]
    }"""
    forms = {"REDUCE_MAX": {"f32,i32:f32": RANK_4}, "SLICE": {"f32,i32,i32:f32": RANK_4}}
    model = parse_model(text)
    assert difference(legalize(model, "circle", targets=[runtime("SPLIT_V", forms)]), model) is None


def test_reduced_axes_are_kept_until_a_reshape() -> None:
    kept = {"f32,i32:f32": {"values": {"keep_dims": [True]}}}
    check("%y = Mean(%x, [-1, 1])", runtime(forms={"MEAN": kept}), "Mean Reshape")
    check(
        "%y = ReduceMin(%x, [1, 3])", runtime("REDUCE_MIN", {"REDUCE_MAX": kept}), "Neg ReduceMax Neg Reshape"
    )
    check("%y = Sum(%x, [2]) {keep_dims: true}", runtime(forms={"SUM": kept}), "Sum")
