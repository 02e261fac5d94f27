# SPDX-License-Identifier: Apache-2.0
"""Factors and offsets of channels, moved to the convolution that they can be folded into.

Over 120 lines because every operator that they can cross has a picture of its own.
"""

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


class _Slice(_Forward):
    """slice(x) * c  ==  slice(x * c), for a box of all channels."""

    before = """
        y = Slice(x, begin: const, size: const)
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


class _ResizeNearest(_Forward):
    """resize(x) * c  ==  resize(x * c): every pixel is one of the input."""

    before = """
        y = ResizeNearestNeighbor(x, size: const)   {align_corners: any, half_pixel_centers: any}
        z = Add|Mul(y, c: const f32)                {act: any = act}
    """
    after = """
        m = Add|Mul(x, d)                   {like z, act: act}
        z = ResizeNearestNeighbor(m, size)  {like y}
    """


class _ResizeBilinear(_Forward):
    """The same for means of pixels; an activation is none of what they have in common."""

    before = """
        y = ResizeBilinear(x, size: const)  {align_corners: any, half_pixel_centers: any}
        z = Add|Mul(y, c: const f32)
    """
    after = """
        m = Add|Mul(x, d)                   {like z}
        z = ResizeBilinear(m, size)         {like y}
    """


class ForwardBatchNorm(Rules):
    """A sum or product with a constant of the channels goes before what only moves pixels.

    That is Reshape, BatchToSpaceND, Slice, StridedSlice (an exporter's output padding, say) and the Resizes.

    Only where a convolution or a fully connected layer is before those, which can take it.
    """

    name = "forward_batchnorm"
    rules = (_Reshape, _BatchToSpace, _Slice, _StridedSlice, _ResizeNearest, _ResizeBilinear)
