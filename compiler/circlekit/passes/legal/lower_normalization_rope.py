# SPDX-License-Identifier: Apache-2.0
"""Lower INSTANCE_NORM, RMS_NORM and ROPE, which TFLite lacks, and normalizations that a target may lack.

A Lowering replaces ``before`` by ``after`` if the format, a runtime or its delegate refuses the operator of
``before``.  Names in ``after`` that are not in ``before`` are results of new operators, or constants that the
method ``constants`` computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.engine.legalize import Lowering
from circlekit.passes.support.conditions import all_equal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import condition


class LowerNormalization(Lowering):
    """Base of the lowerings of operators with the attribute ``epsilon``: makes it the constant ``eps``."""

    def constants(self, x: Value, epsilon: float) -> dict[str, Any]:
        return {"eps": np.asarray(epsilon, x.dtype.numpy)}


class LowerLogSoftmax(Lowering):
    """log_softmax(x)  ==  d - log(sum(exp(d))) for d = x - max(x), along the last axis."""

    before = "y = LogSoftmax(x: f32)"
    after = """
        m = ReduceMax(x, [-1])              {keep_dims: true}
        d = Sub(x, m)
        e = Exp(d)
        s = Sum(e, [-1])                    {keep_dims: true}
        l = Log(s)
        y = Sub(d, l)
    """


class LowerSoftmaxWithBeta(Lowering):
    """softmax(x) with beta  ==  softmax(beta * x)."""

    before = "y = Softmax(x: f32)       {beta: any = beta}"
    after = "m = Mul(x, factor)  y = Softmax(m)  {beta: 1.0}"

    @condition
    def has_another_beta(self, beta: float) -> str | None:
        return "expected a beta other than 1, got 1" if beta == 1 else None

    def constants(self, beta: float) -> dict[str, Array]:
        return {"factor": np.asarray(beta, np.float32)}


class LowerL2Normalization(Lowering):
    """l2_normalization(x)  ==  x / max(1e-6, sqrt(sum(x * x))), along the last axis.

    The order of the operands counts for NaN: LiteRT's MAXIMUM then returns its second operand.
    """

    before = "y = L2Normalization(x: f32)"
    after = """
        q = Square(x)
        s = Sum(q, [-1])                    {keep_dims: true}
        r = Sqrt(s)
        m = Maximum(1e-6, r)
        y = Div(x, m)
    """


class LowerInstanceNorm(LowerNormalization):
    """(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + epsilon) * gamma + beta; means over H and W of NHWC."""

    before = """
        y = InstanceNorm(x: [_, _, _, _], gamma, beta)      {epsilon: any = epsilon, act: any = act}
    """
    after = """
        m = Mean(x, [1, 2])                 {keep_dims: true}
        d = SquaredDifference(x, m)
        v = Mean(d, [1, 2])                 {keep_dims: true}
        e = Add(v, eps)
        r = Rsqrt(e)
        s = Mul(r, gamma)
        c = Sub(x, m)
        n = Mul(c, s)
        y = Add(n, beta)                    {act: act}
    """


class LowerInstanceNormNcw(LowerNormalization):
    """INSTANCE_NORM of rank 3, where x is [N, C, W]: the same formula with the channels on axis 1.

    The Reshapes make columns [C, 1] of gamma and beta, so that they broadcast along W.
    """

    before = """
        y = InstanceNorm(x: [_, _, _], gamma, beta)         {epsilon: any = epsilon, act: any = act}
    """
    after = """
        m = Mean(x, [2])                    {keep_dims: true}
        d = SquaredDifference(x, m)
        v = Mean(d, [2])                    {keep_dims: true}
        e = Add(v, eps)
        r = Rsqrt(e)
        g = Reshape(gamma, column)          {new_shape: new_shape}
        s = Mul(r, g)
        c = Sub(x, m)
        n = Mul(c, s)
        b = Reshape(beta, column)           {new_shape: new_shape}
        y = Add(n, b)                       {act: act}
    """

    def constants(self, x: Value, epsilon: float) -> dict[str, Any]:
        column = {"column": np.array([-1, 1], np.int32), "new_shape": (-1, 1)}
        return {**super().constants(x, epsilon), **column}


# r = 1 / sqrt(mean(x * x) + epsilon), along the last axis
ROOT_MEAN_SQUARE = """
    q = Square(x)
    m = Mean(q, [-1])                   {keep_dims: true}
    e = Add(m, eps)
    r = Rsqrt(e)
"""


class LowerPlainRmsNorm(LowerNormalization):
    """x * rsqrt(mean(x * x) + epsilon), if all elements of gamma are 1."""

    before = "y = RmsNorm(x, gamma: const)      {epsilon: any = epsilon}"
    after = ROOT_MEAN_SQUARE + "y = Mul(x, r)"

    @condition
    def only_ones(self, match: Match) -> str | None:
        gamma = match.value("gamma")
        return all_equal(gamma.array(), 1, gamma.name)


class LowerRmsNorm(LowerNormalization):
    """x * rsqrt(mean(x * x) + epsilon) * gamma."""

    before = "y = RmsNorm(x, gamma)             {epsilon: any = epsilon}"
    after = ROOT_MEAN_SQUARE + "n = Mul(x, r)  y = Mul(n, gamma)"


NEOX = "y = RoPE(x: [_, _, _, D], sin, cos)   {mode: GPT_NEOX}"
GPT_J = "y = RoPE(x: [_, _, _, D], sin, cos)   {mode: GPT_J}"

# ROPE rotates pairs of elements of the last axis, which has D elements.  In mode GPT_NEOX, a pair is an
# element of the first half and the element at the same place in the second half; in mode GPT_J, a pair is two
# adjacent elements.  Both rotations compute t = rotated(x): where x has a pair a, b, t has -b, a.
# ``sin_row`` and ``cos_row`` are the first rows of the tables sin and cos.
NEOX_ROTATION = """
    a, b = Split(3, x)                  {num_splits: 2}
    n = Neg(b)
    t = Concatenation(n, a)             {axis: 3}
"""
GPT_J_ROTATION = """
    g = Gather(x, neighbors)           {axis: 3}
    t = Mul(g, signs)
"""
# the first rows of computed tables, by slices
ROWS = """
    sins = Reshape(sin, rows)           {new_shape: new_shape}
    sin_row = Slice(sins, [0, 0], row)
    coss = Reshape(cos, rows)           {new_shape: new_shape}
    cos_row = Slice(coss, [0, 0], row)
"""
# the result, if t is rotated(x)
SUM = """
    u = Mul(x, cos_row)
    v = Mul(t, sin_row)
    y = Add(u, v)
"""


class LowerRope(Lowering):
    """rope(x, sin, cos)  ==  x * cos + rotated(x) * sin in mode GPT_NEOX, with the first rows of sin and cos.

    ROPE reads only the first row of a table.  Each of the tables sin and cos must be constant, or have a
    single row and rank 4 or less; then no SLICE has to take the first row.
    """

    before = NEOX
    after = NEOX_ROTATION + SUM

    @condition
    def first_rows_are_known(self, match: Match) -> str | None:
        for table in map(match.value, ("sin", "cos")):
            if _row(table) is None:
                expected = "a constant, or a single row of rank 4 or less"
                return f"%{table.name}: expected {expected}, got {table.type}"
        return None

    def constants(self, match: Match, x: Value, D: int) -> dict[str, Any]:
        rows = {name + "_row": _row(match.value(name)) for name in ("sin", "cos")}
        return {**rows, **_neighbors(x, D)}


class LowerRopeGptJ(LowerRope):
    """x * cos + rotated(x) * sin in mode GPT_J, which rotates pairs of adjacent elements."""

    before = GPT_J
    after = GPT_J_ROTATION + SUM


class LowerRopeOfRows(Lowering):
    """rope(x, sin, cos) in mode GPT_NEOX, for any tables: a SLICE takes the first row of each."""

    before = NEOX
    after = NEOX_ROTATION + ROWS + SUM

    def constants(self, x: Value, D: int) -> dict[str, Any]:
        shapes = {
            "rows": np.array([-1, D], np.int32),
            "new_shape": (-1, D),
            "row": np.array([1, D], np.int32),
        }
        return {**shapes, **_neighbors(x, D)}


class LowerRopeOfRowsGptJ(LowerRopeOfRows):
    """LowerRopeOfRows in mode GPT_J, which rotates pairs of adjacent elements."""

    before = GPT_J
    after = GPT_J_ROTATION + ROWS + SUM


def _row(table: Value) -> Value | Array | None:
    """Return the first row of ``table``; None if no constant or value of the model has this row.

    A table with a single row and rank 4 or less is returned itself: it broadcasts with x of rank 4.  Any
    other table must be constant.
    """
    if table.is_static and len(table.static_shape) <= 4 and table.numel == table.static_shape[-1]:
        return table
    if not table.is_plain or table.is_variable:
        return None
    return np.ascontiguousarray(table.array().reshape(-1)[: table.static_shape[-1]])


def _neighbors(x: Value, size: int) -> dict[str, Array]:
    """Return the constants of ``GPT_J_ROTATION`` for ``size`` elements along the last axis.

    ``neighbors``: 1, 0, 3, 2, ..., which exchanges the elements of each pair.  ``signs``: -1, 1, -1, 1, ...
    """
    signs = np.where(np.arange(size) % 2, 1, -1).astype(x.dtype.numpy)
    return {"neighbors": np.arange(size, dtype=np.int32) ^ 1, "signs": signs}
