# SPDX-License-Identifier: Apache-2.0
"""HARD_SWISH written as x * relu6(x + 3) / 6."""

from __future__ import annotations

from itertools import product

import numpy as np

from circlekit.ir.value import Value
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

RELU6 = (
    "r = Add(x: f32, three: const)      {act: RELU6}",
    "a = Add(x: f32, three: const)\nr = Relu6(a)",
)
SIXTH = ("Div({0}, six: const)", "Mul({0}, sixth: const)")
TAILS = (
    "m = Mul(x, r)\nz = {m}",
    "s = {r}\nz = Mul(x, s)",
    "s = {x}\nz = Mul(s, r)",
)
"""The three places that the division may have."""


class HardSwishChain(Rewrite):
    """What all ways to write it share."""

    after = """
        z = HardSwish(x)
    """

    @condition
    def its_numbers(self, match: Match) -> str | None:
        for name, wanted in (("three", 3.0), ("six", 6.0), ("sixth", 1 / 6)):
            value = match.values.get(name)
            if value is None:
                continue
            if value.numel != 1:
                return f"%{value.name}: has {value.numel} elements, one is wanted"
            if not _nearly(value, wanted):
                return f"%{value.name}: is {value.array().reshape(-1)[0]!s}, {np.float32(wanted)!s} is wanted"
        return None


def _nearly(value: Value, wanted: float) -> bool:
    """Whether the element is the float32 next to ``wanted``, or for 1/6, which none is, a neighbour of it."""
    nearest = np.float32(wanted)
    slack = 0 if float(nearest) == wanted else np.spacing(nearest)
    return bool(abs(np.float32(value.array().reshape(-1)[0]) - nearest) <= slack)


def _rules() -> tuple[type[Rewrite], ...]:
    rules = []
    for index, (relu6, tail, sixth) in enumerate(product(RELU6, TAILS, SIXTH)):
        parts = {name: sixth.format(name) for name in "mrx"}
        body = {"before": f"{relu6}\n{tail.format(**parts)}", "__module__": __name__}
        rules.append(type(f"HardSwishChain{index}", (HardSwishChain,), body))
    return tuple(rules)


class FuseHardSwish(Rules):
    """x * relu6(x + 3) / 6, in every order, and with a multiplication by 1/6, becomes HARD_SWISH."""

    name = "fuse_hardswish"
    undoes = frozenset({"decompose_hardswish"})
    rules = _rules()
