# SPDX-License-Identifier: Apache-2.0
"""Recognize GELU, which exporters write with the custom operator Erf, or with Tanh as an approximation."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.arithmetic.division import Div
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

TOLERANCE = 1e-5
"""Relative error that a constant of the formula may have in a file."""

ENDS = (
    "m = Mul(x, a)  z = Mul(m, 0.5)",
    "h = Mul(x, 0.5)  z = Mul(h, a)",
    "h = Mul(a, 0.5)  z = Mul(x, h)",
)
"""x * a / 2, in any order."""

CUBES = ("c = Pow(x: f32, 3.0)", "q = Mul(x: f32, x)  c = Mul(q, x)", "q = Square(x: f32)  c = Mul(q, x)")


class _Erf(Rewrite):
    """x * (1 + erf(x * sqrt(1/2))) / 2, also with a division by sqrt(2)."""

    before = """
        s = Mul|Div(x: f32, root: const f32[*, 1])
        e = Custom("Erf", s)
        a = Add(e, 1.0)
        $end
    """
    after = """
        z = Gelu(x)         {approximate: false}
    """

    @condition
    def scaled_by_the_root_of_one_half(self, match: Match, root: Array) -> str | None:
        divided = isinstance(match.ops["s"], Div)
        found, expected = float(root.reshape(-1)[0]), np.sqrt(2.0 if divided else 0.5)
        if abs(found - expected) <= TOLERANCE * expected:
            return None
        how = "divided" if divided else "multiplied"
        return f"expected the operand of Erf to be {how} by {expected:g}, got {found:g}"


class _Tanh(Rewrite):
    """x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2."""

    before = """
        $cube
        k = Mul(c, third: const f32[*, 1])
        d = Add(x, k)
        s = Mul(d, root: const f32[*, 1])
        t = Tanh(s)
        a = Add(t, 1.0)
        $end
    """
    after = """
        z = Gelu(x)         {approximate: true}
    """

    @condition
    def constants_of_the_formula(self, match: Match) -> str | None:
        for name, expected in (("third", 0.044715), ("root", np.sqrt(2 / np.pi))):
            value = match.value(name)
            found = float(value.array().reshape(-1)[0])
            if abs(found - expected) > TOLERANCE * expected:
                return f"%{value.name}: expected {expected:g}, got {found:g}"
        return None


class FuseGelu(Rules):
    """x * (1 + erf(x * sqrt(1/2))) / 2  ==  gelu(x), in any order of the factors; also its form with tanh."""

    name = "fuse_gelu"
    rules = (
        *(_Erf.member(end=end) for end in ENDS),
        *(_Tanh.member(cube=cube, end=end) for cube in CUBES for end in ENDS),
    )
