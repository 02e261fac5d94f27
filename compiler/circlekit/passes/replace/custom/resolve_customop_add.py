# SPDX-License-Identifier: Apache-2.0
"""The custom operator AddV2 as ADD."""

from __future__ import annotations

from circlekit.ir.dtypes import f32, i32
from circlekit.ir.value import Value, format_shape
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class Plain(Rewrite):
    """add_v2(x, y)  ==  add(x, y)."""

    before = """
        z = Custom("AddV2", x, y)
    """
    after = """
        z = Add(x, y)
    """

    @condition
    def runs_everywhere(self, x: Value) -> str | None:
        if x.dtype in (f32, i32):
            return None
        return f"%{x.name}: is {x.dtype.short}, ADD of f32 or i32 is wanted"


class WithoutBroadcast(Plain):
    """Sums that need no BROADCAST_TO before them."""

    @condition
    def is_as_large(self, x: Value, y: Value, z: Value) -> str | None:
        if z.is_static and broadcast_shapes(x.shape, y.shape) == z.shape:
            return None
        return f"%{z.name}: is {format_shape(z.shape)}, without BROADCAST_TO it may be smaller"


class BroadcastLeft(WithoutBroadcast):
    """add_v2(broadcast_to(x), y)  ==  add(x, y), where that has the same shape."""

    shared = ("b",)

    before = """
        b = BroadcastTo(x, shape)
        z = Custom("AddV2", b, y)
    """


class BroadcastRight(WithoutBroadcast):
    """The same on the other side."""

    shared = ("b",)

    before = """
        b = BroadcastTo(y, shape)
        z = Custom("AddV2", x, b)
    """


class CustomLeft(WithoutBroadcast):
    """The same with a BroadcastTo that is custom itself."""

    shared = ("b",)

    before = """
        b = Custom("BroadcastTo", x, shape)
        z = Custom("AddV2", b, y)
    """


class CustomRight(WithoutBroadcast):
    shared = ("b",)

    before = """
        b = Custom("BroadcastTo", y, shape)
        z = Custom("AddV2", x, b)
    """


class ResolveCustomAdd(Rules):
    """TensorFlow's AddV2 is ADD, which broadcasts by itself."""

    name = "resolve_customop_add"
    rules = (BroadcastLeft, BroadcastRight, CustomLeft, CustomRight, Plain)
