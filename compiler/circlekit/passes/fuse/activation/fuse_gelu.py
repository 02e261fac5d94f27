# SPDX-License-Identifier: Apache-2.0
"""GELU, which exporters write with the custom operator Erf, or with Tanh where it is approximate."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

CLOSE = 1e-5
"""How far sqrt(1/2), as a file has it, may be off, in parts of it."""


class GeluForm(Rewrite):
    """One way to write x * (1 + erf(x * sqrt(1/2))) / 2."""

    after = """
        z = Gelu(x)         {approximate: false}
    """

    @condition
    def divided_by_the_root_of_two(self, root: Array) -> str | None:
        found, wanted = float(root.reshape(-1)[0]), np.sqrt(0.5)
        if abs(found - wanted) <= CLOSE * wanted:
            return None
        return f"the operand of Erf is multiplied by {found:g}, the root of 1/2 is wanted"


def _form(last: str) -> type[GeluForm]:
    class Form(GeluForm):
        before = f"""
            s = Mul(x: f32, root: const f32[*, 1])
            e = Custom("Erf", s)
            a = Add(e, 1.0)
            {last}
        """

    return Form


class DividedGelu(GeluForm):
    """The same with a division by sqrt(2)."""

    before = """
        s = Div(x: f32, root: const f32[*, 1])
        e = Custom("Erf", s)
        a = Add(e, 1.0)
        h = Mul(x, 0.5)
        z = Mul(h, a)
    """

    @condition
    def divided_by_the_root_of_two(self, root: Array) -> str | None:
        found, wanted = float(root.reshape(-1)[0]), np.sqrt(2.0)
        if abs(found - wanted) <= CLOSE * wanted:
            return None
        return f"the operand of Erf is divided by {found:g}, the root of 2 is wanted"


LAST = (
    "m = Mul(x, a)\n z = Mul(m, 0.5)",
    "h = Mul(x, 0.5)\n z = Mul(h, a)",
    "h = Mul(a, 0.5)\n z = Mul(x, h)",
)


class TanhGelu(Rewrite):
    """x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2."""

    after = """
        z = Gelu(x)         {approximate: true}
    """

    @condition
    def its_numbers(self, match: Match) -> str | None:
        for name, wanted in (("third", 0.044715), ("root", np.sqrt(2 / np.pi))):
            value = match.value(name)
            found = float(value.array().reshape(-1)[0])
            if abs(found - wanted) > CLOSE * wanted:
                return f"%{value.name}: is {found:g}, {wanted:g} is wanted"
        return None


CUBES = (
    "c = Pow(x: f32, 3.0)",
    "q = Mul(x: f32, x)\n c = Mul(q, x)",
    "q = Square(x: f32)\n c = Mul(q, x)",
)


def _tanh_form(cube: str, last: str) -> type[TanhGelu]:
    class Form(TanhGelu):
        before = f"""
            {cube}
            k = Mul(c, third: const f32[*, 1])
            d = Add(x, k)
            s = Mul(d, root: const f32[*, 1])
            t = Tanh(s)
            a = Add(t, 1.0)
            {last}
        """

    return Form


class FuseGelu(Rules):
    """x * (1 + erf(x * sqrt(1/2))) / 2  ==  gelu(x), in any order of the factors; and its form with tanh."""

    name = "fuse_gelu"
    rules = (
        *(_form(last) for last in LAST),
        DividedGelu,
        *(_tanh_form(cube, last) for cube in CUBES for last in LAST),
    )
