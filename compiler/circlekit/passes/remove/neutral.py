# SPDX-License-Identifier: Apache-2.0
"""Binary operators with a constant that changes nothing."""

from __future__ import annotations

from typing import ClassVar

from circlekit.passes.support.conditions import all_equal, keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class Neutral(Rewrite):
    """What the pictures x + 0, x * 1 and x / 1 share; they name the constant ``c``.

    Exactly ``number`` is wanted: a constant that is only almost 0 is still somebody's constant.
    """

    number: ClassVar[int]

    @condition
    def changes_nothing(self, match: Match) -> str | None:
        c = match.value("c")
        return all_equal(c.array(), self.number, c.name) or keeps_shape(match.value("x"), c)
