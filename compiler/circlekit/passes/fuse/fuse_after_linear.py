# SPDX-License-Identifier: Apache-2.0
"""Fold per-channel arithmetic after a convolution or fully connected layer into its weights and bias.

One template for each kind of arithmetic (sum, product, batch norm), one pass for each linear operator.
"""

from __future__ import annotations

from typing import Any, ClassVar

from circlekit.ir.value import Array
from circlekit.passes.support.linear_producer import fold_bias, per_channel
from circlekit.rewrite.rewrite import Rewrite


class AfterLinear(Rewrite):
    """Base of the templates.  ``output_axis``: the axis of the filter with the output channels."""

    output_axis: ClassVar[int] = 0

    def scaled(self, w: Array, scale: Array) -> Array:
        """``w`` with each output channel multiplied by its factor; ``scale`` has rank 1."""
        return w * scale.reshape([-1 if axis == self.output_axis else 1 for axis in range(w.ndim)])


class FuseAdd(AfterLinear):
    """($layer(x, w) + b) + shift  ==  $layer(x, w) + (b + shift), for one shift per output channel."""

    name = "fuse_add_with_$layer"

    before = """
        y = $kind($first, w: f32$filter,$rest b?: const f32[*, O])
        z = Add(y, shift: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $kind($first, w,$rest b2)  {like y, act: act}"

    def constants(self, shift: Array, O: int, b: Array | None) -> dict[str, Array]:
        return {"b2": fold_bias(b, None, per_channel(shift, O))}


class FuseMul(AfterLinear):
    """($layer(x, w) + b) * scale  ==  $layer(x, w * scale) + b * scale, for one factor per output channel."""

    name = "fuse_mul_with_$layer"

    before = """
        y = $kind($first, w: const f32$filter,$rest b?: const f32[*, O])  $attributes
        z = Mul(y, scale: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $kind($first, w2,$rest b2)  {like y, act: act}"

    def constants(self, w: Array, scale: Array, O: int, b: Array | None) -> dict[str, Array | None]:
        factors = per_channel(scale, O)
        return {"w2": self.scaled(w, factors), "b2": None if b is None else b.reshape(-1) * factors}


class FuseBatchNorm(AfterLinear):
    """$layer(x, w) * scale + shift  ==  $layer(x, w * scale) + shift, for one of each per output channel."""

    name = "fuse_batchnorm_with_$layer"

    before = """
        y = $kind($first, w: const f32$filter,$rest b?: const f32[*, O])
        m = Mul(y, scale: const f32[*, O|1])
        z = Add(m, shift: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = $kind($first, w2,$rest b2)  {like y, act: act}"

    def constants(self, w: Array, scale: Array, shift: Array, O: int, b: Array | None) -> dict[str, Array]:
        factors = per_channel(scale, O)
        return {"w2": self.scaled(w, factors), "b2": fold_bias(b, factors, per_channel(shift, O))}


CONVOLUTIONS: tuple[dict[str, Any], ...] = (
    {"layer": "conv", "kind": "Conv2D", "first": "x", "filter": "[O, _, _, _]", "rest": ""},
    {"layer": "dwconv", "kind": "DepthwiseConv2D", "first": "x", "filter": "[1, _, _, O]", "rest": "",
     "output_axis": 3},
    {"layer": "tconv", "kind": "TransposeConv", "first": "shape", "filter": "[O, _, _, _]", "rest": " x,"},
)  # fmt: skip
FULLY_CONNECTED = {"kind": "FullyConnected", "first": "x", "filter": "[O, _]", "rest": ""}

PASSES = (
    *(FuseAdd.member(**words) for words in CONVOLUTIONS),
    FuseAdd.member(layer="fully_connected", **FULLY_CONNECTED),
    *(FuseMul.member(attributes="", **words) for words in CONVOLUTIONS),
    FuseMul.member(layer="fullyconnected", attributes="{weights_format: DEFAULT}", **FULLY_CONNECTED),
    *(FuseBatchNorm.member(**words) for words in CONVOLUTIONS),
)
