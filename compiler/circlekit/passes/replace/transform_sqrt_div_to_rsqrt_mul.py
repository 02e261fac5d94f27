# SPDX-License-Identifier: Apache-2.0
"""Write a division by a square root as a product."""

from __future__ import annotations

from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class TransformSqrtDivToRsqrtMul(Rewrite):
    """a / sqrt(x)  ==  a * rsqrt(x); for 1 / sqrt(x) see fuse_rsqrt."""

    name = "transform_sqrt_div_to_rsqrt_mul"

    before = """
        s = Sqrt(x: f32)
        z = Div(a, s)           {act: any = act}
    """
    after = """
        r = Rsqrt(x)
        z = Mul(a, r)           {act: act}
    """

    @condition
    def divides_no_constant(self, match: Match) -> str | None:
        a = match.value("a")
        return f"%{a.name}: is constant" if a.is_const else None
