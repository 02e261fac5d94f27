# SPDX-License-Identifier: Apache-2.0
"""Move a factor or an offset per channel before operators that move or average data."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.support.linear_producer import channel_refusal, producer_refusal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Forward(Rewrite):
    """The operator in between keeps the last dimension, the channels; ``d`` is the constant as rank 1."""

    @condition
    def follows_a_linear_operator(self, x: Value, match: Match) -> str | None:
        return producer_refusal(x, isinstance(match.ops["z"], Add))

    @condition
    def keeps_channels(self, x: Value, y: Value, c: Array) -> str | None:
        if x.shape and y.shape and x.shape[-1] == y.shape[-1] and x.shape[-1] is not None:
            return None
        return (
            f"%{y.name}: expected the channels of {format_shape(x.shape)}, got shape {format_shape(y.shape)}"
        )

    @condition
    def is_per_channel(self, c: Array, y: Value, match: Match) -> str | None:
        return channel_refusal(c, y)

    def constants(self, c: Array, x: Value) -> dict[str, Array]:
        return {"d": c.reshape(-1)}


class _Move(_Forward):
    """$move(x) * c  ==  $move(x * c); an activation moves with it."""

    before = """
        y = $move(x$operands)
        z = $arithmetic(y, c: const f32)     {act: any = act}
    """
    after = """
        m = $arithmetic(x, d)                {like z, act: act}
        z = $move(m$operands)                {like y}
    """


class _Reshape(_Move, move="Reshape", operands=", shape", arithmetic="Add|Mul"):
    """reshape(x) * c  ==  reshape(x * d); the Reshape may also merge the channels with other dimensions."""

    @condition
    def keeps_channels(self, x: Value, y: Value, c: Array) -> str | None:
        if c.size == 1 or _repeated(c, x) is not None:
            return None
        return super().keeps_channels(x, y, c)

    def constants(self, c: Array, x: Value) -> dict[str, Array]:
        row = None if c.size == 1 else _repeated(c, x)
        return {"d": c.reshape(-1) if row is None else row}


def _repeated(c: Array, x: Value) -> Array | None:
    """One number per channel of ``x`` if ``c`` repeats these again and again, else None."""
    channels = x.shape[-1] if x.shape else None
    if not channels or c.size % channels:
        return None
    rows = c.reshape(-1, channels)
    return np.ascontiguousarray(rows[0]) if (rows == rows[0]).all() else None


class _StridedSlice(_Move, move="StridedSlice", operands=", begin, end, strides", arithmetic="Add|Mul"):
    """The same for a slice with steps that keeps the order of the channels."""

    before = """
        y = $move(x, begin: const, end: const, strides: const)
        z = $arithmetic(y, c: const f32)     {act: any = act}
    """

    @condition
    def keeps_their_order(self, y: Value, strides: Array) -> str | None:
        return f"%{y.name}: reverses the channels" if strides.size and strides[-1] < 0 else None


class _Transpose(_Move, move="Transpose", operands=", perm", arithmetic="Add|Mul"):
    """transpose(x) * c  ==  transpose(x * d), for c along the axis that perm moves the channels to."""

    before = """
        y = $move(x, perm: const)
        z = $arithmetic(y, c: const f32)     {act: any = act}
    """

    @condition
    def keeps_channels(self, x: Value, y: Value, c: Array) -> str | None:
        if x.shape and x.shape[-1] is not None:
            return None
        return f"%{x.name}: expected a known number of channels, got shape {format_shape(x.shape)}"

    @condition
    def is_per_channel(self, c: Array, y: Value, match: Match) -> str | None:
        perm, channels = match.value("perm").array(), (match.value("x").shape or (None,))[-1]
        rank = perm.size
        place = [normalized_axis(int(a), rank) for a in perm].index(rank - 1)
        expected = [channels if axis == place else 1 for axis in range(rank)][rank - c.ndim :]
        if c.size == 1 or (c.ndim <= rank and list(c.shape) == expected):
            return None
        shape = format_shape(c.shape)
        return f"%{y.name}: expected a constant with one number per channel, along axis {place}, got {shape}"


class _Average(_Forward):
    """$move(x) * c  ==  $move(x * c): the weights of the weighted mean that $move computes have the sum 1."""

    before = """
        y = $move(x$operands)
        z = Add|Mul(y, c: const f32)     {act: NONE}
    """
    after = """
        m = Add|Mul(x, d)                {like z}
        z = $move(m$operands)            {like y$options}
    """


class _Mean(_Average, move="Mean", operands=", axes", options=""):
    """mean(x) * c  ==  mean(x * c), unless the mean is over the channels."""

    before = """
        y = $move(x, axes: const)
        z = Add|Mul(y, c: const f32)     {act: NONE}
    """

    @condition
    def not_over_channels(self, x: Value, y: Value, axes: Array) -> str | None:
        rank = x.rank or 0
        if rank - 1 in {normalized_axis(int(a), rank) for a in axes.reshape(-1)}:
            return f"%{y.name}: is a mean over the channels of %{x.name}"
        return None


class ForwardBatchNorm(Rules):
    """Move a sum or product with a constant per channel before operators that move or average data.

    Only where a convolution or a fully connected layer comes before that, which can absorb it.
    """

    name = "forward_batchnorm"
    rules = (
        _Reshape,
        _Move.member(move="Squeeze", operands="", arithmetic="Add|Mul"),
        _Move.member(move="ExpandDims", operands=", dim", arithmetic="Add|Mul"),
        _Move.member(move="Slice", operands=", begin, size", arithmetic="Add|Mul"),
        _StridedSlice,
        _Move.member(move="BatchToSpaceND", operands=", block, crops", arithmetic="Add|Mul"),
        _Transpose,
        _Average.member(move="AveragePool2D", operands="", options=", act: NONE"),
        _Average.member(move="ResizeBilinear|ResizeNearestNeighbor", operands=", size", options=""),
        _Mean,
        _Move.member(move="Pad", operands=", paddings", arithmetic="Mul"),
    )
