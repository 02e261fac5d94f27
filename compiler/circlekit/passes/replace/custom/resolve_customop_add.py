# SPDX-License-Identifier: Apache-2.0
"""Replace the custom operators AddV2 and BroadcastTo by those of the schema."""

from __future__ import annotations

from circlekit.ir.dtypes import f32, i32
from circlekit.ir.value import Value, format_shape
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Sum(Rewrite):
    """add_v2(x, y)  ==  add(x, y)."""

    before = """
        z = Custom("AddV2", x, y)
    """
    after = """
        z = Add(x, y)
    """

    @condition
    def runs_everywhere(self, x: Value) -> str | None:
        return None if x.dtype in (f32, i32) else f"%{x.name}: expected f32 or i32, got {x.dtype.short}"


class _BroadcastSum(_Sum):
    """add_v2(x, y) with one operand behind a BroadcastTo  ==  add(x, y), where that has the same shape."""

    shared = ("b",)

    before = """
        b = $broadcast
        z = Custom("AddV2", $sum)
    """

    @condition
    def is_broadcast_by_add(self, x: Value, y: Value, z: Value) -> str | None:
        if z.is_static and broadcast_shapes(x.shape, y.shape) == z.shape:
            return None
        return f"%{z.name}: shape {format_shape(z.shape)} may need the BroadcastTo"


class ResolveCustomAdd(Rules):
    """Replace TensorFlow's AddV2 by ADD, which broadcasts by itself."""

    name = "resolve_customop_add"
    rules = (
        _BroadcastSum.member(broadcast="BroadcastTo(x, shape)", sum="b, y"),
        _BroadcastSum.member(broadcast="BroadcastTo(y, shape)", sum="x, b"),
        _BroadcastSum.member(broadcast='Custom("BroadcastTo", x, shape)', sum="b, y"),
        _BroadcastSum.member(broadcast='Custom("BroadcastTo", y, shape)', sum="x, b"),
        _Sum,
    )


class ResolveFormerCustomOp(Rewrite):
    """broadcast_to(x, shape) as a custom operator  ==  broadcast_to(x, shape)."""

    name = "resolve_former_customop"

    before = """
        z = Custom("BroadcastTo", x, shape)
    """
    after = """
        z = BroadcastTo(x, shape)
    """
