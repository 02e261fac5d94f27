# SPDX-License-Identifier: Apache-2.0
"""Recognize a dilated convolution, written as a convolution between space-to-batch and batch-to-space."""

from __future__ import annotations

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

Pads = list[tuple[int, int]]


def padding_of(pads: Array, crops: Array, block: Array, inner: Padding, w: Value) -> Pads:
    """The padding (before, after) of each dimension that the three operators amount to.

    Crops of the result cancel padding.  With SAME the inner convolution pads each block, where one row stands
    for ``block`` rows of the whole image.
    """
    out = []
    for pad, crop, step, size in zip(pads, crops, block, w.static_shape[1:3], strict=False):
        extra = (int(size) - 1) * int(step) if inner is Padding.SAME else 0
        before = (int(size) - 1) // 2 * int(step) if inner is Padding.SAME else 0
        out.append((int(pad[0] - crop[0]) + before, int(pad[1] - crop[1]) + extra - before))
    return out


def padding_kind(pads: Pads, filter_shape: tuple[int, ...], block: Array) -> Padding | None:
    """The padding attribute that gives ``pads`` for a filter dilated by ``block``; None if there is none."""
    total = [(size - 1) * int(step) for size, step in zip(filter_shape[1:3], block, strict=True)]
    if not any(side for pair in pads for side in pair):
        return Padding.VALID
    same = [(t // 2, t - t // 2) for t in total]
    return Padding.SAME if pads == same else None


class _Dilated(Rewrite):
    """batch_to_space(conv(space_to_batch(x)))  ==  conv(x), dilated by the block."""

    before = """
        s = SpaceToBatchND(x, block: const, pads: const)
        y = Conv2D|DepthwiseConv2D(s, w, b?)
            {padding: any = inner, stride_h: 1, stride_w: 1, dilation_h: 1, dilation_w: 1}
        z = BatchToSpaceND(y, same_block: const, crops: const)
    """
    after = """
        z = Conv2D|DepthwiseConv2D(x, w, b)
            {like y, padding: padding, dilation_h: rate_h, dilation_w: rate_w}
    """

    @condition
    def is_one_block(self, block: Array, same_block: Array, z: Value) -> str | None:
        if block.size == 2 and np.array_equal(block, same_block):
            return None
        found = f"{block.tolist()} and {same_block.tolist()}"
        return f"%{z.name}: expected the same block of two dimensions twice, got {found}"

    @condition
    def known_filter(self, w: Value) -> str | None:
        return None if w.is_static else f"%{w.name}: expected a static shape, got {format_shape(w.shape)}"

    @condition
    def is_a_padding(
        self, pads: Array, crops: Array, block: Array, w: Value, z: Value, inner: Padding
    ) -> str | None:
        found = padding_of(pads, crops, block, inner, w)
        if self.kind(found, w, block) is not None:
            return None
        return f"%{z.name}: expected SAME or VALID padding in total, got {found}"

    def kind(self, pads: Pads, w: Value, block: Array) -> Padding | None:
        return padding_kind(pads, w.static_shape, block)

    def constants(
        self, pads: Array, crops: Array, block: Array, w: Value, inner: Padding
    ) -> dict[str, object]:
        kind = self.kind(padding_of(pads, crops, block, inner, w), w, block)
        return {"padding": kind, "rate_h": int(block[0]), "rate_w": int(block[1])}


class _Padded(_Dilated):
    """The same with an explicit Pad, where the padding is neither SAME nor VALID."""

    after = """
        p = Pad(x, all)
        z = Conv2D|DepthwiseConv2D(p, w, b)
            {like y, padding: VALID, dilation_h: rate_h, dilation_w: rate_w}
    """

    def kind(self, pads: Pads, w: Value, block: Array) -> Padding | None:
        return Padding.VALID if all(side >= 0 for pair in pads for side in pair) else None

    def constants(
        self, pads: Array, crops: Array, block: Array, w: Value, inner: Padding
    ) -> dict[str, object]:
        border = [(0, 0), *padding_of(pads, crops, block, inner, w), (0, 0)]
        return {"all": np.array(border, np.int32), "rate_h": int(block[0]), "rate_w": int(block[1])}


class FuseSpaceToBatchWithConv(Rules):
    """Merge SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND into a dilated convolution."""

    name = "fuse_space_to_batch_with_conv"
    rules = (_Dilated, _Padded)
