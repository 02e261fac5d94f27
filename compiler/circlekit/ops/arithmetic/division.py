# SPDX-License-Identifier: Apache-2.0
"""Quotients and remainders of two operands that broadcast.  Source: TFLite div, floor_div, floor_mod."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, i8, i16
from circlekit.ir.op import Op
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.binary import Fused, centred
from circlekit.ops.elementwise import Binary
from circlekit.ops.numerics.fixed_point import (
    QuantizedMultiplier,
    quantize_multiplier,
    quantized_activation_range,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)
from circlekit.ops.numerics.lookup_tables import tabulated_pairs
from circlekit.ops.numerics.narrow import stored
from circlekit.ops.numerics.newton_raphson import bit_length, reciprocal
from circlekit.ops.quantization import scale_of, zero_point_of


class Div(Fused, code="DIV"):
    """lhs / rhs; integers round towards zero, quantized ones multiply with a reciprocal of 31 bits.

    A quantized quotient that is far below the scale of the result is wrong in LiteRT, and here.
    """

    def quantized(self, x: Array, y: Array) -> Array:
        if np.any(y == zero_point_of(self.rhs)):
            raise ModelError("DIV: a quantized number divided by 0.0 has no value")
        scales = [scale_of(v) for v in (self.lhs, self.rhs, self.output)]
        by = quantize_multiplier(scales[0] / (scales[1] * scales[2]))
        return tabulated_pairs(
            x, y, lambda a, b: self.divided(centred(a, self.lhs), centred(b, self.rhs), by)
        )

    def divided(self, x: Array, y: Array, by: QuantizedMultiplier) -> Array:
        sign = np.where(y < 0, -1, 1)
        inverse, bits = reciprocal(np.maximum(np.abs(y), 1))  # 0 is in no operand, but in the table
        x = (x * sign).astype(np.int64)
        headroom = 31 - bit_length(np.where(x < 0, ~x, x))
        quotient = saturating_rounding_doubling_high_mul(x << headroom, inverse)
        scaled = x86_shift(
            saturating_rounding_doubling_high_mul(quotient, by.mantissa), bits + headroom - by.shift
        )
        limits = quantized_activation_range(self.act, self.output)
        return np.asarray(np.clip(scaled + zero_point_of(self.output), *limits), self.output.dtype.numpy)

    def write(self, tape: Tape, x: Array, y: Array, out: Array) -> None:
        if x.dtype.kind == "f":
            tape.do(np.divide, x, y, out)
        else:
            tape.do(stored, self.divided_integers, x, y, out)

    def divided_integers(self, x: Array, y: Array) -> Array:
        """Quotients that are rounded towards zero."""
        need_no_zero(self, y)
        floor = x // y
        return np.asarray(floor + ((x % y != 0) & ((x < 0) != (y < 0))).astype(x.dtype))

    def required_version(self) -> int:
        return 2 if self.broadcasts_beyond_4d() else 1


def x86_shift(x: Array, exponent: Array) -> Array:
    """round(x / 2^exponent), halves away from zero; beyond 31 bits what x86 makes of such a shift.

    The exponent then counts modulo 32 (in 64 bits: 64), which C leaves open: LiteRT's quotients near 0.
    """
    mask = wrap_int32((np.int64(1) << (exponent & 63)) - 1)
    return np.asarray((x >> (exponent & 31)) + ((x & mask) > (mask >> 1) + (x < 0)))


def need_no_zero(op: Op, divisors: Array) -> None:
    """ModelError where an integer would be divided by zero."""
    if divisors.dtype.kind in "iu" and not np.all(divisors):
        raise ModelError(f"{op.code}: an integer divided by 0 has no value")


class FloorDiv(Binary, code="FLOOR_DIV"):
    """floor(lhs / rhs); of quantized integers too, whatever their scales, as in LiteRT."""

    versions: ClassVar = {DType.FLOAT32: 2, i8: 3, i16: 3}

    def quantized(self, x: Array, y: Array) -> Array:
        return self.compute(x, y)

    def compute(self, x: Array, y: Array) -> Array:
        need_no_zero(self, y)
        return np.asarray(np.floor(x / y) if x.dtype.kind == "f" else x // y)


class FloorMod(Binary, code="FLOOR_MOD", versions={i8: 2, i16: 2}):
    """lhs - floor(lhs / rhs) * rhs: the remainder with the sign of rhs, whatever the scales."""

    def quantized(self, x: Array, y: Array) -> Array:
        return self.compute(x, y)

    def compute(self, x: Array, y: Array) -> Array:
        need_no_zero(self, y)
        return np.asarray(np.mod(x, y))
