# SPDX-License-Identifier: Apache-2.0
"""Fuse padding with a convolution or max pool that reads it, if SAME padding gives the same windows."""

from __future__ import annotations

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.dimensions import axis_windows, known_dims
from circlekit.passes.support.conditions import is_never_negative, same_quantization
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Padded(Rewrite):
    """$layer(pad(x)) with VALID padding  ==  $layer(x) with SAME padding."""

    quantized = True
    spread = ("p",)

    before = """
        p = $pad
        z = $layer(p$operands)      {padding: VALID}
    """
    after = "z = $layer(x$rest)     {like z, padding: SAME}"

    @condition
    def one_quantization(self, x: Value, p: Value) -> str | None:
        """``x`` and ``p`` have the same quantization parameters."""
        return same_quantization(x, p)

    @condition
    def same_windows(self, match: Match, x: Value, paddings: Array) -> str | None:
        """SAME padding of ``x`` gives the same number of windows, at the same places.

        Padding at the end that no window reaches does not count.
        """
        pairs = [tuple(pair) for pair in paddings.reshape(-1, 2).tolist()]
        axes = list(zip(x.known_shape[1:-1], *windows(match.ops["z"]), pairs[1:-1], strict=True))
        if not any(pairs[0] + pairs[-1]) and all(_is_same(*axis) for axis in axes):
            return None
        return f"%{match.value('p').name}: SAME padding of %{x.name}, {x.type}, differs from {list(pairs)}"


def windows(op: object) -> tuple[tuple[int, ...], ...]:
    """Return three tuples with a number for each spatial axis: the taps, the strides and the dilations.

    ``op``: a convolution or a MaxPool2D.  Raise ModelError for a filter without a static shape.
    """
    if isinstance(op, ConvolutionLayer):
        return known_dims(op.taps(op.filter.static_shape)), op.strides, op.dilations
    assert isinstance(op, MaxPool2D)  # as in the pictures
    return (op.filter_height, op.filter_width), (op.stride_h, op.stride_w), (1, 1)


def _is_same(size: int | None, taps: int, stride: int, dilation: int, pair: tuple[int, int]) -> bool:
    """Return whether VALID windows of data padded by ``pair`` (before, after) are those of SAME padding.

    With a stride of 1, this does not depend on ``size``; with another, an unknown ``size`` gives False.
    """
    if size is None:
        if stride != 1:
            return False
        size = (taps - 1) * dilation + 1
    same = axis_windows(size, taps, stride, dilation, Padding.SAME)
    padded = axis_windows(size + sum(pair), taps, stride, dilation, Padding.VALID)
    return (same.number, same.before) == (padded.number, pair[0])


class _PooledZeros(_Padded, pad="Pad(x, paddings: const)", layer="MaxPool2D", operands="", rest=""):
    """max_pool(pad(x))  ==  max_pool(x) with SAME padding, if x has no negative element."""

    @condition
    def nothing_is_negative(self, x: Value) -> str | None:
        """``x`` has no negative element, so 0 never exceeds the largest element of a window."""
        return None if is_never_negative(x) else f"%{x.name}: may be negative, so the padding may exceed it"


class _PooledLowest(
    _Padded, pad="PadV2(x: f32, paddings: const, c: const)", layer="MaxPool2D", operands="", rest=""
):
    """max_pool(padv2(x, c))  ==  max_pool(x) with SAME padding, if c is the lowest number."""

    @condition
    def pads_with_the_lowest(self, match: Match, c: Array) -> str | None:
        """``c`` is the lowest number of float32 or minus infinity."""
        if c.max() <= np.finfo(np.float32).min:
            return None
        return f"%{match.value('c').name}: expected the lowest float32 or -inf, got {c.max():g}"


CONVOLUTION = {"layer": "Conv2D|DepthwiseConv2D|Conv3D", "operands": ", w, b?", "rest": ", w, b"}


class FusePad(Rules):
    """Fuse padding with the convolution or max pool that reads it, if SAME padding gives the same windows.

    Exporters from PyTorch write a separate PAD, which copies the whole image.
    """

    name = "fuse_pad"
    rules = (
        _Padded.member(pad="Pad(x, paddings: const)", **CONVOLUTION),
        _Padded.member(pad="PadV2(x: f32, paddings: const, 0.0)", **CONVOLUTION),
        _PooledZeros,
        _PooledLowest,
    )
