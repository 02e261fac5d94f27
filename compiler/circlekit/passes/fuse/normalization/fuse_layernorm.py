# SPDX-License-Identifier: Apache-2.0
"""Layer normalization, as Keras writes it, as the root-mean-square normalization of what is centered."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.passes.fuse.normalization.fuse_rmsnorm import RmsNormForm
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rules, condition

SQUARES = ("q = SquaredDifference(x, m)", "e = Sub(x, m); q = Square(e)")

SCALES = ("r = Rsqrt(a); f = Mul(r, g: const f32)", "f = Rsqrt(a)")

SUMS = (
    "p = Mul(x, f); i = Neg(m); o = Mul(i, f); z = Add(p, o)    {act: NONE}",
    "p = Mul(x, f); o = Mul(m, f); z = Sub(p, o)                {act: NONE}",
    "p = Mul(x, f); o = Mul(m, f); h = Sub(b: const f32, o); z = Add(p, h) {act: any = act}",
)


class LayerNormForm(RmsNormForm):
    """x * f - mean * f, and beta, with f = gamma / sqrt(variance + epsilon); others may read the mean too."""

    shared = ("m",)

    @condition
    def variance_over_the_last_axis(self, x: Value, axes2: Array) -> str | None:
        return self.mean_over_the_last_axis(x, axes2)

    @condition
    def gamma_by_channel(self, match: Match) -> str | None:
        x, g = match.value("x"), match.values.get("g")
        channels = x.shape[-1] if x.shape else None
        shape = () if g is None else g.static_shape
        if channels is not None and (g is None or (shape[-1:] == (channels,) and g.numel == channels)):
            return None
        name = x.name if g is None else g.name
        return f"%{name}: has shape {format_shape(shape)}, one number a channel is wanted"

    def constants(self, match: Match) -> dict[str, Any]:  # type: ignore[override]  # g may be absent
        x, g = match.value("x"), match.values.get("g")
        channels = (x.shape or (None,))[-1] or 0
        gamma = np.ones(channels, np.float32) if g is None else g.array().reshape(-1)
        return {"gamma": gamma, "epsilon": float(match.value("eps").array().reshape(-1)[0])}


def _form(square: str, scale: str, total: str) -> type[LayerNormForm]:
    body = "; ".join(
        (square, "v = Mean(q, axes2: const) {keep_dims: true}", "a = Add(v, eps: const f32[*, 1])")
    )
    text = f"m = Mean(x: f32, axes: const) {{keep_dims: true}}; {body}; {scale}; {total}"
    ending = "z = RmsNorm(d, gamma) {epsilon: epsilon}"
    if "h = " in total:
        ending = "n = RmsNorm(d, gamma) {epsilon: epsilon}\n    z = Add(n, b) {act: act}"

    class Form(LayerNormForm):
        before = "    " + text.replace("; ", "\n    ")
        after = f"    d = Sub(x, m)\n    {ending}"

    return Form


class FuseLayerNorm(Rules):
    """(x - mean(x)) / sqrt(variance(x) + epsilon) * gamma + beta  ==  rms_norm(x - mean(x), gamma) + beta.

    For circle.  The mean stays, and the sum with beta.  Where x - mean(x) is divided, fuse_rmsnorm finds it.
    """

    name = "fuse_layernorm"
    formats = frozenset({"circle"})
    rules = tuple(_form(q, f, z) for q in SQUARES for f in SCALES for z in SUMS)
