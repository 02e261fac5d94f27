# SPDX-License-Identifier: Apache-2.0
"""Recognize a dilated convolution over a sequence, which exporters write as one over blocks with height 1.

The height may be axis 1 or 2 of the image, and be inserted by ExpandDims and Squeeze or by Reshapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Shape, Value, format_shape
from circlekit.passes.fuse.convolution.fuse_space_to_batch_with_conv import Pads, padding_kind, padding_of
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Dilated(Rewrite):
    """batch_to_space(conv(space_to_batch(x)))  ==  conv(x) with the block as dilation, for [N, W, C]."""

    before = """
        s = SpaceToBatchND(x, block: const, pads: const)
        e = $insert
        y = Conv2D|DepthwiseConv2D(e, w, b?)
            {padding: any = inner, stride_h: 1, stride_w: 1, dilation_h: 1, dilation_w: 1}
        q = $drop
        z = BatchToSpaceND(q, same_block: const, crops: const)
    """
    after = """
        i = Reshape(x, high)            {new_shape: new_high}
        o = Conv2D|DepthwiseConv2D(i, w, b)
            {like y, padding: padding, dilation_h: rate_h, dilation_w: rate_w}
        z = Reshape(o, flat)            {new_shape: new_flat}
    """

    @condition
    def static_shapes(self, match: Match) -> str | None:
        for value in map(match.value, "xseyqzw"):
            if not value.is_static:
                return f"%{value.name}: expected a static shape, got {format_shape(value.shape)}"
        return None

    @condition
    def is_one_block(self, block: Array, same_block: Array, z: Value) -> str | None:
        if block.size == 1 and np.array_equal(block, same_block):
            return None
        found = f"{block.tolist()} and {same_block.tolist()}"
        return f"%{z.name}: expected the same block of one dimension twice, got {found}"

    @condition
    def has_height_one(self, s: Value, e: Value, y: Value, q: Value) -> str | None:
        axis = _height_axis(s.shape, e.shape)
        if axis is not None and axis == _height_axis(q.shape, y.shape):
            return None
        return f"%{e.name}: expected %{s.name} with a height of 1, got shape {format_shape(e.shape)}"

    @condition
    def is_a_padding(self, match: Match, inner: Padding) -> str | None:
        block, found = _block_and_padding(match, inner)
        if self.kind(found, match.value("w"), block) is not None:
            return None
        return f"%{match.value('z').name}: expected SAME or VALID padding in total, got {found}"

    def kind(self, pads: Pads, w: Value, block: Array) -> Padding | None:
        return padding_kind(pads, w.static_shape, block)

    def constants(self, match: Match, inner: Padding) -> dict[str, Any]:
        block, found = _block_and_padding(match, inner)
        x, z = match.value("x").static_shape, match.value("z").static_shape
        axis = _height_axis(match.value("s").shape, match.value("e").shape) or 1
        high = (*x[:axis], 1, *x[axis:])
        return {
            "high": np.array(high, np.int32), "new_high": high,
            "flat": np.array(z, np.int32), "new_flat": z,
            "all": np.array([(0, 0), *found, (0, 0)], np.int32),
            "padding": self.kind(found, match.value("w"), block),
            "rate_h": int(block[0]), "rate_w": int(block[1]),
        }  # fmt: skip


class _Padded(_Dilated):
    """The same with an explicit Pad, where the padding is neither SAME nor VALID."""

    after = """
        i = Reshape(x, high)            {new_shape: new_high}
        p = Pad(i, all)
        o = Conv2D|DepthwiseConv2D(p, w, b)
            {like y, padding: padding, dilation_h: rate_h, dilation_w: rate_w}
        z = Reshape(o, flat)            {new_shape: new_flat}
    """

    def kind(self, pads: Pads, w: Value, block: Array) -> Padding | None:
        return Padding.VALID if all(side >= 0 for pair in pads for side in pair) else None


def _height_axis(flat: Shape | None, high: Shape | None) -> int | None:
    """The axis of the 1 that ``high`` has in addition to ``flat``, [N, W, C]; None if there is none."""
    if flat is None or high is None or len(flat) != 3:
        return None
    return next((axis for axis in (1, 2) if high == (*flat[:axis], 1, *flat[axis:])), None)


def _block_and_padding(match: Match, inner: Padding) -> tuple[Array, Pads]:
    """The block and the total padding along both dimensions of the image."""
    values = [match.value(name).array().reshape(-1) for name in ("block", "pads", "crops")]
    axis = _height_axis(match.value("s").shape, match.value("e").shape)
    neutral = [np.ones(1, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)]
    pairs = [(n, v) if axis == 1 else (v, n) for n, v in zip(neutral, values, strict=True)]
    block, pads, crops = (np.stack(pair) for pair in pairs)
    flat = block.reshape(-1)
    return flat, padding_of(pads, crops, flat, inner, match.value("w"))


EXPANDED = {"insert": "ExpandDims(s, dim: const)", "drop": "Squeeze(y)    {squeeze_dims: any}"}
RESHAPED = {"insert": "Reshape(s, to?)  {new_shape: any}", "drop": "Reshape(y, back?) {new_shape: any}"}


class FuseSpaceToBatchWithConv1D(Rules):
    """Merge SPACE_TO_BATCH_ND, a convolution of height 1 and BATCH_TO_SPACE_ND into a dilated convolution."""

    name = "fuse_space_to_batch_with_conv1d"
    rules = tuple(
        template.member(**words) for template in (_Dilated, _Padded) for words in (EXPANDED, RESHAPED)
    )
