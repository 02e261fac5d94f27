# SPDX-License-Identifier: Apache-2.0
"""A factor per channel after a convolution, folded into its filter and bias."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.channels import per_channel, scaled
from circlekit.rewrite.rewrite import Rewrite


class FuseMulWithConv2D(Rewrite):
    """(conv(x, w) + b) * scale  ==  conv(x, w * scale) + b * scale."""

    name = "fuse_mul_with_conv"

    before = """
        y = Conv2D(x, w: const f32[O, _, _, _], b?: const f32[*, O])
        z = Mul(y, scale: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = """
        z = Conv2D(x, w2, b2)                {like y, act: act}
    """

    def constants(self, w: Array, scale: Array, O: int, b: Array | None) -> dict[str, Array | None]:
        s = per_channel(scale, O)
        return {"w2": w * s[:, None, None, None], "b2": scaled(b, s)}
