# SPDX-License-Identifier: Apache-2.0
"""Recognize root-mean-square normalization, which exporters write as five operators."""

from __future__ import annotations

from typing import Any

from circlekit.ir.value import Array, Value
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

SQUARES = ("Mul(x: f32, x)", "Square(x: f32)", "Pow(x: f32, 2.0)")
DIVISIONS = ("r = Rsqrt(a)  z = Mul(x, r)", "r = Sqrt(a)  z = Div(x, r)")


class RmsNormForm(Rewrite):
    """Conditions of x / sqrt(mean(x^2) + epsilon) with a mean over the last axis."""

    formats = frozenset({"circle"})

    @condition
    def mean_over_the_last_axis(self, x: Value, axes: Array) -> str | None:
        last = len(x.shape or ()) - 1
        if x.shape is None or axes.size != 1 or int(axes.reshape(-1)[0]) not in (-1, last):
            found = axes.reshape(-1).tolist()
            return f"%{x.name}: expected a mean over the last axis alone, got axes {found}"
        return None

    @condition
    def epsilon_is_positive(self, x: Value, eps: Array) -> str | None:
        epsilon = float(eps.reshape(-1)[0])
        return None if epsilon > 0 else f"%{x.name}: expected an epsilon above 0 for RMS_NORM, got {epsilon}"

    def constants(self, eps: Array) -> dict[str, Any]:
        return {"epsilon": float(eps.reshape(-1)[0])}


class _Form(RmsNormForm):
    """x / sqrt(mean(x^2) + epsilon), written in one of several ways."""

    before = """
        s = $square
        m = Mean(s, axes: const)        {keep_dims: true}
        a = Add(m, eps: const f32[*, 1])
        $division
    """
    after = """
        z = RmsNorm(x, [1.0])           {epsilon: epsilon}
    """


class FuseRmsNorm(Rules):
    """x * rsqrt(mean(x * x) + epsilon)  ==  rms_norm(x) with a gamma of 1 (circle only)."""

    name = "fuse_rmsnorm"
    formats = frozenset({"circle"})
    rules = tuple(_Form.member(square=s, division=d) for s in SQUARES for d in DIVISIONS)
