# SPDX-License-Identifier: Apache-2.0
"""Merge two fully connected layers of one input whose results are added."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite


class FuseHorizontalFullyConnected(Rewrite):
    """fc(x, w1, b1) + fc(x, w2, b2)  ==  fc(x, w1 + w2, b1 + b2)."""

    name = "fuse_horizontal_fc_layers"

    before = """
        l = FullyConnected(x: f32, w1: const f32[O, I], b1?: const f32[*, O])
            {weights_format: DEFAULT, keep_num_dims: any = keep}
        r = FullyConnected(x, w2: const f32[O, I], b2?: const f32[*, O])
            {weights_format: DEFAULT, keep_num_dims: any = keep}
        z = Add(l, r)           {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = """
        z = FullyConnected(x, w, b)     {like l, act: act}
    """

    def constants(self, w1: Array, w2: Array, b1: Array | None, b2: Array | None) -> dict[str, Array | None]:
        biases = [b.reshape(-1) for b in (b1, b2) if b is not None]
        return {"w": w1 + w2, "b": sum(biases[1:], biases[0]) if biases else None}
