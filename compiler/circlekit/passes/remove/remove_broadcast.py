# SPDX-License-Identifier: Apache-2.0
"""Remove a BROADCAST_TO or TILE whose users broadcast by themselves."""

from __future__ import annotations

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.ops.movement.repeat import Tile
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Broadcast(Rewrite):
    """f($operands) with b = broadcast(y)  ==  f($rest), if f broadcasts x and y to the same shape."""

    quantized = True
    spread = ("b",)

    before = """
        b = BroadcastTo|Tile(y, shape: const)
        z = $function($operands)    $attributes
    """
    after = "z = $function($rest)       {like z}"

    @condition
    def is_broadcast(self, match: Match, y: Value, b: Value, shape: Array) -> str | None:
        """A Tile repeats only dimensions of 1, and ``y`` and ``b`` have the same quantization parameters."""
        if not isinstance(match.ops["b"], Tile):
            return same_quantization(y, b)
        if any(count != 1 and size != 1 for count, size in zip(shape.tolist(), y.known_shape, strict=True)):
            return f"%{b.name}: expected repeated dimensions of 1, got {y.type} and {shape.tolist()}"
        return same_quantization(y, b)

    @condition
    def result_keeps_its_shape(self, x: Value, y: Value, z: Value) -> str | None:
        """``x`` and ``y`` alone give the shape of ``z``."""
        shape = broadcast_shapes(x.static_shape, y.static_shape)
        if shape == z.static_shape:
            return None
        return f"%{z.name}: is {z.type}, without the broadcast it would have shape {format_shape(shape)}"


ARITHMETIC = {"function": "Add|Sub|Mul|Div", "attributes": "{act: any}"}
OTHERS = {
    "function": "Maximum|Minimum|SquaredDifference|Pow|FloorDiv|FloorMod|Equal|NotEqual|Greater|GreaterEqual"
    "|Less|LessEqual|LogicalAnd|LogicalOr",
    "attributes": "",
}


class RemoveBroadcast(Rules):
    """f(x, broadcast_to(y))  ==  f(x, y) for elementwise f with two operands, and the same for TILE."""

    name = "remove_broadcast"
    rules = tuple(
        _Broadcast.member(operands=operands, rest=rest, **words)
        for words in (ARITHMETIC, OTHERS)
        for operands, rest in (("x, b", "x, y"), ("b, x", "y, x"))
    )
