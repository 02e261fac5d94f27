# SPDX-License-Identifier: Apache-2.0
"""Multiplying by one."""

from __future__ import annotations

from circlekit.passes.remove.neutral import Neutral


class RemoveUnnecessaryMul(Neutral):
    """x * 1  ==  1 * x  ==  x."""

    name = "remove_unnecessary_mul"
    number = 1

    before = """
        z = Mul(x, c: const)
    """
    after = "x"
