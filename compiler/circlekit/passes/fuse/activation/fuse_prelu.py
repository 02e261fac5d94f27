# SPDX-License-Identifier: Apache-2.0
"""Recognize PRELU in the forms that converters write."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.conditions import keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _PRelu(Rewrite):
    """relu(x) $sign alpha * (negative part of x)."""

    before = """
        r = Relu(x: f32)
        $negative
        z = $arithmetic(r, n)
    """
    after = "z = PRelu(x, alpha)"

    @condition
    def alpha_fits(self, match: Match) -> str | None:
        """The result has the shape of x, as LiteRT requires."""
        return keeps_shape(match.value("x"), match.value("alpha"))


class _NegatedSlope(_PRelu):
    """relu(x) + relu(-x) * -alpha, as Keras exports it."""

    before = """
        r = Relu(x: f32)
        m = Neg(x)
        p = Relu(m)
        n = Mul(p, alpha: const f32)
        z = Add(r, n)
    """
    after = "z = PRelu(x, slope)"

    def constants(self, alpha: Array) -> dict[str, Array]:
        return {"slope": -alpha}


MINUS_ABS = "a = Abs(x)  d = Sub(x, a)"
"""d = x - |x|, which is twice the negative part."""


class FusePRelu(Rules):
    """relu(x) + (x - |x|) * alpha * 0.5  ==  prelu(x, alpha), and the same for other forms."""

    name = "fuse_prelu"
    rules = (
        _PRelu.member(
            sign="+",
            arithmetic="Add",
            negative=f"{MINUS_ABS}  m = Mul(d, alpha: const f32)  n = Mul(m, 0.5)",
        ),
        _PRelu.member(
            sign="+",
            arithmetic="Add",
            negative=f"{MINUS_ABS}  h = Mul(d, 0.5)  n = Mul(h, alpha: const f32)",
        ),
        _PRelu.member(
            sign="+",
            arithmetic="Add",
            negative="m = Minimum(x, 0.0)  n = Mul(m, alpha: const f32)",
        ),
        _PRelu.member(
            sign="-",
            arithmetic="Sub",
            negative="m = Neg(x)  p = Relu(m)  n = Mul(p, alpha: const f32)",
        ),
        _NegatedSlope,
    )
