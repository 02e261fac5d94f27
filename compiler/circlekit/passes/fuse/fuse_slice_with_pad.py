# SPDX-License-Identifier: Apache-2.0
"""Pad less before a convolution if a slice drops results that exist only because of the padding."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.fuse.fuse_movement_into_convolution import SLICE, STRIDED_SLICE, slice_bounds
from circlekit.passes.fuse.fuse_pad import windows
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

Pair = tuple[int, int]


class _SliceAfterConvolution(Rewrite):
    """slice(conv(pad(x)))  ==  conv(smaller pad(x)), for one of the slicing operators.

    ``$slice``: the operator.
    """

    quantized = True

    before = """
        p = Pad(x, paddings: const)
        y = Conv2D|DepthwiseConv2D(p, w, b?)    {padding: VALID}
        z = $slice
    """
    after = """
        q = Pad(x, less)                        {like p}
        z = Conv2D|DepthwiseConv2D(q, w, b)     {like y}
    """

    @condition
    def one_quantization(self, x: Value, p: Value, y: Value, z: Value) -> str | None:
        """``x`` and ``p`` have the same quantization parameters, and so have ``y`` and ``z``."""
        return same_quantization(x, p) or same_quantization(y, z)

    @condition
    def drops_padded_windows(self, match: Match, x: Value, y: Value, z: Value) -> str | None:
        """The slice only drops windows at the ends of rows or columns, which the padding made."""
        if not (x.is_static and y.is_static):
            return f"%{y.name}: expected a static shape, got {y.type}"
        if _less_padding(match) is None:
            return f"%{z.name}: with less padding, %{y.name} would not give the results that the slice takes"
        return None

    def constants(self, match: Match) -> dict[str, Array]:
        return {"less": np.array(_less_padding(match), match.value("paddings").dtype.numpy)}


class _StridedSliceAfterConvolution(_SliceAfterConvolution, slice=STRIDED_SLICE):
    """The same for a StridedSlice that takes every element in its range."""

    @condition
    def skips_nothing(self, z: Value, strides: Array) -> str | None:
        if (strides == 1).all():
            return None
        return f"%{z.name}: expected strides of 1, got {strides.tolist()}"


class FuseSliceWithPad(Rules):
    """slice(conv(pad(x)))  ==  conv(smaller pad(x)).

    Causal convolutions of PyTorch pad both ends, and then drop the results at the end.
    """

    name = "fuse_slice_with_pad"
    rules = (_SliceAfterConvolution.member(slice=SLICE), _StridedSliceAfterConvolution)


def _less_padding(match: Match) -> list[Pair] | None:
    """Return the padding with which the convolution gives what the slice takes.

    Return None if there is none, or if the slice cuts the batch or the channels, or takes nothing.
    """
    size, full = match.value("x").static_shape, match.value("y").static_shape
    first, taken = slice_bounds(match, full)
    if any(first[axis] or taken[axis] != full[axis] for axis in (0, 3)) or 0 in taken:
        return None
    pairs: list[Pair] = [(a, b) for a, b in match.value("paddings").array().reshape(-1, 2).tolist()]
    for axis, taps, stride, dilation in zip((1, 2), *windows(match.ops["y"]), strict=True):
        if taken[axis] == full[axis]:
            continue
        before = pairs[axis][0] - first[axis] * stride
        last = (taken[axis] - 1) * stride + (taps - 1) * dilation  # the last row or column that is read
        after = last + 1 - size[axis] - before
        if before < 0 or after < 0:
            return None
        pairs[axis] = before, after
    return pairs
