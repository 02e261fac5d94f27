# SPDX-License-Identifier: Apache-2.0
"""Merge NEG into the sum, difference or product behind it."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite, Rules


class _Term(Rewrite):
    """a $sign (-b)  ==  a $opposite b."""

    before = """
        n = Neg(b)
        z = $old(a, n)              {act: any = act}
    """
    after = """
        z = $new(a, b)              {act: act}
    """


class _Product(Rewrite):
    """a $sign (-b) * c  ==  a $opposite b * c."""

    before = """
        n = Neg(b)
        m = Mul(n, c)
        z = $old(a, m)              {act: any = act}
    """
    after = """
        p = Mul(b, c)
        z = $new(a, p)              {act: act}
    """


class _Factor(Rewrite):
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
    """Merge NEG into the sum, the difference or the constant factor behind it; the result is bit-exact."""

    name = "fuse_neg"
    rules = (
        _Term.member(old="Add", new="Sub", sign="+", opposite="-"),
        _Term.member(old="Sub", new="Add", sign="-", opposite="+"),
        _Product.member(old="Add", new="Sub", sign="+", opposite="-"),
        _Product.member(old="Sub", new="Add", sign="-", opposite="+"),
        _Factor,
    )
