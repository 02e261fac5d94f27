# SPDX-License-Identifier: Apache-2.0
"""A convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND becomes a dilated convolution."""

from __future__ import annotations

import pytest

from circlekit.ir.enums import Padding
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from tests.passes.kit import check_pass

BLOCKS = """
graph main(%x: f32[1,12,10,3]) -> %y {{
  %w = const f32{} gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2,2], {})
  %c = {}
  %y = BatchToSpaceND(%c, [2,2], {})
}}
"""
CONV = "Conv2D(%s, %w, none) {padding: VALID, act: RELU}"
CONV_SAME = CONV.replace("VALID", "SAME")
DWCONV = "DepthwiseConv2D(%s, %w, none) {padding: VALID}"


@pytest.mark.parametrize(
    ("filter", "pads", "call", "crops", "ops", "padding"),
    [
        ("[4,3,3,3]", "[[2,2],[2,2]]", CONV, "[[0,0],[0,0]]", ["Conv2D"], Padding.SAME),
        ("[1,3,3,3]", "[[2,2],[2,2]]", DWCONV, "[[0,0],[0,0]]", ["DepthwiseConv2D"], Padding.SAME),
        ("[4,3,3,3]", "[[0,0],[0,0]]", CONV, "[[0,0],[0,0]]", ["Conv2D"], Padding.VALID),
        ("[4,3,3,3]", "[[2,4],[2,2]]", CONV, "[[0,2],[0,0]]", ["Conv2D"], Padding.SAME),
        ("[4,3,3,3]", "[[0,0],[0,0]]", CONV_SAME, "[[0,0],[0,0]]", ["Conv2D"], Padding.SAME),
        ("[4,2,4,3]", "[[2,0],[2,2]]", CONV_SAME, "[[0,0],[0,0]]", ["Pad", "Conv2D"], Padding.VALID),
        ("[4,3,3,3]", "[[4,2],[2,2]]", CONV, "[[0,0],[0,0]]", ["Pad", "Conv2D"], Padding.VALID),
        ("[4,2,2,3]", "[[0,2],[1,1]]", CONV, "[[0,0],[0,0]]", ["Pad", "Conv2D"], Padding.VALID),
    ],
)
def test_blocks_become_dilation(
    filter: str, pads: str, call: str, crops: str, ops: list[str], padding: Padding
) -> None:
    """The padding of the dilated convolution is ``pads`` minus ``crops``; a SAME Conv2D adds its own padding.

    With dilation 2, the SAME padding of a 3x3 filter is 2 on each side.  A Pad adds a padding that is neither
    0 nor that of SAME.
    """
    model = check_pass(BLOCKS.format(filter, pads, call, crops), "fuse_space_to_batch_with_conv", ops)
    conv = model.main.ops[-1]
    assert isinstance(conv, Conv2D | DepthwiseConv2D)
    assert (conv.padding, conv.dilation_h, conv.dilation_w) == (padding, 2, 2)


def test_blocks_with_more_crops_than_pads_stay() -> None:
    text = BLOCKS.format("[4,3,3,3]", "[[0,0],[0,0]]", CONV, "[[1,0],[0,0]]")
    sentence = "expected SAME or VALID padding in total"
    check_pass(text, "fuse_space_to_batch_with_conv", refused=sentence)
