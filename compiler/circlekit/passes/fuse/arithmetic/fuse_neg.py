# SPDX-License-Identifier: Apache-2.0
"""A change of sign before a sum, a difference or a product that can take it."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite, Rules


class InSum(Rewrite):
    """a + (-b)  ==  a - b."""

    before = """
        n = Neg(b)
        z = Add(a, n)               {act: any = act}
    """
    after = """
        z = Sub(a, b)               {act: act}
    """


class InDifference(Rewrite):
    """a - (-b)  ==  a + b."""

    before = """
        n = Neg(b)
        z = Sub(a, n)               {act: any = act}
    """
    after = """
        z = Add(a, b)               {act: act}
    """


class OfFactorInSum(Rewrite):
    """a + (-b) * c  ==  a - b * c."""

    before = """
        n = Neg(b)
        m = Mul(n, c)
        z = Add(a, m)               {act: any = act}
    """
    after = """
        p = Mul(b, c)
        z = Sub(a, p)               {act: act}
    """


class OfFactorInDifference(Rewrite):
    """a - (-b) * c  ==  a + b * c."""

    before = """
        n = Neg(b)
        m = Mul(n, c)
        z = Sub(a, m)               {act: any = act}
    """
    after = """
        p = Mul(b, c)
        z = Add(a, p)               {act: act}
    """


class OfFactor(Rewrite):
    """(-a) * 2  ==  a * (-2)."""

    before = """
        n = Neg(a)
        z = Mul(n, c: const f32)    {act: any = act}
    """
    after = """
        z = Mul(a, d)               {act: act}
    """

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": -c}


class FuseNeg(Rules):
    """NEG goes into the sum, the difference or the constant factor behind it: no bit changes."""

    name = "fuse_neg"
    rules = (InSum, InDifference, OfFactorInSum, OfFactorInDifference, OfFactor)
