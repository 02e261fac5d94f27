# SPDX-License-Identifier: Apache-2.0
"""Convolutions over blocks of a sequence, which become dilated ones."""

from __future__ import annotations

import pytest

from tests.passes.kit import check_pass

SEQUENCE = """
graph main(%x: f32[1,12,3]) -> %y {{
  %w = const f32{filter} gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2], {pads})
  %e = {into}
  %c = {call}
  %q = {out}
  %y = BatchToSpaceND(%q, [2], {crops})
}}
"""
UPRIGHT = {"into": "ExpandDims(%s, 2)", "out": "Squeeze(%c) {squeeze_dims: [2]}", "filter": "[4,3,1,3]"}
DEPTHWISE = {"filter": "[1,1,3,3]", "call": "DepthwiseConv2D(%e, %w, none) {padding: VALID}"}
BY_RESHAPE = {"into": "Reshape(%s, [2,1,8,3])", "out": "Reshape(%c, [2,6,4])"}
SAME_BY_BLOCKS = {
    "filter": "[4,1,3,3]", "pads": "[[2,2]]", "crops": "[[0,0]]", "into": "ExpandDims(%s, 1)",
    "call": "Conv2D(%e, %w, none) {padding: VALID}", "out": "Squeeze(%c) {squeeze_dims: [1]}",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "ops"),
    [
        ({}, ["Conv2D"]),
        ({"pads": "[[4,0]]"}, ["Pad", "Conv2D"]),
        ({"pads": "[[0,0]]"}, ["Conv2D"]),
        ({"pads": "[[2,4]]", "crops": "[[0,2]]"}, ["Conv2D"]),
        (UPRIGHT, ["Conv2D"]),
        (DEPTHWISE, ["DepthwiseConv2D"]),
        (BY_RESHAPE, ["Conv2D"]),
        ({"call": "Conv2D(%e, %w, none) {padding: SAME}", "pads": "[[0,0]]"}, ["Conv2D"]),
    ],
)
def test_blocks_of_a_sequence_become_dilation(changes: dict[str, str], ops: list[str]) -> None:
    text = SEQUENCE.format(**{**SAME_BY_BLOCKS, **changes})
    check_pass(text, "fuse_space_to_batch_with_conv1d", ["Reshape", *ops, "Reshape"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"crops": "[[3,0]]"}, "expected crops up to the padding, got a negative padding"),
        (
            {"into": "Reshape(%s, [2,2,4,3])", "out": "Reshape(%c, [2,4,4])"},
            "%e: expected %s with a height of 1, got shape [2,2,4,3]",
        ),
        (
            {"into": "Reshape(%s, [2,1,8,3])", "out": "Reshape(%c, [2,4,6])"},
            "%q: expected %c without axis 1, got shape [2,4,6]",
        ),
        ({"call": "Conv2D(%e, %w, none) {padding: VALID, stride_w: 2}"}, "stride_w is 2"),
    ],
)
def test_blocks_of_a_sequence_stay(changes: dict[str, str], sentence: str) -> None:
    text = SEQUENCE.format(**{**SAME_BY_BLOCKS, **changes})
    check_pass(text, "fuse_space_to_batch_with_conv1d", refused=sentence)
