# SPDX-License-Identifier: Apache-2.0
"""Write a factor and an offset per channel as DEPTHWISE_CONV_2D."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.channels import per_channel
from circlekit.rewrite.rewrite import Rewrite


class ReplaceChannelwiseMulAdd(Rewrite):
    """x * gamma + beta  ==  dwconv(x, gamma) + beta, with a filter of 1 x 1."""

    name = "replace_cw_mul_add_with_depthwise_conv"

    before = """
        m = Mul(x: f32[_, _, _, C], gamma: const f32[*, C|1])
        z = Add(m, beta: const f32[*, C|1])         {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = """
        z = DepthwiseConv2D(x, w, b)                {padding: SAME, act: act}
    """

    def constants(self, gamma: Array, beta: Array, C: int) -> dict[str, Array]:
        w = per_channel(gamma, C).reshape(1, 1, 1, C)
        return {"w": w, "b": per_channel(beta, C)}
