# SPDX-License-Identifier: Apache-2.0
"""Splits into one part."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite, Rules


class OnePart(Rewrite):
    """split(x, 1)  ==  x."""

    quantized = True

    before = """
        y = Split(axis, x)           {num_splits: 1}
    """
    after = "x"


class OnePartV(Rewrite):
    """split_v(x, [size])  ==  x."""

    quantized = True

    before = """
        y = SplitV(x, sizes, axis)   {num_splits: 1}
    """
    after = "x"


class RemoveUnnecessarySplit(Rules):
    """A tensor split into one part is that part."""

    name = "remove_unnecessary_split"
    rules = (OnePart, OnePartV)
