# SPDX-License-Identifier: Apache-2.0
"""Recognize HARD_SWISH, written as x * relu6(x + 3) / 6."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Value
from circlekit.ops.arithmetic.division import Div
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

RELU6 = (
    "r = Add(x: f32, three: const)      {act: RELU6}",
    "a = Add(x: f32, three: const)  r = Relu6(a)",
)
ENDS = (
    "m = Mul(x, r)  z = Mul|Div(m, sixth: const)",
    "s = Mul|Div(r, sixth: const)  z = Mul(x, s)",
    "s = Mul|Div(x, sixth: const)  z = Mul(s, r)",
)
"""x * r / 6 with the division, or the multiplication by 1/6, in any place."""


class _HardSwish(Rewrite):
    """x * relu6(x + 3) / 6."""

    before = """
        $relu6
        $end
    """
    after = """
        z = HardSwish(x)
    """

    @condition
    def constants_of_the_formula(self, match: Match) -> str | None:
        divided = any(isinstance(op, Div) for op in match.ops.values())
        for name, expected in (("three", 3.0), ("sixth", 6.0 if divided else 1 / 6)):
            value = match.value(name)
            if value.numel != 1:
                return f"%{value.name}: expected one element, got {value.numel}"
            if not _is_nearly(value, expected):
                found = value.array().reshape(-1)[0]
                return f"%{value.name}: expected {np.float32(expected)!s}, got {found!s}"
        return None


def _is_nearly(value: Value, expected: float) -> bool:
    """Whether the element is the float32 nearest to ``expected``, or a neighbour of it if that is inexact."""
    nearest = np.float32(expected)
    slack = 0 if float(nearest) == expected else np.spacing(nearest)
    return bool(abs(np.float32(value.array().reshape(-1)[0]) - nearest) <= slack)


class FuseHardSwish(Rules):
    """x * relu6(x + 3) / 6  ==  hard_swish(x), in any order, and with a multiplication by 1/6."""

    name = "fuse_hardswish"
    undoes = frozenset({"decompose_hardswish"})
    rules = tuple(_HardSwish.member(relu6=relu6, end=end) for relu6 in RELU6 for end in ENDS)
