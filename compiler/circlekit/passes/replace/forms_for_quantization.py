# SPDX-License-Identifier: Apache-2.0
"""Replace operators whose quantized kernels are unusable by ones whose kernels are right."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite


class ReplaceNegWithMul(Rewrite):
    """neg(x)  ==  x * -1; LiteRT's quantized NEG ignores scales and zero points, and wraps at the lowest."""

    name = "replace_neg_with_mul"

    before = "z = Neg(x: f32)"
    after = "z = Mul(x, -1.0)"
