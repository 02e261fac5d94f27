# SPDX-License-Identifier: Apache-2.0
"""Remove sums with 0, and products and quotients with 1."""

from __future__ import annotations

from typing import ClassVar

from circlekit.passes.support.conditions import all_equal, keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class _NeutralConstant(Rewrite):
    """$example  ==  x, with exactly this constant."""

    number: ClassVar[int]

    before = """
        z = $operator(x, c: const)    $attributes
    """
    after = "x"

    @condition
    def changes_nothing(self, match: Match) -> str | None:
        c = match.value("c")
        return all_equal(c.array(), self.number, c.name) or keeps_shape(match.value("x"), c)


class RemoveUnnecessaryAdd(
    _NeutralConstant,
    example="x + 0  ==  0 + x  ==  x - 0",
    operator="Add|Sub",
    attributes="{pot_scale_int16: any}",
):
    name = "remove_unnecessary_add"
    number = 0


class RemoveUnnecessaryMul(_NeutralConstant, example="x * 1  ==  1 * x", operator="Mul", attributes=""):
    name = "remove_unnecessary_mul"
    number = 1


class RemoveUnnecessaryDiv(_NeutralConstant, example="x / 1", operator="Div", attributes=""):
    name = "remove_unnecessary_div"
    number = 1
