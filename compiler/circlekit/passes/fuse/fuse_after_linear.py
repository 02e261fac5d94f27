# SPDX-License-Identifier: Apache-2.0
"""Fold per-channel arithmetic after a convolution or fully connected layer into its weights and bias.

One template for each kind of arithmetic (sum, product, batch norm), one pass for each linear operator.
"""

from __future__ import annotations

from typing import ClassVar

from circlekit.ir.value import Array
from circlekit.passes.support.linear_producer import fold_bias, per_channel
from circlekit.rewrite.rewrite import Rewrite

CONV = {"layer": "Conv2D", "call": "conv", "first": "x", "filter": "[O, _, _, _]", "rest": ""}
DEPTHWISE = {"layer": "DepthwiseConv2D", "call": "dwconv", "first": "x", "filter": "[1, _, _, O]", "rest": ""}
TRANSPOSED = {
    "layer": "TransposeConv", "call": "tconv", "first": "shape", "filter": "[O, _, _, _]", "rest": " x,",
}  # fmt: skip
FULLY_CONNECTED = {"layer": "FullyConnected", "call": "fc", "first": "x", "filter": "[O, _]", "rest": ""}


class FuseAdd(Rewrite):
    """($call(x, w) + b) + shift  ==  $call(x, w) + (b + shift), for one shift per output channel."""

    before = """
        y = $layer($first, w: f32$filter,$rest b?: const f32[*, O])
        z = Add(y, shift: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $layer($first, w,$rest b2)  {like y, act: act}"

    def constants(self, shift: Array, O: int, b: Array | None) -> dict[str, Array]:
        return {"b2": fold_bias(b, None, per_channel(shift, O))}


class FuseAddWithConv2D(FuseAdd, **CONV):
    name = "fuse_add_with_conv"


class FuseAddWithDepthwiseConv2D(FuseAdd, **DEPTHWISE):
    name = "fuse_add_with_dwconv"


class FuseAddWithTransposeConv(FuseAdd, **TRANSPOSED):
    name = "fuse_add_with_tconv"


class FuseAddWithFullyConnected(FuseAdd, **FULLY_CONNECTED):
    name = "fuse_add_with_fully_connected"


class Scaling(Rewrite):
    """Rewrites that scale the output channels of a filter, which are its axis ``output_axis``."""

    output_axis: ClassVar[int] = 0

    def scale_filter(self, w: Array, scale: Array) -> Array:
        """``w`` with each output channel multiplied by its factor; ``scale`` has rank 1."""
        return w * scale.reshape([-1 if axis == self.output_axis else 1 for axis in range(w.ndim)])


class FuseMul(Scaling):
    """($call(x, w) + b) * scale  ==  $call(x, w * scale) + b * scale, for one factor per output channel."""

    before = """
        y = $layer($first, w: const f32$filter,$rest b?: const f32[*, O])
        z = Mul(y, scale: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $layer($first, w2,$rest b2)  {like y, act: act}"

    def constants(self, w: Array, scale: Array, O: int, b: Array | None) -> dict[str, Array | None]:
        factors = per_channel(scale, O)
        return {"w2": self.scale_filter(w, factors), "b2": None if b is None else b.reshape(-1) * factors}


class FuseMulWithConv2D(FuseMul, **CONV):
    name = "fuse_mul_with_conv"


class FuseMulWithDepthwiseConv2D(FuseMul, **DEPTHWISE):
    name = "fuse_mul_with_dwconv"
    output_axis = 3


class FuseMulWithTransposeConv(FuseMul, **TRANSPOSED):
    name = "fuse_mul_with_tconv"


class FuseMulWithFullyConnected(FuseMul, **FULLY_CONNECTED):
    name = "fuse_mul_with_fullyconnected"
    before = """
        y = $layer($first, w: const f32$filter,$rest b?: const f32[*, O])  {weights_format: DEFAULT}
        z = Mul(y, scale: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """


class FuseBatchNorm(Scaling):
    """$call(x, w) * scale + shift  ==  $call(x, w * scale) + shift, for one of each per output channel."""

    before = """
        y = $layer($first, w: const f32$filter,$rest b?: const f32[*, O])
        m = Mul(y, scale: const f32[*, O|1])
        z = Add(m, shift: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $layer($first, w2,$rest b2)  {like y, act: act}"

    def constants(self, w: Array, scale: Array, shift: Array, O: int, b: Array | None) -> dict[str, Array]:
        factors = per_channel(scale, O)
        return {"w2": self.scale_filter(w, factors), "b2": fold_bias(b, factors, per_channel(shift, O))}


class FuseBatchNormWithConv2D(FuseBatchNorm, **CONV):
    name = "fuse_batchnorm_with_conv"


class FuseBatchNormWithDepthwiseConv2D(FuseBatchNorm, **DEPTHWISE):
    name = "fuse_batchnorm_with_dwconv"
    output_axis = 3


class FuseBatchNormWithTransposeConv(FuseBatchNorm, **TRANSPOSED):
    name = "fuse_batchnorm_with_tconv"
