# SPDX-License-Identifier: Apache-2.0
"""Recognize GELU between fully connected layers whose weights have absorbed its factors."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite, condition

TOLERANCE = 1e-5
"""How far the second weights may be from sqrt(1/2) times the first, relative to the largest."""


class ReplaceWithFcGeluFc(Rewrite):
    """fc(h * (1 + erf(h * sqrt(1/2))), w)  ==  fc(gelu(h), 2 w), with layers h and h * sqrt(1/2) of x."""

    name = "replace_with_fc_gelu_fc"

    before = """
        h = FullyConnected(x: f32, w1: const f32[U, K], b1?: const f32[*,U]) {act: NONE, keep_num_dims: any=k}
        s = FullyConnected(x, w2: const f32[U, K], b2?: const f32[*, U])      {keep_num_dims: any = k}
        e = Custom("Erf", s)
        a = Add(e, 1.0)
        m = Mul(h, a)
        z = FullyConnected(m, w3: const f32[_, _], b3?)
    """
    after = """
        f = FullyConnected(x, w1, b1)           {like h}
        g = Gelu(f)                             {approximate: false}
        z = FullyConnected(g, w, b3)            {like z}
    """

    @condition
    def scaled_by_the_root(self, w1: Array, w2: Array, b1: Array | None, b2: Array | None) -> str | None:
        for first, second, what in ((w1, w2, "weights"), (b1, b2, "biases")):
            one = np.zeros(1) if first is None else first.reshape(-1).astype(np.float64) * np.sqrt(0.5)
            two = np.zeros(1) if second is None else second.reshape(-1)
            if np.abs(one - two).max() > TOLERANCE * max(float(np.abs(one).max()), 1e-30):
                return f"expected the {what} before Erf to be sqrt(1/2) times those of the other layer"
        return None

    def constants(self, w3: Array) -> dict[str, Array]:
        return {"w": 2 * w3}
