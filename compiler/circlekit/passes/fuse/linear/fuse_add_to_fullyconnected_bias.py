# SPDX-License-Identifier: Apache-2.0
"""An offset before a fully connected layer, carried through its weights."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.channels import per_channel
from circlekit.passes.support.conditions import keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class FuseAddToFullyConnectedBias(Rewrite):
    """fc(x + c, w, b)  ==  fc(x, w, fc(c, w, b)); fold_constants computes the inner layer."""

    name = "fuse_add_to_fullyconnected_bias"
    spread = ("a",)

    before = """
        a = Add(x: f32, c: const f32[*, I|1])
        z = FullyConnected(a, w: const f32[O, I], b?: const f32[*, O])     {weights_format: DEFAULT}
    """
    after = """
        s = FullyConnected(row, w, b)   {keep_num_dims: true}
        z = FullyConnected(x, w, s)     {like z}
    """

    @condition
    def does_not_widen(self, match: Match) -> str | None:
        return keeps_shape(match.value("x"), match.value("c"))

    def constants(self, c: Array, I: int) -> dict[str, Array]:
        return {"row": per_channel(c, I)}
