# SPDX-License-Identifier: Apache-2.0
"""A factor per channel after a transposed convolution, folded into its filter and bias."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.channels import per_channel, scaled
from circlekit.rewrite.rewrite import Rewrite


class FuseMulWithTransposeConv(Rewrite):
    """(tconv(x, w) + b) * scale  ==  tconv(x, w * scale) + b * scale."""

    name = "fuse_mul_with_tconv"

    before = """
        y = TransposeConv(shape, w: const f32[O, _, _, _], x, b?: const f32[*, O])
        z = Mul(y, scale: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = """
        z = TransposeConv(shape, w2, x, b2)                {like y, act: act}
    """

    def constants(self, w: Array, scale: Array, O: int, b: Array | None) -> dict[str, Array | None]:
        s = per_channel(scale, O)
        return {"w2": w * s[:, None, None, None], "b2": scaled(b, s)}
