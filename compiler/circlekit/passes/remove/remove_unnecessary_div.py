# SPDX-License-Identifier: Apache-2.0
"""Dividing by one."""

from __future__ import annotations

from circlekit.passes.remove.neutral import Neutral


class RemoveUnnecessaryDiv(Neutral):
    """x / 1  ==  x."""

    name = "remove_unnecessary_div"
    number = 1

    before = """
        z = Div(x, c: const)
    """
    after = "x"
