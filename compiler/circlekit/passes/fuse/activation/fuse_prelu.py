# SPDX-License-Identifier: Apache-2.0
"""PRELU in the forms that converters write."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.passes.support.conditions import keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Absolute(Rewrite):
    """relu(x) + (x - |x|) * alpha * 0.5."""

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


class _HalfFirst(_Absolute):
    """relu(x) + (x - |x|) * 0.5 * alpha."""

    before = """
        r = Relu(x: f32)
        n = Abs(x)
        d = Sub(x, n)
        h = Mul(d, 0.5)
        a = Mul(h, alpha: const f32)
        z = Add(r, a)
    """


class _Least(_Absolute):
    """relu(x) + min(x, 0) * alpha."""

    before = """
        r = Relu(x: f32)
        n = Minimum(x, 0.0)
        a = Mul(n, alpha: const f32)
        z = Add(r, a)
    """


class _Minus(_Absolute):
    """relu(x) - relu(-x) * alpha."""

    before = """
        r = Relu(x: f32)
        m = Neg(x)
        n = Relu(m)
        a = Mul(n, alpha: const f32)
        z = Sub(r, a)
    """


class _Negative(_Absolute):
    """relu(x) + relu(-x) * -alpha, as Keras has it."""

    before = """
        r = Relu(x: f32)
        m = Neg(x)
        n = Relu(m)
        a = Mul(n, alpha: const f32)
        z = Add(r, a)
    """
    after = "z = PRelu(x, slope)"

    def constants(self, alpha: Array) -> dict[str, Array]:
        return {"slope": -alpha}


class FusePRelu(Rules):
    """relu(x) + (x - |x|) * alpha * 0.5  ==  prelu(x, alpha), and so for other forms of the negative part."""

    name = "fuse_prelu"
    rules = (_Absolute, _HalfFirst, _Least, _Minus, _Negative)
