# SPDX-License-Identifier: Apache-2.0
"""Functions of one element.  Source: TFLite elementwise, exp, neg, floor, ceil, round, sign."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.dtypes import i8, i16, i32, u8
from circlekit.ir.value import Array
from circlekit.ops.bases import Unary, is_quantized


class Abs(Unary, code="ABS"):
    """The magnitude."""

    versions: ClassVar = {i32: 5, i16: 4, i8: 2, u8: 2}
    kinds = "fi"

    def compute(self, x: Array) -> Array:
        return np.abs(x)

    def required_version(self) -> int:
        return 3 if self.input.dtype is i16 and is_quantized(self.input) else super().required_version()


class Neg(Unary, code="NEG"):
    """0 - x."""

    kinds = "fi"

    def compute(self, x: Array) -> Array:
        return np.negative(x)


class Exp(Unary, code="EXP", versions={i8: 2, i16: 2}):
    """e to the power of x."""

    def compute(self, x: Array) -> Array:
        return np.exp(x)


class Log(Unary, code="LOG", options=None, versions={i8: 2, i16: 2}):
    """The natural logarithm."""

    def compute(self, x: Array) -> Array:
        return np.log(x)


class Sqrt(Unary, code="SQRT", options=None, versions={i8: 2, i16: 2}):
    """The square root."""

    def compute(self, x: Array) -> Array:
        return np.sqrt(x)


class Rsqrt(Unary, code="RSQRT", options=None, versions={i8: 2, i16: 3}):
    """1 / sqrt(x)."""

    def compute(self, x: Array) -> Array:
        return np.reciprocal(np.sqrt(x))


class Square(Unary, code="SQUARE"):
    """x * x."""

    def compute(self, x: Array) -> Array:
        return np.square(x)


class Sin(Unary, code="SIN", options=None):
    """The sine of x in radians."""

    def compute(self, x: Array) -> Array:
        return np.sin(x)


class Cos(Unary, code="COS"):
    """The cosine of x in radians."""

    def compute(self, x: Array) -> Array:
        return np.cos(x)


class Floor(Unary, code="FLOOR", options=None):
    """The greatest integer that is not above x."""

    def compute(self, x: Array) -> Array:
        return np.floor(x)


class Ceil(Unary, code="CEIL", options=None):
    """The least integer that is not below x."""

    def compute(self, x: Array) -> Array:
        return np.ceil(x)


class Round(Unary, code="ROUND", options=None):
    """The nearest integer, the even one of two."""

    def compute(self, x: Array) -> Array:
        return np.rint(x)


class Sign(Unary, code="SIGN", versions={i32: 2}):
    """-1, 0 or 1."""

    kinds = "fi"

    def compute(self, x: Array) -> Array:
        return np.sign(x)


class ZerosLike(Unary, code="ZEROS_LIKE"):
    """Zeros in the shape of the operand."""

    kinds = "fiu"

    def compute(self, x: Array) -> Array:
        return np.zeros_like(x)
