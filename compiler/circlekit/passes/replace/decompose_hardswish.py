# SPDX-License-Identifier: Apache-2.0
"""Decompose HARD_SWISH."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite


class DecomposeHardSwish(Rewrite):
    """hard_swish(x)  ==  x * (relu6(x + 3) / 6); fuse_hardswish undoes it, so O1 leaves that out."""

    name = "decompose_hardswish"

    before = """
        z = HardSwish(x: f32)
    """
    after = """
        a = Add(x, 3.0)
        r = Relu6(a)
        s = Mul(r, 0.16666667)
        z = Mul(x, s)
    """
