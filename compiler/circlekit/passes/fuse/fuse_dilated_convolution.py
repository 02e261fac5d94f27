# SPDX-License-Identifier: Apache-2.0
"""Recognize a dilated convolution that is written as a convolution between space-to-batch and its inverse."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import counted
from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

Pads = list[tuple[int, int]]
"""(Padding before, padding after) the data along each spatial dimension of the image, in elements."""


def total_padding(pads: Array, crops: Array, block: Array, inner: Padding, w: Value) -> Pads:
    """Return the padding of a dilated convolution that replaces space-to-batch, convolution, batch-to-space.

    ``pads`` (of space-to-batch) and ``crops`` (of batch-to-space) have the shape [dims, 2]: elements before
    and after the image.  A crop cancels padding.  ``inner``: the padding of the convolution with filter
    ``w``.  Along each dimension, the convolution sees every ``block``-th element of the image, so one element
    of its padding is ``block`` elements here.
    """
    total = []
    for pad, crop, step, size in zip(pads, crops, block, w.static_shape[1:], strict=False):
        added = int(size) - 1 if inner is Padding.SAME else 0
        first = added // 2
        total.append((int(pad[0] - crop[0] + first * step), int(pad[1] - crop[1] + (added - first) * step)))
    return total


class _Blocks(Rewrite):
    """Conditions and constants of a convolution between space-to-batch and batch-to-space.

    In the pictures of the subclasses, x is the data, s the data in blocks, y the convolution, z the result,
    w the filter.
    ``explicit``: whether an operator Pad in front of the new convolution does all padding (``$pad`` in the
    pictures, with the result ``$padded``).  If not, the new convolution pads, with SAME or VALID.
    ``block_dims``: the number of spatial axes that are divided into blocks, which is the number of elements
    of ``block``.
    """

    block_dims: ClassVar[int] = 2
    explicit: ClassVar[bool] = False

    @condition
    def has_equal_blocks(self, match: Match, block: Array, same_block: Array) -> str | None:
        """Both operators have the same block, of ``block_dims`` elements."""
        if block.size == self.block_dims and np.array_equal(block, same_block):
            return None
        elements = counted(self.block_dims, "element")
        blocks = f"{block.tolist()} and {same_block.tolist()}"
        return f"%{match.value('z').name}: expected two equal blocks of {elements}, got {blocks}"

    @condition
    def is_a_padding(self, match: Match, inner: Padding) -> str | None:
        block, pads = self.block_and_padding(match, inner)
        if self.new_padding(match, block, pads) is not None:
            return None
        name = match.value("z").name
        if any(side < 0 for pair in pads for side in pair):
            return f"%{name}: expected crops up to the padding, got a negative padding in total: {pads}"
        return f"%{name}: expected SAME or VALID padding in total, got {pads}"

    def new_padding(self, match: Match, block: Array, pads: Pads) -> Padding | None:
        """Return the padding attribute of the new convolution; None if ``pads`` cannot be expressed."""
        if self.explicit:
            return Padding.VALID if all(side >= 0 for pair in pads for side in pair) else None
        if not any(side for pair in pads for side in pair):
            return Padding.VALID
        sizes = match.value("w").static_shape[1:3]
        spans = [(size - 1) * int(step) for size, step in zip(sizes, block, strict=True)]
        return Padding.SAME if pads == [(span // 2, span - span // 2) for span in spans] else None

    def block_and_padding(self, match: Match, inner: Padding) -> tuple[Array, Pads]:
        """Return the block and the total padding along both dimensions of the image."""
        block, pads, crops = (match.value(name).array() for name in ("block", "pads", "crops"))
        return block, total_padding(pads, crops, block, inner, match.value("w"))

    def constants(self, match: Match, inner: Padding) -> dict[str, Any]:
        """Return padding and rates of the new convolution, and ``all``: the paddings of the operator Pad."""
        block, pads = self.block_and_padding(match, inner)
        border = np.array([(0, 0), *pads, (0, 0)], np.int32)
        rates = {"rate_h": int(block[0]), "rate_w": int(block[1])}
        return {"padding": self.new_padding(match, block, pads), "all": border, **rates}


class _Dilated(_Blocks):
    """batch_to_space(conv(space_to_batch(x)))  ==  conv(x) with the block as dilation."""

    before = """
        s = SpaceToBatchND(x, block: const, pads: const)
        y = Conv2D|DepthwiseConv2D(s, w, b?)
            {padding: any = inner, stride_h: 1, stride_w: 1, dilation_h: 1, dilation_w: 1}
        z = BatchToSpaceND(y, same_block: const, crops: const)
    """
    after = """
        $pad
        z = Conv2D|DepthwiseConv2D($padded, w, b)
            {like y, padding: padding, dilation_h: rate_h, dilation_w: rate_w}
    """


class FuseSpaceToBatchWithConv(Rules):
    """Merge SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND into a dilated convolution."""

    name = "fuse_space_to_batch_with_conv"
    rules = (
        _Dilated.member(pad="", padded="x"),
        _Dilated.member(pad="p = Pad(x, all)", padded="p", explicit=True),
    )


class _Dilated1D(_Blocks):
    """batch_to_space(conv(space_to_batch(x)))  ==  conv(x) with the block as dilation, for x [N, W, C].

    A convolution takes images.  So $insert adds an axis of size 1 to the data, here called the height, and
    $drop removes the height again.
    """

    block_dims = 1

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
        $pad
        o = Conv2D|DepthwiseConv2D($padded, w, b)
            {like y, padding: padding, dilation_h: rate_h, dilation_w: rate_w}
        z = Reshape(o, flat)            {new_shape: new_flat}
    """

    @condition
    def has_equal_blocks(self, match: Match, block: Array, same_block: Array) -> str | None:
        """The blocks are equal, and the image has a height of 1 on both sides of the convolution."""
        sentence = super().has_equal_blocks(match, block, same_block)
        if sentence is not None:
            return sentence
        s, e, y, q = map(match.value, "seyq")
        axis = _height_axis(s, e)
        if axis is None:
            return f"%{e.name}: expected %{s.name} with a height of 1, got shape {format_shape(e.shape)}"
        if axis != _height_axis(q, y):
            return f"%{q.name}: expected %{y.name} without axis {axis}, got shape {format_shape(q.shape)}"
        return None

    def block_and_padding(self, match: Match, inner: Padding) -> tuple[Array, Pads]:
        """Like the base class, with a block of 1 and no pads and crops along the inserted height."""
        values = [match.value(name).array().reshape(-1) for name in ("block", "pads", "crops")]
        # block, pads and crops of the height
        neutral = [np.ones(1, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)]
        is_first = _height_axis(match.value("s"), match.value("e")) == 1
        pairs = [(n, v) if is_first else (v, n) for n, v in zip(neutral, values, strict=True)]
        block, pads, crops = (np.stack(pair) for pair in pairs)
        return block.reshape(-1), total_padding(pads, crops, block.reshape(-1), inner, match.value("w"))

    def constants(self, match: Match, inner: Padding) -> dict[str, Any]:
        x, z = match.value("x").static_shape, match.value("z").static_shape
        axis = _height_axis(match.value("s"), match.value("e"))
        high = (*x[:axis], 1, *x[axis:])
        shapes = {"high": np.array(high, np.int32), "flat": np.array(z, np.int32)}
        return {**super().constants(match, inner), **shapes, "new_high": high, "new_flat": z}


def _height_axis(low: Value, high: Value) -> int | None:
    """Return the axis, 1 or 2, at which ``high`` has one more axis of size 1 than ``low`` [N, W, C].

    Return None if the shapes differ in another way.
    """
    flat, shape = low.static_shape, high.static_shape
    return next((axis for axis in (1, 2) if shape == (*flat[:axis], 1, *flat[axis:])), None)


# two ways in which exporters add and remove the height
EXPANDED = {"insert": "ExpandDims(s, dim: const)", "drop": "Squeeze(y)    {squeeze_dims: any}"}
RESHAPED = {"insert": "Reshape(s, to?)  {new_shape: any}", "drop": "Reshape(y, back?) {new_shape: any}"}


class FuseSpaceToBatchWithConv1D(Rules):
    """Merge SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND into a dilated convolution, for sequences.

    Between the two, exporters write the sequence [N, W, C] as an image of height 1.
    """

    name = "fuse_space_to_batch_with_conv1d"
    rules = tuple(
        _Dilated1D.member(pad=pad, padded=padded, explicit=bool(pad), **words)
        for pad, padded in (("", "i"), ("p = Pad(i, all)", "p"))
        for words in (EXPANDED, RESHAPED)
    )
