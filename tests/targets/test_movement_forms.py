# SPDX-License-Identifier: Apache-2.0
"""Data movement is written in the forms that the target runs.

An operator that the target lacks counts as the operators that replace it in legalization.
"""

from __future__ import annotations

import pytest

import circlekit
from tests.targets.toy import toy

SLICES = "%a = StridedSlice(%x, [0,1], [4,6], [1,1]) %y = StridedSlice(%a, [1,0], [3,5], [1,1])"
REVERSED = "%a = Transpose(%x, [1,0]) %b = ReverseV2(%a, [0]) %y = Transpose(%b, [1,0])"
REPEATED = "%a = Slice(%x, [0,0], [1,6]) %b = BroadcastTo(%a, [3,6]) %y = Slice(%b, [1,0], [2,6])"
STACKED = "%c = Concatenation(%x, %x, %x) {axis: 0} %r = ReverseV2(%c, [0]) %y = ExpandDims(%r, 0)"
UNPACKED = "%m = Mean(%x, [0]) {keep_dims: true} %y = Unpack(%m) {num: 1, axis: 0}"

FORMS = {
    "a slice": (SLICES, "STRIDED_SLICE SLICE", "SLICE"),
    "no SLICE": (SLICES, "STRIDED_SLICE", "STRIDED_SLICE"),
    "SLICE where the target runs nothing": (SLICES, "", "SLICE"),
    "backwards": (REVERSED, "TRANSPOSE REVERSE_V2 STRIDED_SLICE", "STRIDED_SLICE"),
    "no STRIDED_SLICE": (REVERSED, "TRANSPOSE REVERSE_V2", "REVERSE_V2"),
    "neither REVERSE_V2 nor STRIDED_SLICE": (REVERSED, "TRANSPOSE", "STRIDED_SLICE"),
    "repeated": (REPEATED, "SLICE BROADCAST_TO TILE", "SLICE TILE"),
    "no TILE": (REPEATED, "SLICE BROADCAST_TO", "SLICE BROADCAST_TO"),
    "stacked": (STACKED, "CONCATENATION REVERSE_V2 EXPAND_DIMS STRIDED_SLICE PACK", "PACK STRIDED_SLICE"),
    "the legalization of PACK is longer": (
        STACKED,
        "CONCATENATION REVERSE_V2 EXPAND_DIMS STRIDED_SLICE RESHAPE",
        "CONCATENATION REVERSE_V2 EXPAND_DIMS",
    ),
    "UNPACK counts as the RESHAPE that replaces it": (UNPACKED, "MEAN RESHAPE", "MEAN RESHAPE"),
}
"""{case: (operators, codes that the target runs, codes of the result)}."""


@pytest.mark.parametrize("name", FORMS)
def test_the_fewest_operators_that_the_target_runs(name: str) -> None:
    body, known, expected = FORMS[name]
    shape = "[1]" if body == STACKED else "[4,6]"
    model = circlekit.parse(f"graph main(%x: f32{shape}) -> %y {{\n{body}\n}}")
    circlekit.optimize(model, "merge_data_movement", target=toy(*known.split()), verify=True)
    assert [op.code for op in model.main] == expected.split()


@pytest.mark.parametrize(
    ("dtype", "target", "expected"),
    [
        ("f32", "none", "PACK STRIDED_SLICE"),
        ("bool", "none", "CONCATENATION REVERSE_V2 EXPAND_DIMS"),  # LiteRT runs these, but no PACK of bool
        ("bool", "onert", "PACK STRIDED_SLICE"),  # onert runs neither form of bool
    ],
)
def test_the_file_still_runs_where_it_did(dtype: str, target: str, expected: str) -> None:
    model = circlekit.parse(f"model tflite\ngraph main(%x: {dtype}[1]) -> %y {{\n{STACKED}\n}}")
    circlekit.optimize(model, "merge_data_movement", target=target, verify=True)
    assert [op.code for op in model.main] == expected.split()


THREE_PARTS = """
graph main(%x: f32[3,6]) -> %a, %b, %c {
  %a = StridedSlice(%x, [0,0], [1,6], [1,1]) {shrink_axis_mask: 1}
  %b = Slice(%x, [1,0], [1,6])
  %c = StridedSlice(%x, [2,0], [3,6], [1,1]) {shrink_axis_mask: 1}
}
"""


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ("SLICE STRIDED_SLICE RESHAPE UNPACK SPLIT SPLIT_V", "UNPACK RESHAPE"),
        ("SLICE STRIDED_SLICE RESHAPE SPLIT SPLIT_V", "SPLIT RESHAPE RESHAPE"),
        ("SLICE STRIDED_SLICE RESHAPE SPLIT_V", "SPLIT_V RESHAPE RESHAPE"),
        ("SLICE STRIDED_SLICE RESHAPE", "STRIDED_SLICE SLICE STRIDED_SLICE"),
    ],
)
def test_slices_become_the_first_form_that_the_target_runs(known: str, expected: str) -> None:
    model = circlekit.parse(THREE_PARTS)
    circlekit.optimize(model, "join_slices", target=toy(*known.split()), verify=True)
    assert [op.code for op in model.main] == expected.split()


def test_reshapes_that_legalization_writes_are_merged_with_others() -> None:
    """A BATCH_MATMUL of rank 5 becomes one of rank 3, with a RESHAPE before each operand and one after it.

    The one after it merges with the RESHAPE that follows in the model.
    """
    model = circlekit.parse(
        """graph main(%x: f32[2,1,3,4,5], %w: f32[2,1,3,5,4]) -> %y {
          %m = BatchMatMul(%x, %w)
          %y = Reshape(%m, [6,16])
        }"""
    )
    low = toy("RESHAPE", BATCH_MATMUL={"f32,f32:f32": {"rank": 3}})
    report = circlekit.optimize(model, "O1", target=low, verify=True)
    assert [op.code for op in model.main] == ["RESHAPE", "RESHAPE", "BATCH_MATMUL", "RESHAPE"]
    assert report.legalizations == {"merge_batches": 1}
    report = circlekit.optimize(model, "O1", target=low, verify=True)
    assert not report.changes
    assert not report.legalizations


def test_both_legalizations_count() -> None:
    """The pipelines fuse the RELU again after the first legalization has split it off."""
    model = circlekit.parse(
        """graph main(%x: f32[2,1,3,4,5], %w: f32[2,1,3,5,4], %a: f32[1,4,4,1], %f: f32[1,3,3,1]) -> %y, %z {
          %m = BatchMatMul(%x, %w)
          %y = Reshape(%m, [6,16])
          %t = TransposeConv([1,4,4,1], %f, %a) {padding: SAME, stride_h: 1, stride_w: 1} : f32[1,4,4,1]
          %z = Relu(%t)
        }"""
    )
    low = toy(
        "RESHAPE",
        "RELU",
        BATCH_MATMUL={"f32,f32:f32": {"rank": 3}},
        TRANSPOSE_CONV={"i32,f32,f32:f32": {"values": {"act": ["NONE"]}}},
    )
    report = circlekit.optimize(model, "O1", target=low, verify=True)
    assert report.changes["fuse_activation_function"] == 2
    assert report.legalizations == {"merge_batches": 1, "split_transpose_conv_activation": 2}
    assert [op.code for op in model.main].count("RELU") == 1
