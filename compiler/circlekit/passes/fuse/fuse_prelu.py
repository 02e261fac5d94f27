# SPDX-License-Identifier: Apache-2.0
"""PRELU in the form that Keras' converter writes."""

from __future__ import annotations

from circlekit.passes.remove.checks import keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class FusePRelu(Rewrite):
    """relu(x) + (x - |x|) * alpha * 0.5  ==  prelu(x, alpha)."""

    name = "fuse_prelu"

    before = """
        r = Relu(x: f32)
        n = Abs(x)
        d = Sub(x, n)
        a = Mul(d, alpha: const f32)
        h = Mul(a, 0.5)
        z = Add(r, h)
    """
    after = "z = PRelu(x, alpha)"

    @condition
    def alpha_fits(self, match: Match) -> str | None:
        """LiteRT wants a result of the shape of x."""
        return keeps_shape(match.value("x"), match.value("alpha"))
