# SPDX-License-Identifier: Apache-2.0
"""Adding or subtracting zero."""

from __future__ import annotations

from circlekit.passes.remove.neutral import Neutral


class RemoveUnnecessaryAdd(Neutral):
    """x + 0  ==  0 + x  ==  x - 0  ==  x."""

    name = "remove_unnecessary_add"
    number = 0

    before = """
        z = Add|Sub(x, c: const)    {pot_scale_int16: any}
    """
    after = "x"
