# SPDX-License-Identifier: Apache-2.0
"""Expand constants that are broadcast along one dimension."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.base import MAX_FOLDED_BYTES
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Expand(Rewrite):
    """The constant has the rank of the static result, and is broadcast along exactly one dimension."""

    before = """
        z = $operator($old)            {act: any = act}
    """
    after = """
        z = $operator($new)            {like z, act: act}
    """

    @condition
    def one_dimension(self, c: Array, z: Value) -> str | None:
        if not z.is_static:
            return f"%{z.name}: expected a static shape, got {format_shape(z.shape)}"
        shape = z.static_shape
        if c.ndim != len(shape):
            return f"%{z.name}: expected a constant of rank {len(shape)}, got {c.ndim}"
        broadcast = [axis for axis, (a, b) in enumerate(zip(c.shape, shape, strict=True)) if a != b]
        if len(broadcast) == 1:
            return None
        return f"%{z.name}: expected a constant broadcast along 1 dimension, got {len(broadcast)}"

    @condition
    def small_enough(self, z: Value) -> str | None:
        size = 4 * z.numel if z.is_static else 0
        if size <= MAX_FOLDED_BYTES:
            return None
        return f"%{z.name}: expected a result of at most {MAX_FOLDED_BYTES} bytes, got {size}"

    @condition
    def only_the_constant(self, x: Value, z: Value) -> str | None:
        if x.shape == z.shape:
            return None
        return f"%{x.name}: is broadcast too, from {format_shape(x.shape)} to {format_shape(z.shape)}"

    def constants(self, c: Array, z: Value) -> dict[str, Array]:
        return {"full": np.ascontiguousarray(np.broadcast_to(c, z.static_shape))}


class ExpandBroadcastConst(Rules):
    """Expand a constant operand of Add, Sub, Mul or Div that is broadcast along one dimension."""

    name = "expand_broadcast_const"
    rules = (
        _Expand.member(operator="Add|Mul|Div|Sub", old="x, c: const f32", new="x, full"),
        _Expand.member(operator="Div|Sub", old="c: const f32, x", new="full, x"),
    )
