# SPDX-License-Identifier: Apache-2.0
"""A factor before a fully connected layer, carried into its weights."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.channels import per_channel
from circlekit.passes.support.conditions import keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class FuseMulToFullyConnectedWeights(Rewrite):
    """fc(x * c, w)  ==  fc(x, w * c)."""

    name = "fuse_mul_to_fullyconnected_weights"
    spread = ("m",)

    before = """
        m = Mul(x: f32, c: const f32[*, I|1])
        z = FullyConnected(m, w: const f32[O, I], b?: const f32[*, O])     {weights_format: DEFAULT}
    """
    after = """
        z = FullyConnected(x, w2, b)    {like z}
    """

    @condition
    def does_not_widen(self, match: Match) -> str | None:
        return keeps_shape(match.value("x"), match.value("c"))

    def constants(self, w: Array, c: Array, I: int) -> dict[str, Array]:
        return {"w2": w * per_channel(c, I)}
