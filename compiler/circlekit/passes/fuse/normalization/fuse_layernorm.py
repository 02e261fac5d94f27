# SPDX-License-Identifier: Apache-2.0
"""Recognize layer normalization, as Keras exports it, as a centering and a root-mean-square normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.passes.fuse.normalization.fuse_rmsnorm import RmsNormForm
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rules, condition

SQUARES = ("q = SquaredDifference(x, m)", "e = Sub(x, m)  q = Square(e)")

FACTORS = ("r = Rsqrt(a)  f = Mul(r, g: const f32)", "f = Rsqrt(a)")
"""f = gamma / sqrt(variance + epsilon), or the same with a gamma of 1."""

WITHOUT_BETA = ("i = Neg(m)  o = Mul(i, f)  z = Add(p, o)", "o = Mul(m, f)  z = Sub(p, o)")


class _LayerNorm(RmsNormForm):
    """x * f - mean * f, with f = gamma / sqrt(variance + epsilon)."""

    shared = ("m",)

    before = """
        m = Mean(x: f32, axes: const)       {keep_dims: true}
        $square
        v = Mean(q, axes2: const)           {keep_dims: true}
        a = Add(v, eps: const f32[*, 1])
        $factor
        p = Mul(x, f)
        $difference
    """
    after = """
        d = Sub(x, m)
        z = RmsNorm(d, gamma)               {epsilon: epsilon}
    """

    @condition
    def variance_over_the_last_axis(self, x: Value, axes2: Array) -> str | None:
        return self.mean_over_the_last_axis(x, axes2)

    @condition
    def gamma_per_channel(self, match: Match) -> str | None:
        x, g = match.value("x"), match.values.get("g")
        channels = x.shape[-1] if x.shape else None
        shape = () if g is None else g.static_shape
        if channels is not None and (g is None or (shape[-1:] == (channels,) and g.numel == channels)):
            return None
        name = x.name if g is None else g.name
        return f"%{name}: expected one number per channel, got shape {format_shape(shape)}"

    def constants(self, match: Match) -> dict[str, Any]:  # type: ignore[override]  # g may be absent
        x, g = match.value("x"), match.values.get("g")
        channels = (x.shape or (None,))[-1] or 0
        gamma = np.ones(channels, np.float32) if g is None else g.array().reshape(-1)
        return {"gamma": gamma, "epsilon": float(match.value("eps").array().reshape(-1)[0])}


WITH_BETA = "o = Mul(m, f)  h = Sub(b: const f32, o)  z = Add(p, h)  {act: any = act}"


class _LayerNormWithBeta(_LayerNorm):
    """x * f + (beta - mean * f)."""

    after = """
        d = Sub(x, m)
        n = RmsNorm(d, gamma)               {epsilon: epsilon}
        z = Add(n, b)                       {act: act}
    """


class FuseLayerNorm(Rules):
    """(x - mean(x)) / sqrt(variance(x) + epsilon) * gamma + beta  ==  rms_norm(x - mean(x), gamma) + beta.

    Circle only.  The mean and the sum with beta stay.  fuse_rmsnorm finds the form that divides x - mean(x).
    """

    name = "fuse_layernorm"
    formats = frozenset({"circle"})
    rules = tuple(
        template.member(square=square, factor=factor, difference=difference)
        for square in SQUARES
        for factor in FACTORS
        for template, difference in (
            *((_LayerNorm, text) for text in WITHOUT_BETA),
            (_LayerNormWithBeta, WITH_BETA),
        )
    )
