# SPDX-License-Identifier: Apache-2.0
"""An offset per unit after a fully connected layer, folded into its bias."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.channels import fold_bias, per_channel
from circlekit.rewrite.rewrite import Rewrite


class FuseAddWithFullyConnected(Rewrite):
    """(fc(x, w) + b) + shift  ==  fc(x, w) + (b + shift)."""

    name = "fuse_add_with_fully_connected"

    before = """
        y = FullyConnected(x: f32, w: f32[O, _], b?: const f32[*, O])
        z = Add(y, shift: const f32[*, O|1])      {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = """
        z = FullyConnected(x, w, b2)              {like y, act: act}
    """

    def constants(self, shift: Array, O: int, b: Array | None) -> dict[str, Array]:
        return {"b2": fold_bias(b, None, per_channel(shift, O))}
