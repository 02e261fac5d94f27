# SPDX-License-Identifier: Apache-2.0
"""Remove operators that return their operand."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.ops.program.custom import IDENTITIES
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Identity(Rewrite):
    """$call  ==  x."""

    quantized = True

    before = """
        y = $call   $attributes
    """
    after = "x"


class _OneTerm(Rewrite):
    """add_n([x])  ==  x."""

    before = """
        y = AddN(x)
    """
    after = "x"


class _SameShape(Rewrite):
    """broadcast_to(x, the shape of x)  ==  x, and the same for tile."""

    quantized = True

    before = """
        y = BroadcastTo|Tile(x, shape: const)
    """
    after = "x"

    @condition
    def static_shape(self, x: Value, y: Value) -> str | None:
        return None if x.is_static else f"%{x.name}: expected a static shape, got {x.type}"


class _OneChoice(Rewrite):
    """select($choice, x, y)  ==  $chosen."""

    quantized = True

    before = """
        z = SelectV2|Select(c: const, x, y)
    """
    after = "$chosen"

    @condition
    def one_choice(self, c: Array, z: Value) -> str | None:
        choice = self.after == "x"
        if c.size and (c == choice).all():
            return None
        return f"%{z.name}: some of the condition is {str(not choice).lower()}"


class RemoveIdentity(Rules):
    """Remove operators that return their operand.

    SQUEEZE of no dimension, CONCATENATION and ADD_N of one operand, SELECT with one choice, BROADCAST_TO and
    TILE to the same shape, and custom operators that training leaves (Identity, StopGradient, ...).
    """

    name = "remove_identity"
    rules = (
        _Identity.member(call="Squeeze(x)", attributes="{squeeze_dims: any}"),
        _Identity.member(call="Concatenation(x)", attributes="{axis: any}"),
        _OneTerm,
        _SameShape,
        _Identity.member(call=f'Custom("{"|".join(IDENTITIES)}", x)', attributes=""),
        _OneChoice.member(choice="true", chosen="x"),
        _OneChoice.member(choice="false", chosen="y"),
    )
