# SPDX-License-Identifier: Apache-2.0
"""Factors and offsets of channels, moved to the convolution that they can be folded into.

Over 120 lines because each operator that can be passed has a picture.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.support.linear_producer import not_from_product, not_per_channel
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Forward(Rewrite):
    """The operator in between leaves the last dimension, the channels, as it is."""

    @condition
    def follows_a_product(self, x: Value, match: Match) -> str | None:
        return not_from_product(x, isinstance(match.ops["z"], Add))

    @condition
    def keeps_channels(self, x: Value, y: Value, c: Array) -> str | None:
        if x.shape and y.shape and x.shape[-1] == y.shape[-1] and x.shape[-1] is not None:
            return None
        return f"%{y.name}: has shape {format_shape(y.shape)}, of {format_shape(x.shape)}: other channels"

    @condition
    def is_per_channel(self, c: Array, y: Value, match: Match) -> str | None:
        return not_per_channel(c, y)

    def constants(self, c: Array, x: Value) -> dict[str, Array]:
        return {"d": c.reshape(-1)}


class _Reshape(_Forward):
    """reshape(x) * c  ==  reshape(x * d), also where it makes one dimension of the channels and others."""

    before = """
        y = Reshape(x, shape: const)
        z = Add|Mul(y, c: const f32)     {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                {like z, act: act}
        z = Reshape(m, shape)            {like y}
    """

    @condition
    def keeps_channels(self, x: Value, y: Value, c: Array) -> str | None:
        if c.size == 1 or _repeated(c, x) is not None:
            return None
        return super().keeps_channels(x, y, c)

    def constants(self, c: Array, x: Value) -> dict[str, Array]:
        once = None if c.size == 1 else _repeated(c, x)
        return {"d": c.reshape(-1) if once is None else once}


def _repeated(c: Array, x: Value) -> Array | None:
    """One number a channel of ``x``, where ``c`` has these again and again."""
    channels = x.shape[-1] if x.shape else None
    if not channels or c.size % channels:
        return None
    rows = c.reshape(-1, channels)
    return np.ascontiguousarray(rows[0]) if (rows == rows[0]).all() else None


class _Squeeze(_Forward):
    """squeeze(x) * c  ==  squeeze(x * c)."""

    before = """
        y = Squeeze(x)
        z = Add|Mul(y, c: const f32)     {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                {like z, act: act}
        z = Squeeze(m)                   {like y}
    """


class _ExpandDims(_Forward):
    """expand_dims(x) * c  ==  expand_dims(x * c)."""

    before = """
        y = ExpandDims(x, dim: const)
        z = Add|Mul(y, c: const f32)     {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                {like z, act: act}
        z = ExpandDims(m, dim)
    """


class _Slice(_Forward):
    """slice(x) * c  ==  slice(x * c), with all channels."""

    before = """
        y = Slice(x, begin, size)
        z = Add|Mul(y, c: const f32)     {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                {like z, act: act}
        z = Slice(m, begin, size)
    """


class _StridedSlice(_Forward):
    """The same for a Slice with steps that keeps the order of the channels, and all dimensions."""

    before = """
        y = StridedSlice(x, begin: const, end: const, strides: const)
            {begin_mask: any, end_mask: any, ellipsis_mask: any, offset: any}
        z = Add|Mul(y, c: const f32)     {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                {like z, act: act}
        z = StridedSlice(m, begin, end, strides) {like y}
    """

    @condition
    def keeps_their_order(self, y: Value, strides: Array) -> str | None:
        return f"%{y.name}: the last channel comes first" if strides.size and strides[-1] < 0 else None


class _BatchToSpace(_Forward):
    """batch_to_space(x) * c  ==  batch_to_space(x * c)."""

    before = """
        y = BatchToSpaceND(x, block: const, crops: const)
        z = Add|Mul(y, c: const f32)     {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                {like z, act: act}
        z = BatchToSpaceND(m, block, crops)
    """


class _Transpose(_Forward):
    """transpose(x) * c  ==  transpose(x * d), the channels being where the transpose has put them."""

    before = """
        y = Transpose(x, perm: const)
        z = Add|Mul(y, c: const f32)     {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                {like z, act: act}
        z = Transpose(m, perm)
    """

    @condition
    def keeps_channels(self, x: Value, y: Value, c: Array) -> str | None:
        if x.shape and x.shape[-1] is not None:
            return None
        return f"%{x.name}: has shape {format_shape(x.shape)}, a known number of channels is wanted"

    @condition
    def is_per_channel(self, c: Array, y: Value, match: Match) -> str | None:
        perm, channels = match.value("perm").array(), (match.value("x").shape or (None,))[-1]
        rank = perm.size
        place = [normalized_axis(int(a), rank) for a in perm].index(rank - 1)
        wanted = [channels if axis == place else 1 for axis in range(rank)][rank - c.ndim :]
        if c.size == 1 or (c.ndim <= rank and list(c.shape) == wanted):
            return None
        shape = format_shape(c.shape)
        return f"%{y.name}: the constant has shape {shape}, one a channel, along axis {place}, is wanted"


class _Pool(_Forward):
    """mean(x) * c  ==  mean(x * c), for pools and sizes: the weights of what they add up have the sum 1."""

    before = """
        y = AveragePool2D(x)
        z = Add|Mul(y, c: const f32)     {act: NONE}
    """
    after = """
        m = Add|Mul(x, d)                {like z}
        z = AveragePool2D(m)             {like y, act: NONE}
    """


class _Resize(_Forward):
    """resize(x) * c  ==  resize(x * c)."""

    before = """
        y = ResizeBilinear|ResizeNearestNeighbor(x, size)
        z = Add|Mul(y, c: const f32)     {act: NONE}
    """
    after = """
        m = Add|Mul(x, d)                                   {like z}
        z = ResizeBilinear|ResizeNearestNeighbor(m, size)   {like y}
    """


class _Mean(_Forward):
    """mean(x) * c  ==  mean(x * c), not over the channels."""

    before = """
        y = Mean(x, axes: const)
        z = Add|Mul(y, c: const f32)     {act: NONE}
    """
    after = """
        m = Add|Mul(x, d)                {like z}
        z = Mean(m, axes)                {like y}
    """

    @condition
    def not_over_channels(self, x: Value, y: Value, axes: Array) -> str | None:
        rank = x.rank or 0
        if rank - 1 in {normalized_axis(int(a), rank) for a in axes.reshape(-1)}:
            return f"%{y.name}: is a mean over the channels of %{x.name}"
        return None


class _Pad(_Forward):
    """pad(x) * c  ==  pad(x * c), the border being 0."""

    before = """
        y = Pad(x, paddings)
        z = Mul(y, c: const f32)         {act: any = act}
    """
    after = """
        m = Mul(x, d)                    {act: act}
        z = Pad(m, paddings)
    """


class ForwardBatchNorm(Rules):
    """A sum or product with a constant of the channels goes before what moves or averages the data.

    Only where a convolution or a fully connected layer is before that, which can take it.
    """

    name = "forward_batchnorm"
    rules = (
        _Reshape, _Squeeze, _ExpandDims, _Slice, _StridedSlice, _BatchToSpace, _Transpose, _Pool, _Resize,
        _Mean, _Pad,
    )  # fmt: skip
