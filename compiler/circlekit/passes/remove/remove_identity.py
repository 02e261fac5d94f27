# SPDX-License-Identifier: Apache-2.0
"""Operators whose result is their operand."""

from __future__ import annotations

from typing import ClassVar

from circlekit.ir.value import Array, Value
from circlekit.ops.program.custom import IDENTITIES
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


class LeftOfTraining(Rewrite):
    """identity(x), stop_gradient(x), check_numerics(x)  ==  x, which converters leave as custom operators."""

    quantized = True

    before = f"""
        y = Custom("{"|".join(IDENTITIES)}", x)
    """
    after = "x"


class AllOfOne(Rewrite):
    """select(true, x, y)  ==  x."""

    quantized = True
    choice: ClassVar[bool] = True

    before = """
        z = SelectV2|Select(c: const, x, y)
    """
    after = "x"

    @condition
    def one_choice(self, c: Array, z: Value) -> str | None:
        if c.size and (c == self.choice).all():
            return None
        return f"%{z.name}: some of the condition is {str(not self.choice).lower()}"


class AllOfTheOther(AllOfOne):
    """select(false, x, y)  ==  y."""

    choice = False

    after = "y"


class RemoveIdentity(Rules):
    """What hands on its operand: SQUEEZE of nothing, CONCATENATION and ADD_N of one, selections of all...

    BROADCAST_TO and TILE to the same shape, and what training leaves (Identity, StopGradient) likewise.
    """

    name = "remove_identity"
    rules = (NothingToSqueeze, OneOperand, OneTerm, SameShape, LeftOfTraining, AllOfOne, AllOfTheOther)
