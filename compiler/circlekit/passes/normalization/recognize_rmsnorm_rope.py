# SPDX-License-Identifier: Apache-2.0
"""Recognize RMS_NORM and ROPE (rotary position embedding), which exporters write as several operators.

In the pictures, a constant of shape [*, 1] has one element, and one of [*, D] has D elements along its last
axis; the other dimensions are 1.  ``$square``, ``$division`` and ``$halves`` stand for each of the texts in
SQUARES, DIVISIONS and HALVES.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.index_maps.index_map import IndexMap
from circlekit.index_maps.of_operators import movement_of
from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

SQUARES = ("Mul(x: f32, x)", "Square(x: f32)", "Pow(x: f32, 2.0)")
"""Ways to compute s = x^2."""

DIVISIONS = (
    "r = Rsqrt(a)  z = Mul(x, r)",
    "r = Sqrt(a)  z = Div(x, r)",
    "r = Pow(a, -0.5)  z = Mul(x, r)",
    "r = Pow(a, 0.5)  z = Div(x, r)",
)
"""Ways to compute z = x / sqrt(a) with a = mean(x^2) + epsilon."""


class RmsNormForm(Rewrite):
    """Conditions on x / sqrt(mean(x^2) + epsilon): the mean is over the last axis, epsilon is above 0.

    ``axes``: the axes of the mean.  ``eps``: epsilon.
    """

    @condition
    def mean_over_the_last_axis(self, x: Value, axes: Array) -> str | None:
        """The mean is over the last axis alone."""
        numbers = axes.reshape(-1).tolist()
        if numbers in ([-1], [x.known_rank - 1]):
            return None
        return f"%{x.name}: expected a mean over the last axis alone, got axes {numbers}"

    @condition
    def epsilon_is_positive(self, x: Value, eps: Array) -> str | None:
        """Epsilon is above 0."""
        epsilon = float(eps.reshape(-1)[0])
        return None if epsilon > 0 else f"%{x.name}: expected an epsilon above 0 for RMS_NORM, got {epsilon}"

    def constants(self, eps: Array) -> dict[str, Any]:
        return {"epsilon": float(eps.reshape(-1)[0])}


class _Form(RmsNormForm):
    """x / sqrt(mean(x^2) + epsilon), in one of the forms that exporters write."""

    before = """
        s = $square
        m = Mean(s, axes: const)        {keep_dims: true}
        a = Add(m, eps: const f32[*, 1])
        $division
    """
    after = "z = RmsNorm(x, [1.0])  {epsilon: epsilon}"


class FuseRmsNorm(Rules):
    """x * rsqrt(mean(x * x) + epsilon)  ==  rms_norm(x) with a gamma of 1 (circle only).

    The mean must be over the last axis, and epsilon above 0.
    """

    name = "fuse_rmsnorm"
    formats = frozenset({"circle"})
    rules = _Form.members(square=SQUARES, division=DIVISIONS)


class FuseMulWithRmsNorm(Rewrite):
    """rms_norm(x, gamma) * w  ==  rms_norm(x, gamma * w), for a constant w (circle only).

    w must have one number for each channel.
    """

    name = "fuse_mul_with_rmsnorm"
    formats = frozenset({"circle"})

    before = """
        n = RmsNorm(x: f32, gamma: const f32[_])
        z = Mul(n, w: const f32[*, D])
    """
    after = "z = RmsNorm(x, gamma2)  {like n}"

    @condition
    def one_factor_per_channel(self, x: Value, w: Array) -> str | None:
        """``w`` has one number for each index of the last axis of ``x``."""
        channels = x.shape[-1] if x.shape else None
        if channels is None:
            return f"%{x.name}: expected a known number of channels, got shape {format_shape(x.shape)}"
        fits = w.size == channels
        return None if fits else f"%{x.name}: expected {channels} factors, one per channel, got {w.size}"

    def constants(self, gamma: Array, w: Array) -> dict[str, Array]:
        return {"gamma2": w.reshape(-1) * gamma}


MASKS = "{begin_mask: any, end_mask: any, ellipsis_mask: any}"
HALVES = (
    f"lo = StridedSlice(x: f32, b1: const, e1: const, s1: const)  {MASKS}\n"
    f"        hi = StridedSlice(x, b2: const, e2: const, s2: const)       {MASKS}",
    "lo = Slice(x: f32, b1: const, n1: const)\n        hi = Slice(x, b2: const, n2: const)",
    "lo, hi = Split(dim: const, x: f32)  {num_splits: 2}",
)
"""Ways to take lo and hi, the first and the second half of x along the last axis."""


class _Rope(Rewrite):
    """The conditions that all forms of a rotation of x have in common.

    One of HALVES computes lo and hi, the halves of x along the last axis.  ``axis``: the axis along which a
    CONCATENATION joins two halves.
    """

    after = "z = RoPE(x, sin, cos)  {mode: GPT_NEOX}"

    @condition
    def rotates_rows(self, x: Value, axis: int) -> str | None:
        """``x`` is static, of rank 4, with an even last dimension; halves are joined along the last axis."""
        if x.shape is None or len(x.shape) != 4 or not x.is_static or x.static_shape[3] % 2:
            shape = format_shape(x.shape)
            return f"%{x.name}: expected a static shape of rank 4 with an even last dimension, got {shape}"
        if axis in (-1, 3):
            return None
        return f"%{x.name}: expected the halves to be joined along the last axis, got axis {axis}"

    @condition
    def splits_into_halves(self, match: Match, x: Value) -> str | None:
        """``lo`` and ``hi`` are the first and the second half of ``x`` along the last axis."""
        shape, half = x.static_shape, x.static_shape[-1] // 2
        for name, which, first in (("lo", "first", 0), ("hi", "second", half)):
            part, movement = match.value(name), movement_of(match.ops[name])
            expected = IndexMap.sliced(shape, [*map(range, shape[:-1]), range(first, first + half)])
            is_half = movement is not None and movement.maps[part.result_index] == expected
            if not is_half or part.shape != (*shape[:-1], half):
                return f"%{part.name}: is not the {which} half of %{x.name}'s last axis"
        return None


def _table_obstacle(table: Value, entries: int) -> str | None:
    """Return why ``table`` is not one row of ``entries`` numbers with the rank 4 that ONE needs, or None."""
    obstacle = _row_obstacle(table, entries)
    if obstacle is None and table.known_rank != 4:
        found = f"got {table.known_rank}; ONE's interpreter and runtime read axis 3 of a table"
        return f"%{table.name}: expected rank 4, {found}"
    return obstacle


def _row_obstacle(table: Value, entries: int) -> str | None:
    """Return why ``table``, of sines or cosines, is not one row of ``entries`` numbers; None if it is."""
    shape = format_shape(table.shape)
    if table.shape is None or table.shape[-1:] != (entries,):
        return f"%{table.name}: expected a row of {entries}, got shape {shape}"
    if any(d != 1 for d in table.shape[:-1]):
        why = "ONE's interpreter and runtime read row 0 for every position"
        return f"%{table.name}: expected one row, got shape {shape} with a row per position; {why}"
    return None


class _HalfNegated(_Rope):
    """x * cos + concat(-hi, lo) * sin; ``sin`` and ``cos`` need not be constants."""

    before = """
        $halves
        n = Neg(hi)
        c = Concatenation(n, lo)    {axis: any = axis}
        p = Mul(x, cos: f32)
        q = Mul(c, sin: f32)
        z = Add(p, q)
    """

    @condition
    def one_row_in_the_tables(self, x: Value, sin: Value, cos: Value) -> str | None:
        """``sin`` and ``cos`` are [1, 1, 1, D], where D is the last dimension of ``x``."""
        return _table_obstacle(sin, x.static_shape[-1]) or _table_obstacle(cos, x.static_shape[-1])


class _SinesNegated(_Rope):
    """x * cos + concat(hi, lo) * sines, where the constant sines is sin with its first half negated."""

    before = """
        $halves
        c = Concatenation(hi, lo)   {axis: any = axis}
        p = Mul(x, cos: f32)
        q = Mul(c, sines: const f32)
        z = Add(p, q)
    """

    @condition
    def one_row_in_the_tables(self, match: Match, x: Value, cos: Value) -> str | None:
        """``cos`` is [1, 1, 1, D] and ``sines`` one row of D numbers, for the last dimension D of ``x``."""
        entries = x.static_shape[-1]
        return _row_obstacle(match.value("sines"), entries) or _table_obstacle(cos, entries)

    def constants(self, sines: Array) -> dict[str, Any]:
        row = sines.reshape(1, 1, 1, -1)
        half = row.shape[-1] // 2
        return {"sin": np.concatenate([-row[..., :half], row[..., half:]], -1)}


class _HalvesApart(_Rope):
    """concat(lo * cos1 - hi * sin1, hi * cos2 + lo * sin2), where all sines and cosines are constants.

    Each of the four tables has half as many numbers as a row of x.
    """

    before = """
        $halves
        a = Mul(lo, cos1: const f32)
        b = Mul(hi, sin1: const f32)
        first = Sub(a, b)
        c = Mul(hi, cos2: const f32)
        d = Mul(lo, sin2: const f32)
        second = Add(c, d)
        z = Concatenation(first, second)    {axis: any = axis}
    """

    @condition
    def one_row_in_the_tables(self, match: Match, x: Value) -> str | None:
        """Each table is one row of D / 2 numbers, where D is the last dimension of ``x``."""
        tables = [match.value(name) for name in ("sin1", "cos1", "sin2", "cos2")]
        return next(filter(None, (_row_obstacle(t, x.static_shape[-1] // 2) for t in tables)), None)

    def constants(self, sin1: Array, sin2: Array, cos1: Array, cos2: Array) -> dict[str, Any]:
        rows = [np.concatenate([a.reshape(-1), b.reshape(-1)]) for a, b in ((sin1, sin2), (cos1, cos2))]
        return {"sin": rows[0].reshape(1, 1, 1, -1), "cos": rows[1].reshape(1, 1, 1, -1)}


class FuseRope(Rules):
    """x * cos + rotate_half(x) * sin  ==  rope(x, sin, cos), if sin and cos have one row (circle only).

    rotate_half(x) is concat(-hi, lo), where lo and hi are the halves of x along the last axis.  Two other
    forms are recognized: with half of the sines negated instead of hi, and with each half of the result
    computed on its own from constant tables.  x must be static, of rank 4, with an even last dimension.  A
    table that ROPE reads unchanged must have rank 4, too, because ONE's interpreter and runtime read axis 3
    of it.  A rotation of pairs of neighboring elements (mode GPT_J) stays, because ONE's interpreter and
    runtime have no kernel for that mode.
    """

    name = "fuse_rope"
    formats = frozenset({"circle"})
    rules = tuple(
        rule for form in (_HalfNegated, _SinesNegated, _HalvesApart) for rule in form.members(halves=HALVES)
    )
