# SPDX-License-Identifier: Apache-2.0
"""Recognize rotary position embedding, in the form that rotates the two halves of the last axis."""

from __future__ import annotations

import numpy as np

from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

MASKS = "{begin_mask: any, end_mask: any, ellipsis_mask: any}"
HALVES = (
    f"lo = StridedSlice(x: f32, b1: const, e1: const, s1: const)  {MASKS}\n"
    f"        hi = StridedSlice(x, b2: const, e2: const, s2: const)       {MASKS}",
    "lo = Slice(x: f32, b1: const, n1: const)\n        hi = Slice(x, b2: const, n2: const)",
    "lo, hi = Split(dim: const, x: f32)  {num_splits: 2}",
)


class _Rope(Rewrite):
    """x * cos + concat(-x[half:], x[:half]) * sin, with one of several ways to split x into halves."""

    formats = frozenset({"circle"})

    before = """
        $halves
        n = Neg(hi)
        c = Concatenation(n, lo)    {axis: any = axis}
        p = Mul(x, cos: f32)
        q = Mul(c, sin: f32)
        z = Add(p, q)
    """
    after = """
        z = RoPE(x, sin, cos)   {mode: GPT_NEOX}
    """

    @condition
    def rotates_rows(self, x: Value, axis: int) -> str | None:
        if x.shape is None or len(x.shape) != 4 or not x.is_static or x.static_shape[3] % 2:
            shape = format_shape(x.shape)
            return f"%{x.name}: expected a static shape of rank 4 with an even last dimension, got {shape}"
        if axis in (-1, 3):
            return None
        return f"%{x.name}: expected the halves to be joined along the last axis, got axis {axis}"

    @condition
    def one_row_in_the_tables(self, x: Value, sin: Value, cos: Value) -> str | None:
        for table in (sin, cos):
            shape = format_shape(table.shape)
            if table.shape is None or table.shape[-1:] != x.static_shape[-1:]:
                return f"%{table.name}: expected a row of {x.static_shape[-1]}, got shape {shape}"
            if any(d != 1 for d in table.shape[:-1]):
                return (
                    f"%{table.name}: expected one row, got shape {shape} with a row per position; "
                    "ONE's interpreter and runtime read row 0 for every position"
                )
        return None

    @condition
    def splits_into_halves(self, match: Match, x: Value) -> str | None:
        half = x.static_shape[-1] // 2
        index = np.arange(x.numel, dtype=np.int64).reshape(x.static_shape)
        for name, part in (("lo", index[..., :half]), ("hi", index[..., half:])):
            if not np.array_equal(_moved(match.ops[name], match.value(name), index), part):
                which = "first" if name == "lo" else "second"
                return f"%{match.value(name).name}: is not the {which} half of %{x.name}'s last axis"
        return None


def _moved(op: Op, result: Value, index: Array) -> Array:
    """The elements of ``index`` that ``op``, a data movement with constant operands, moves to ``result``."""
    data = [index if v is not None and v.data is None else v and v.data for v in op.inputs]
    moved = op.kernel(*data)
    return np.asarray(moved[result.result_index] if isinstance(moved, tuple | list) else moved)


class FuseRope(Rules):
    """x * cos + rotate_half(x) * sin  ==  rope(x, sin, cos), for tables of one row (circle only)."""

    name = "fuse_rope"
    formats = frozenset({"circle"})
    rules = tuple(_Rope.member(halves=halves) for halves in HALVES)
