# SPDX-License-Identifier: Apache-2.0
"""Quotients and remainders of two operands that broadcast.  Source: TFLite div, floor_div, floor_mod."""

from __future__ import annotations

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import BinaryWithActivation
from circlekit.ops.elementwise import Binary
from circlekit.ops.numerics.fixed_point import (
    bit_length,
    centered,
    clamp_to_dtype,
    get_reciprocal,
    quantize_multiplier,
    rounding_divide_by_pot_on_x86,
    saturating_rounding_doubling_high_mul,
)
from circlekit.ops.quantized_values import is_quantized, scale_of, zero_point_of


class Div(BinaryWithActivation, code="DIV"):
    """lhs / rhs.

    For plain integers and for quantized data, rhs = 0 raises ModelError.  Quotients of plain integers are
    rounded towards zero; the smallest integer divided by -1 gives the largest, as in LiteRT.  For quantized
    data, lhs is multiplied by the 31-bit fixed-point reciprocal of rhs.  If a quotient is far below the scale
    of the result, LiteRT gives a wrong number, and this kernel gives the same number.
    """

    quantization_rule = QuantizationRule(not_zero=("rhs",))  # no integer of rhs may stand for 0

    def compute(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return np.asarray(x / y)
        require_nonzero_divisors(self, y)
        limits = np.iinfo(x.dtype)
        quotient = (x - np.fmod(x, y)) // y
        return np.where((x == limits.min) & (y == -1), x.dtype.type(limits.max), quotient)

    def quantized(self, x: Array, y: Array) -> Array:
        if np.any(y == zero_point_of(self.rhs)):
            raise ModelError("DIV: expected quantized divisors other than 0.0, got 0.0")
        scales = [scale_of(v) for v in (self.lhs, self.rhs, self.output)]
        multiplier = quantize_multiplier(scales[0] / (scales[1] * scales[2]))
        x, y = centered(x, self.lhs), centered(y, self.rhs)
        inverse, inverse_shift = get_reciprocal(np.abs(y))
        x = (x * np.sign(y)).astype(np.int64)
        headroom = 31 - bit_length(x ^ (x >> 63))  # unused bits of x, or of ~x for x < 0
        quotient = saturating_rounding_doubling_high_mul(x << headroom, inverse)
        product = saturating_rounding_doubling_high_mul(quotient, multiplier.mantissa)
        scaled = rounding_divide_by_pot_on_x86(product, inverse_shift + headroom - multiplier.shift)
        return clamp_to_dtype(scaled, self.output, self.act)

    def integer_fault(self) -> str | None:
        """Return a sentence if LiteRT's integer kernel gives wrong results for some quotients; else None.

        The quantizer asks this when the operands have their scales, but constants may still hold floats.
        """
        if not all(is_quantized(v) for v in (self.lhs, self.rhs, self.output)):
            return None
        scales = [float(scale_of(v)) for v in (self.lhs, self.rhs, self.output)]
        shift = quantize_multiplier(scales[0] / (scales[1] * scales[2])).shift
        (least, _), (_, largest) = _magnitudes(self.lhs), _magnitudes(self.rhs)
        # the greatest exponent of the last division in ``quantized``, inverse_shift + headroom - shift; above
        # 31, LiteRT's shift is undefined
        exponent = (largest.bit_length() - 1) + (31 - least.bit_length()) - shift
        if exponent <= 31:
            return None
        return "DIV is wrong where quotients are far below the scale of its result"

    def required_version(self) -> int:
        return 2 if self.broadcasts_beyond_4d() else 1


def _magnitudes(value: Value) -> tuple[int, int]:
    """Return the least and the largest magnitude of n = integer - zero point, for the integers of ``value``.

    If ``value`` is not constant, these are all integers of its dtype.  n = 0 is left out.  In the least
    magnitude, n < 0 counts as -n - 1, so -1 counts as 0: LiteRT counts the bits of ~n.  For n = -3, 0 and 5,
    the result is (2, 5).  If all n of a constant are 0, it is (1, 2^15).
    """
    zero_point = zero_point_of(value)
    if not value.is_const:
        low, high = value.dtype.limits
        return 0 if low < zero_point else 1, max(zero_point - low, high - zero_point)
    numbers = value.array()
    if numbers.dtype.kind == "f":  # a constant that is not quantized yet (see ``Div.integer_fault``)
        numbers = np.rint(numbers / scale_of(value))
        zero_point = 0
    stored = numbers.astype(np.int64) - zero_point
    stored = stored[stored != 0]
    if not stored.size:
        return 1, 2**15
    bits = stored ^ (stored >> 63)  # ~stored for stored < 0
    return int(bits.min(initial=2**15)), int(np.abs(stored).max())


def require_nonzero_divisors(op: Op, divisors: Array) -> None:
    """Raise ModelError if integer ``divisors`` contain 0.  For floats, only LiteRT does (FLOOR_DIV)."""
    if divisors.dtype.kind in "iu" and not np.all(divisors):
        raise ModelError(f"{op.code}: expected integer divisors other than 0, got 0")


class FloorDiv(Binary, code="FLOOR_DIV", versions={DType.FLOAT32: 2, i8: 3, i16: 3}):
    """floor(lhs / rhs).  For integers, rhs = 0 raises ModelError.  Quantized data count as plain integers.

    The quotient of floats is computed in float64, as in LiteRT, because float32 may round it up to a whole
    number.
    """

    quantization_rule = None  # never quantized: the kernel ignores scales

    ignores_scales = (i8, u8, i16)  # ``compute`` gets these dtypes even with a scale

    def compute(self, x: Array, y: Array) -> Array:
        require_nonzero_divisors(self, y)
        if x.dtype.kind == "f":
            return np.floor(np.divide(x, y, dtype=np.float64)).astype(x.dtype)
        return np.asarray(x // y)


class FloorMod(Binary, code="FLOOR_MOD", versions={i8: 2, i16: 2}):
    """lhs - floor(lhs / rhs) * rhs: the remainder with the sign of rhs; a 0.0 has the sign of lhs.

    For integers, rhs = 0 raises ModelError.  Quantized data count as plain integers.
    """

    quantization_rule = None  # the kernel ignores scales

    ignores_scales = (i8, u8, i16)

    def compute(self, x: Array, y: Array) -> Array:
        require_nonzero_divisors(self, y)
        rest = np.fmod(x, y)
        has_other_sign = (rest != 0) & ((rest < 0) != (y < 0))
        return np.where(has_other_sign, rest + y, rest)
