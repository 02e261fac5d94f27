# SPDX-License-Identifier: Apache-2.0
"""The root-mean-square normalization that exporters write as five operators."""

from __future__ import annotations

from typing import Any

from circlekit.ir.value import Array, Value
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class RmsNormForm(Rewrite):
    """One way to write x / sqrt(mean(x^2, last axis) + epsilon)."""

    formats = frozenset({"circle"})

    @condition
    def mean_over_the_last_axis(self, x: Value, axes: Array) -> str | None:
        last = len(x.shape or ()) - 1
        if x.shape is None or axes.size != 1 or int(axes.reshape(-1)[0]) not in (-1, last):
            return f"%{x.name}: the mean is over axes {axes.reshape(-1).tolist()}, not the last alone"
        return None

    @condition
    def epsilon_is_positive(self, x: Value, eps: Array) -> str | None:
        epsilon = float(eps.reshape(-1)[0])
        return None if epsilon > 0 else f"%{x.name}: epsilon is {epsilon}, RMS_NORM wants one above 0"

    def constants(self, eps: Array) -> dict[str, Any]:
        return {"epsilon": float(eps.reshape(-1)[0])}


def _form(square: str, divide: str) -> type[RmsNormForm]:
    """The picture with one way to square and one way to divide by the root."""

    class Form(RmsNormForm):
        before = f"""
            s = {square}
            m = Mean(s, axes: const)        {{keep_dims: true}}
            a = Add(m, eps: const f32[*, 1])
            {divide}
        """
        after = """
            z = RmsNorm(x, [1.0])           {epsilon: epsilon}
        """

    return Form


SQUARES = ("Mul(x: f32, x)", "Square(x: f32)", "Pow(x: f32, 2.0)")
DIVISIONS = ("r = Rsqrt(a)\n            z = Mul(x, r)", "r = Sqrt(a)\n            z = Div(x, r)")


class FuseRmsNorm(Rules):
    """x * rsqrt(mean(x * x) + epsilon)  ==  rms_norm(x) with a gamma of 1, for circle."""

    name = "fuse_rmsnorm"
    formats = frozenset({"circle"})
    rules = tuple(_form(square, divide) for square in SQUARES for divide in DIVISIONS)
