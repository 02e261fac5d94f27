# SPDX-License-Identifier: Apache-2.0
"""Batch norm after a depthwise convolution, folded into its filter and bias."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.channels import fold_bias, per_channel
from circlekit.rewrite.rewrite import Rewrite


class FuseBatchNormWithDepthwiseConv2D(Rewrite):
    """dwconv(x, w) * scale + shift  ==  dwconv(x, w * scale) + shift."""

    name = "fuse_batchnorm_with_dwconv"

    before = """
        y = DepthwiseConv2D(x, w: const f32[1, _, _, O], b?: const f32[*, O])
        m = Mul(y, scale: const f32[*, O|1])
        z = Add(m, shift: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = """
        z = DepthwiseConv2D(x, w2, b2)                {like y, act: act}
    """

    def constants(self, w: Array, scale: Array, shift: Array, O: int, b: Array | None) -> dict[str, Array]:
        s = per_channel(scale, O)
        return {"w2": w * s, "b2": fold_bias(b, s, per_channel(shift, O))}
