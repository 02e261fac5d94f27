# SPDX-License-Identifier: Apache-2.0
"""ROPE, which TFLite lacks, in operators that it has."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.engine.legalize import Lowering
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import condition

NEOX = "y = RoPE(x: [_, _, _, D], sin, cos)   {mode: GPT_NEOX}"
GPT_J = "y = RoPE(x: [_, _, _, D], sin, cos)   {mode: GPT_J}"

# x with the two of each pair exchanged, and the first of them negative
NEOX_TURN = """
    a, b = Split(3, x)                  {num_splits: 2}
    n = Neg(b)
    t = Concatenation(n, a)             {axis: 3}
"""
GPT_J_TURN = """
    g = Gather(x, neighbours)           {axis: 3}
    t = Mul(g, signs)
"""
ROWS = """
    sins = Reshape(sin, rows)           {new_shape: new_shape}
    sin_row = Slice(sins, [0, 0], row)
    coss = Reshape(cos, rows)           {new_shape: new_shape}
    cos_row = Slice(coss, [0, 0], row)
"""
SUM = """
    u = Mul(x, cos_row)
    v = Mul(t, sin_row)
    y = Add(u, v)
"""


class LowerRope(Lowering):
    """x * cos + turned(x) * sin, where the first row of each table, which ROPE reads alone, is at hand."""

    targets: ClassVar[frozenset[str]] = frozenset({"tflite"})

    before = NEOX
    after = NEOX_TURN + SUM

    @condition
    def rows_at_hand(self, match: Match) -> str | None:
        for name in ("sin", "cos"):
            if _row(match.value(name)) is None:
                return f"%{match.value(name).name}: may have several rows, and is no constant"
        return None

    def constants(self, match: Match, x: Value, D: int) -> dict[str, Any]:
        rows = {name + "_row": _row(match.value(name)) for name in ("sin", "cos")}
        return {**rows, **_neighbours(x, D)}


class LowerRopeGptJ(LowerRope):
    """The same for pairs of neighbours."""

    targets = LowerRope.targets

    before = GPT_J
    after = GPT_J_TURN + SUM


class LowerRopeOfRows(Lowering):
    """The same where the first row must be taken out of each table first."""

    targets = LowerRope.targets

    before = NEOX
    after = NEOX_TURN + ROWS + SUM

    def constants(self, x: Value, D: int) -> dict[str, Any]:
        shapes = {
            "rows": np.array([-1, D], np.int32),
            "new_shape": (-1, D),
            "row": np.array([1, D], np.int32),
        }
        return {**shapes, **_neighbours(x, D)}


class LowerRopeOfRowsGptJ(LowerRopeOfRows):
    """The same for pairs of neighbours."""

    targets = LowerRope.targets

    before = GPT_J
    after = GPT_J_TURN + ROWS + SUM


def _row(table: Value) -> Value | Array | None:
    """The first row of ``table``; itself where it has no other; None where that is not at hand."""
    if table.is_static and len(table.static_shape) <= 4 and table.numel == table.static_shape[-1]:
        return table
    if not table.is_plain or table.is_variable:
        return None
    return np.ascontiguousarray(table.array().reshape(-1)[: table.static_shape[-1]])


def _neighbours(x: Value, size: int) -> dict[str, Array]:
    """What GPT_J needs to turn pairs of neighbours."""
    signs = np.where(np.arange(size) % 2, 1, -1).astype(x.dtype.numpy)
    return {"neighbours": np.arange(size, dtype=np.int32) ^ 1, "signs": signs}
