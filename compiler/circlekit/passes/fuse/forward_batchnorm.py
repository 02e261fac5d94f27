# SPDX-License-Identifier: Apache-2.0
"""Factors and offsets of channels, moved to the convolution that they can be folded into."""

from __future__ import annotations

from circlekit.ir.value import Array, Value, format_shape
from circlekit.passes.fuse.products import not_from_product, not_per_channel
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Forward(Rewrite):
    """The operator in between leaves the last dimension, the channels, as it is."""

    @condition
    def follows_a_product(self, x: Value) -> str | None:
        return not_from_product(x)

    @condition
    def keeps_channels(self, x: Value, y: Value) -> str | None:
        if x.shape and y.shape and x.shape[-1] == y.shape[-1] and x.shape[-1] is not None:
            return None
        return f"%{y.name}: has shape {format_shape(y.shape)}, of {format_shape(x.shape)}: other channels"

    @condition
    def is_per_channel(self, c: Array, y: Value) -> str | None:
        return not_per_channel(c, y)

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": c.reshape(-1)}


class _Reshape(_Forward):
    """reshape(x) * c  ==  reshape(x * c)."""

    before = """
        y = Reshape(x, shape: const)
        z = Add|Mul(y, c: const f32)     {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                {like z, act: act}
        z = Reshape(m, shape)            {like y}
    """


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


class ForwardBatchNorm(Rules):
    """A sum or product with a constant of the channels goes before Reshape and BatchToSpaceND.

    Only where a convolution or a fully connected layer is before those, which can take it.
    """

    name = "forward_batchnorm"
    rules = (_Reshape, _BatchToSpace)
