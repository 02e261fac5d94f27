# SPDX-License-Identifier: Apache-2.0
"""Operators whose result is their operand."""

from __future__ import annotations

from circlekit.ir.value import Value
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class NothingToSqueeze(Rewrite):
    """squeeze(x)  ==  x, without a dimension of 1 to squeeze."""

    quantized = True

    before = """
        y = Squeeze(x)              {squeeze_dims: any}
    """
    after = "x"


class OneOperand(Rewrite):
    """concatenation([x])  ==  x."""

    quantized = True

    before = """
        y = Concatenation(x)        {axis: any}
    """
    after = "x"


class OneTerm(Rewrite):
    """add_n([x])  ==  x."""

    before = """
        y = AddN(x)
    """
    after = "x"


class SameShape(Rewrite):
    """broadcast_to(x, the shape of x)  ==  x."""

    quantized = True

    before = """
        y = BroadcastTo|Tile(x, shape: const)
    """
    after = "x"

    @condition
    def one_shape(self, x: Value, y: Value) -> str | None:
        return None if x.is_static else f"%{x.name}: is {x.type}, a static shape is wanted"


class RemoveIdentity(Rules):
    """SQUEEZE of nothing, CONCATENATION and ADD_N of one operand, BROADCAST_TO and TILE to the same shape."""

    name = "remove_identity"
    rules = (NothingToSqueeze, OneOperand, OneTerm, SameShape)
