# SPDX-License-Identifier: Apache-2.0
"""Constants that are broadcast along one dimension, written out."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.base import MAX_FOLDED_BYTES
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Expand(Rewrite):
    """The constant has the rank of the result, which is static, and 1 in just one dimension that is not."""

    @condition
    def one_dimension(self, c: Array, z: Value) -> str | None:
        if not z.is_static:
            return f"%{z.name}: shape {format_shape(z.shape)} is not known before the run"
        shape = z.static_shape
        if c.ndim != len(shape):
            return f"%{z.name}: has rank {len(shape)}, the constant has rank {c.ndim}"
        broadcast = [axis for axis, (a, b) in enumerate(zip(c.shape, shape, strict=True)) if a != b]
        if len(broadcast) == 1:
            return None
        return f"%{z.name}: the constant is broadcast along {len(broadcast)} dimensions, 1 is wanted"

    @condition
    def small_enough(self, z: Value) -> str | None:
        size = 4 * z.numel if z.is_static else 0
        return (
            None
            if size <= MAX_FOLDED_BYTES
            else f"%{z.name}: would have {size} bytes, at most {MAX_FOLDED_BYTES}"
        )

    @condition
    def only_the_constant(self, x: Value, z: Value) -> str | None:
        if x.shape == z.shape:
            return None
        return f"%{x.name}: is broadcast too, from {format_shape(x.shape)} to {format_shape(z.shape)}"

    def constants(self, c: Array, z: Value) -> dict[str, Array]:
        return {"full": np.ascontiguousarray(np.broadcast_to(c, z.static_shape))}


class _Right(_Expand):
    """x op c."""

    before = """
        z = Add|Mul|Div|Sub(x, c: const f32)     {act: any = act}
    """
    after = """
        z = Add|Mul|Div|Sub(x, full)             {like z, act: act}
    """


class _Left(_Expand):
    """c op x."""

    before = """
        z = Div|Sub(c: const f32, x)             {act: any = act}
    """
    after = """
        z = Div|Sub(full, x)                     {like z, act: act}
    """


class ExpandBroadcastConst(Rules):
    """A constant operand of Add, Sub, Mul, Div that is broadcast along one dimension gets the full shape."""

    name = "expand_broadcast_const"
    rules = (_Right, _Left)
