# SPDX-License-Identifier: Apache-2.0
"""A factor per unit after a fully connected layer, folded into its weights and bias."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.channels import per_channel, scaled
from circlekit.rewrite.rewrite import Rewrite


class FuseMulWithFullyConnected(Rewrite):
    """(fc(x, w) + b) * scale  ==  fc(x, w * scale) + b * scale."""

    name = "fuse_mul_with_fullyconnected"

    before = """
        y = FullyConnected(x: f32, w: const f32[O, _], b?: const f32[*, O])  {weights_format: DEFAULT}
        z = Mul(y, scale: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = """
        z = FullyConnected(x, w2, b2)             {like y, act: act}
    """

    def constants(self, w: Array, scale: Array, O: int, b: Array | None) -> dict[str, Array | None]:
        s = per_channel(scale, O)
        return {"w2": w * s[:, None], "b2": scaled(b, s)}
