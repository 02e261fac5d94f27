# SPDX-License-Identifier: Apache-2.0
"""Before quantization, replace operators whose quantized kernel is absent, wrong or too coarse."""

from __future__ import annotations

from math import prod

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.constant_operands import int_list
from circlekit.ops.dimensions import known_dims
from circlekit.ops.reduction.reduce import reduced_axes
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class ReplaceNegWithMul(Rewrite):
    """neg(x)  ==  x * -1; LiteRT's quantized NEG ignores scales and zero points, and can overflow."""

    name = "replace_neg_with_mul"

    before = "z = Neg(x: f32)"
    after = "z = Mul(x, -1.0)"


class ReplaceSquareWithMul(Rewrite):
    """square(x)  ==  x * x; LiteRT has no quantized SQUARE."""

    name = "replace_square_with_mul"
    has_conditions = False

    before = "z = Square(x)"
    after = "z = Mul(x, x)"


class _ReplacePow(Rewrite):
    """pow(x, $exponent)  ==  $result."""

    before = "z = Pow(x: f32, $exponent)"
    after = "$result"


class ReplacePow(Rules):
    """pow(x, e)  ==  products or roots of x, for e of 2, 3, 1/2 and -1/2; LiteRT has no quantized POW.

    The results for -0 and -inf may differ: pow(-inf, 1/2) is inf, sqrt(-inf) is NaN.
    """

    name = "replace_pow"
    rules = (
        _ReplacePow.member(exponent="2.0", result="z = Mul(x, x)"),
        _ReplacePow.member(exponent="3.0", result="s = Mul(x, x)  z = Mul(s, x)"),
        _ReplacePow.member(exponent="0.5", result="z = Sqrt(x)"),
        _ReplacePow.member(exponent="-0.5", result="z = Rsqrt(x)"),
    )


class ReplaceSquaredDifferenceWithMul(Rewrite):
    """squared_difference(x, y)  ==  (x - y) * (x - y); LiteRT has no SQUARED_DIFFERENCE of int16."""

    name = "replace_squared_difference_with_mul"

    before = "z = SquaredDifference(x: f32, y)"
    after = """
        d = Sub(x, y)
        z = Mul(d, d)
    """


class ReplaceSumWithMean(Rewrite):
    """sum(x)  ==  mean(x) * count; LiteRT's reference kernel of SUM reads int8 and int16 data as uint8.

    ``count``: the number of elements that are added for each element of the result.
    """

    name = "replace_sum_with_mean"

    before = "z = Sum(x: f32, axis: const)  {keep_dims: any = keep_dims}"
    after = """
        m = Mean(x, axis)           {keep_dims: keep_dims}
        z = Mul(m, count)
    """

    @condition
    def knows_the_count(self, x: Value, axis: Array) -> str | None:
        """The dimensions of ``x`` along the summed axes are known and above 0."""
        if all(x.known_shape[a] for a in reduced_axes(int_list(axis), x.known_rank)):
            return None
        return f"%{x.name}: expected known sizes above 0 along the axes, got {format_shape(x.shape)}"

    def constants(self, x: Value, axis: Array) -> dict[str, Array]:
        sizes = known_dims(x.known_shape[a] for a in reduced_axes(int_list(axis), x.known_rank))
        return {"count": np.asarray(prod(sizes), np.float32)}


class ReplaceAveragePoolWithMean(Rewrite):
    """average_pool of the whole image  ==  mean over height and width.

    The result of a quantized AVERAGE_POOL_2D has the scale of its operand.  That is too coarse, because
    averages have a smaller range.  The result of MEAN has a scale of its own.
    """

    name = "replace_average_pool_with_mean"

    before = """
        z = AveragePool2D(x: f32[_, _, _, _])
            {padding: any, stride_h: any, stride_w: any, filter_height: any = rows,
             filter_width: any = columns}
    """
    after = "z = Mean(x, [1, 2])  {keep_dims: true}"

    @condition
    def has_one_window(self, z: Value, x: Value, rows: int, columns: int) -> str | None:
        """The pool has a single window, which holds the whole image."""
        height, width = x.known_shape[1:3]
        sizes = (z.shape or ())[1:3]
        if sizes == (1, 1) and height and width and rows >= height and columns >= width:
            return None
        found = f"windows of {rows}x{columns} and a result of {format_shape(z.shape)}"
        return f"%{x.name}: expected one window that holds all of {format_shape(x.shape)}, got {found}"
