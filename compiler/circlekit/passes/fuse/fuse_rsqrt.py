# SPDX-License-Identifier: Apache-2.0
"""The reciprocal of a square root."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite


class FuseRsqrt(Rewrite):
    """1 / sqrt(x)  ==  rsqrt(x)."""

    name = "fuse_rsqrt"

    before = """
        s = Sqrt(x: f32)
        z = Div(1.0, s)
    """
    after = "z = Rsqrt(x)"
