# SPDX-License-Identifier: Apache-2.0
"""A dilated convolution over a sequence, which exporters write as one over blocks, with a height of 1.

Over 120 lines because the height may be either axis, and be put there in two ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Shape, Value, format_shape
from circlekit.passes.fuse.convolution.fuse_space_to_batch_with_conv import Pads, padding_kind, padding_of
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

ENDS = (
    ("e = ExpandDims(s, dim: const)", "q = Squeeze(y)                       {squeeze_dims: any}"),
    ("e = Reshape(s, to?) {new_shape: any}", "q = Reshape(y, back?)             {new_shape: any}"),
)


def _picture(ends: tuple[str, str]) -> str:
    return f"""
        s = SpaceToBatchND(x, block: const, pads: const)
        {ends[0]}
        y = Conv2D|DepthwiseConv2D(e, w, b?)
            {{padding: any = inner, stride_h: 1, stride_w: 1, dilation_h: 1, dilation_w: 1}}
        {ends[1]}
        z = BatchToSpaceND(q, same_block: const, crops: const)
    """


class _Dilated(Rewrite):
    """batch_to_space(conv(space_to_batch(x)))  ==  conv(x), dilated by the block, for [N, W, C]."""

    before = _picture(ENDS[0])
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
                return f"%{value.name}: has shape {format_shape(value.shape)}, a static one is wanted"
        return None

    @condition
    def is_one_block(self, block: Array, same_block: Array, z: Value) -> str | None:
        if block.size == 1 and np.array_equal(block, same_block):
            return None
        found = f"{block.tolist()} and {same_block.tolist()}"
        return f"%{z.name}: the blocks are {found}, one and the same is wanted"

    @condition
    def has_a_height_of_one(self, s: Value, e: Value, y: Value, q: Value) -> str | None:
        axis = _height(s.shape, e.shape)
        if axis is not None and axis == _height(q.shape, y.shape):
            return None
        return f"%{e.name}: has shape {format_shape(e.shape)}, %{s.name} with a height of 1 is wanted"

    @condition
    def is_a_padding(self, match: Match, inner: Padding) -> str | None:
        block, found = _plane(match, inner)
        if self.kind(found, match.value("w"), block) is not None:
            return None
        return f"%{match.value('z').name}: in all it pads by {found}, which is neither SAME nor VALID"

    def kind(self, pads: Pads, w: Value, block: Array) -> Padding | None:
        return padding_kind(pads, w.static_shape, block)

    def constants(self, match: Match, inner: Padding) -> dict[str, Any]:
        block, found = _plane(match, inner)
        x, z = match.value("x").static_shape, match.value("z").static_shape
        axis = _height(match.value("s").shape, match.value("e").shape) or 1
        high = (*x[:axis], 1, *x[axis:])
        return {
            "high": np.array(high, np.int32), "new_high": high,
            "flat": np.array(z, np.int32), "new_flat": z,
            "all": np.array([(0, 0), *found, (0, 0)], np.int32),
            "padding": self.kind(found, match.value("w"), block),
            "rate_h": int(block[0]), "rate_w": int(block[1]),
        }  # fmt: skip


class _Padded(_Dilated):
    """The same with a padding of its own."""

    after = """
        i = Reshape(x, high)            {new_shape: new_high}
        p = Pad(i, all)
        o = Conv2D|DepthwiseConv2D(p, w, b)
            {like y, padding: padding, dilation_h: rate_h, dilation_w: rate_w}
        z = Reshape(o, flat)            {new_shape: new_flat}
    """

    def kind(self, pads: Pads, w: Value, block: Array) -> Padding | None:
        return Padding.VALID if all(side >= 0 for pair in pads for side in pair) else None


class _DilatedReshaped(_Dilated):
    """The same between Reshapes."""

    before = _picture(ENDS[1])


class _PaddedReshaped(_Padded):
    """The same between Reshapes, with a padding of its own."""

    before = _picture(ENDS[1])


def _height(flat: Shape | None, high: Shape | None) -> int | None:
    """The axis, 1 or 2, that has been put into [N, W, C]."""
    if flat is None or high is None or len(flat) != 3:
        return None
    return next((axis for axis in (1, 2) if high == (*flat[:axis], 1, *flat[axis:])), None)


def _plane(match: Match, inner: Padding) -> tuple[Array, Pads]:
    """The block, and what is padded in all, in both dimensions."""
    values = [match.value(name).array().reshape(-1) for name in ("block", "pads", "crops")]
    axis = _height(match.value("s").shape, match.value("e").shape)
    idle = [np.ones(1, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)]
    pairs = [(i, v) if axis == 1 else (v, i) for i, v in zip(idle, values, strict=True)]
    block, pads, crops = (np.stack(pair) for pair in pairs)
    flat = block.reshape(-1)
    return flat, padding_of(pads, crops, flat, inner, match.value("w"))


class FuseSpaceToBatchWithConv1D(Rules):
    """On a sequence, SPACE_TO_BATCH_ND, a convolution of height 1, BATCH_TO_SPACE_ND become a dilated one."""

    name = "fuse_space_to_batch_with_conv1d"
    rules = (_Dilated, _DilatedReshaped, _Padded, _PaddedReshaped)
