# SPDX-License-Identifier: Apache-2.0
"""Replace operators whose quantized kernels are unusable by ones whose kernels are right."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite


class ReplaceNegWithMul(Rewrite):
    """neg(x)  ==  x * -1; LiteRT's quantized NEG ignores scales and zero points, and wraps at the lowest."""

    name = "replace_neg_with_mul"

    before = "z = Neg(x: f32)"
    after = "z = Mul(x, -1.0)"


class ReplaceSquareWithMul(Rewrite):
    """square(x)  ==  x * x; LiteRT has no quantized SQUARE."""

    name = "replace_square_with_mul"

    before = "z = Square(x)"
    after = "z = Mul(x, x)"


class ReplaceSquaredDifferenceWithMul(Rewrite):
    """squared_difference(x, y)  ==  (x - y) * (x - y); LiteRT has no SQUARED_DIFFERENCE of int16."""

    name = "replace_squared_difference_with_mul"

    before = "z = SquaredDifference(x: f32, y)"
    after = """
        d = Sub(x, y)
        z = Mul(d, d)
    """
