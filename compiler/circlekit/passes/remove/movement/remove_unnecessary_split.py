# SPDX-License-Identifier: Apache-2.0
"""Remove splits into one part."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite, Rules


class _OnePart(Rewrite):
    """split(x) into one part  ==  x."""

    quantized = True

    before = """
        y = $split   {num_splits: 1}
    """
    after = "x"


class RemoveUnnecessarySplit(Rules):
    """Remove SPLIT and SPLIT_V into one part."""

    name = "remove_unnecessary_split"
    rules = (_OnePart.member(split="Split(axis, x)"), _OnePart.member(split="SplitV(x, sizes, axis)"))
