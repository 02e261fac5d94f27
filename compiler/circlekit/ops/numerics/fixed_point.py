# SPDX-License-Identifier: Apache-2.0
"""TFLite's fixed-point arithmetic on whole arrays, bit for bit; elementary functions in fixed point.

A real multiplier is stored as two integers, mantissa and shift.  It is mantissa / 2^31 * 2^shift.  When
LiteRT multiplies an integer by such a multiplier, it rounds twice:

- After the product with the mantissa, a half is rounded up.
- After the right shift (only for a negative shift), a half is rounded away from zero in the reference
  kernels, and up in the optimized kernels.

Unless its docstring says otherwise, a function takes any integer arrays and returns int64, which holds every
intermediate result.

A number in Q(n) is a signed integer of ``bits`` bits (16 or 32) with n integer bits and bits - 1 - n fraction
bits: it stands for integer / 2^(bits - 1 - n).  In Q0 the largest integer also stands for 1.0, which no
integer represents exactly.

Source: TFLite kernels/internal/common.h and quantization_util.cc, gemmlowp fixedpoint.h.  Most functions
have the names that they have there, in snake case.  ``pot`` is a power of two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from circlekit.ir.enums import Activation
from circlekit.ir.value import Array, Value
from circlekit.ops.fused_activation import ACTIVATION_BOUNDS
from circlekit.ops.quantized_values import dtype_limits, scale_of, zero_point_of

Ints = NDArray[np.int64]


class QuantizedMultiplier(NamedTuple):
    """Real factors ``mantissa`` / 2^31 * 2^``shift``.

    A mantissa is from 0 to 2^31 - 1; ``quantize_multiplier`` makes it 0 or at least 2^30.
    Both are int64: scalars for one factor, vectors for one factor per channel (the last axis).
    """

    mantissa: Ints
    shift: Ints


def quantize_multiplier(real: ArrayLike) -> QuantizedMultiplier:
    """Return the factors nearest to the numbers ``real`` >= 0; a factor below 2^-32 becomes 0."""
    fraction, exponent = np.frexp(np.asarray(real, np.float64))
    mantissa = round_half_away(fraction * 2.0**31).astype(np.int64)
    shift = exponent.astype(np.int64)
    carried = mantissa == 1 << 31  # rounded up to 1.0: halve the mantissa
    mantissa = np.where(carried, 1 << 30, mantissa)
    shift = np.where(carried, shift + 1, shift)
    underflow = (mantissa == 0) | (shift < -31)
    return QuantizedMultiplier(np.where(underflow, 0, mantissa), np.where(underflow, 0, shift))


# -- rounding and saturation -------------------------------------------------------------------


def round_half_away(x: Array) -> Array:
    """Return floats rounded to whole numbers, a half away from zero as in C's ``round``; keep the dtype."""
    whole = np.trunc(x)
    return np.asarray(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0), x.dtype)


def wrap_int32(x: Array) -> Ints:
    """Return integers wrapped around (modulo 2^32) to the range of int32, as int64."""
    return np.asarray(x, np.int64).astype(np.int32).astype(np.int64)


def saturating_rounding_doubling_high_mul(a: ArrayLike, b: ArrayLike, bits: int = 32) -> Ints:
    """Return the product of two Q0 numbers in Q0: a * b / 2^(bits - 1), rounded with a half up.

    The numbers have ``bits`` bits (16 or 32).  The square of -1.0 is saturated to the largest integer.
    """
    out: Ints = np.multiply(np.asarray(a, np.int64), np.asarray(b, np.int64))
    out += 1 << (bits - 2)
    out >>= bits - 1
    return np.minimum(out, (1 << (bits - 1)) - 1)


def rounding_divide_by_pot(x: ArrayLike, exponent: ArrayLike) -> Ints:
    """Return x / 2^exponent, rounded with a half away from zero."""
    x, exponent = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    below_zero = (x >> 63) & np.where(exponent > 0, -1, 0)  # -1 for x < 0: a half is rounded down
    return np.asarray((x + half + below_zero) >> exponent)


def rounding_divide_by_pot_on_x86(x: Ints, exponent: Ints) -> Ints:
    """Return int32 numbers ``x`` divided by 2^exponent, rounded with a half away from zero, as LiteRT on x86.

    LiteRT also shifts by exponents below 0 or above 31, which C does not define.  An x86 processor then takes
    only the lowest bits of the exponent: 5 bits in the shift of ``x``, and 6 bits in the 64-bit shift that
    makes the mask of the remainder.
    """
    mask = wrap_int32(~(np.int64(-1) << (exponent & 63)))
    return np.asarray((x >> (exponent & 31)) + ((x & mask) > (mask >> 1) + (x < 0)), np.int64)


def saturating_left_shift(x: ArrayLike, exponent: ArrayLike, bits: int = 32) -> Ints:
    """Return x * 2^exponent, saturated to signed integers of ``bits`` bits."""
    limit = 1 << (bits - 1)
    wide = np.asarray(x, np.int64) << np.asarray(exponent, np.int64)
    return np.asarray(np.clip(wide, -limit, limit - 1))


# -- multiplication ----------------------------------------------------------------------------


def multiply_by_quantized_multiplier(x: Array, multiplier: QuantizedMultiplier) -> Ints:
    """Return int32 numbers ``x`` times ``multiplier``, rounded twice as in LiteRT's reference kernels.

    With a positive shift, x * 2^shift wraps around modulo 2^32.  ``rescaled`` and the function for the
    optimized kernels do the same.
    """
    out, right_shift = product_before_right_shift(x, multiplier), np.maximum(-multiplier.shift, 0)
    return rounding_divide_by_pot(out, right_shift) if right_shift.any() else out


def rescaled(x: Array, real: ArrayLike) -> Ints:
    """Return int32 numbers ``x`` times ``real``, as in LiteRT's reference kernels."""
    return multiply_by_quantized_multiplier(x, quantize_multiplier(real))


def multiply_by_quantized_multiplier_half_up(x: Array, multiplier: QuantizedMultiplier) -> Ints:
    """Return int32 numbers ``x`` times ``multiplier``, rounded twice as in LiteRT's optimized kernels."""
    out, right_shift = product_before_right_shift(x, multiplier), np.maximum(-multiplier.shift, 0)
    return np.asarray((out + ((np.int64(1) << right_shift) >> 1)) >> right_shift)


def product_before_right_shift(x: Array, multiplier: QuantizedMultiplier) -> Ints:
    """Return x * 2^max(shift, 0) * mantissa / 2^31, rounded with a half up.

    x * 2^max(shift, 0) wraps around modulo 2^32.
    """
    x, left_shift = np.asarray(x, np.int64), np.maximum(multiplier.shift, 0)
    shifted = wrap_int32(x << left_shift) if left_shift.any() else x
    return saturating_rounding_doubling_high_mul(shifted, multiplier.mantissa)


def multiply_by_quantized_multiplier_int64(x: Array, multiplier: QuantizedMultiplier) -> Ints:
    """Return int64 numbers ``x`` times ``multiplier``, as LiteRT does for sums of int16 data.

    The mantissa is reduced to 15 bits, and the product is rounded once, with a half up.  Nothing saturates,
    as in LiteRT: the result wraps around modulo 2^32.  If |x| is 2^48 or more, the product may wrap around
    modulo 2^64 before.  With a shift of 15 or more, LiteRT shifts by a negative number, which C does not
    define.  An x86 processor then takes only the lowest 6 bits of that number.
    """
    mantissa = np.where(multiplier.mantissa < 0x7FFF0000, (multiplier.mantissa + (1 << 15)) >> 16, 0x7FFF)
    right_shift = 15 - multiplier.shift
    out = np.asarray(x, np.int64) * mantissa
    out += np.int64(1) << ((right_shift - 1) & 63)
    out >>= right_shift & 63
    return wrap_int32(out)


# -- ranges; products and constants in Q(n) ----------------------------------------------------


def quantized_activation_range(act: Activation, output: Value) -> tuple[int, int]:
    """Return the smallest and the largest integer that ``output`` may have after the activation ``act``.

    An activation without bounds (TANH) allows all integers, as in TFLite's CalculateActivationRangeQuantized.
    """
    lowest, highest = dtype_limits(output.dtype)
    low, high = ACTIVATION_BOUNDS.get(act, (None, None))
    if low is None and high is None:
        return lowest, highest
    scale, zero = scale_of(output), zero_point_of(output)

    def quantized(real: float) -> int:
        steps = float(np.float32(real) / scale)
        return zero + int(math.copysign(math.floor(abs(steps) + 0.5), steps))

    return (
        lowest if low is None else max(lowest, quantized(low)),
        highest if high is None else min(highest, quantized(high)),
    )


def centered(x: Array, value: Value) -> Array:
    """Return ``x``, the elements of ``value``, minus its zero point, as int32."""
    return np.asarray(x.astype(np.int32) - np.int32(zero_point_of(value)))


def clamp_to_dtype(x: Array, output: Value, act: Activation = Activation.NONE) -> Array:
    """Return ``x`` plus the zero point of ``output``, in its dtype and clamped to the range of ``act``."""
    limits = quantized_activation_range(act, output)
    return np.asarray(np.clip(x + zero_point_of(output), *limits), output.dtype.numpy)


_mul = saturating_rounding_doubling_high_mul
"""gemmlowp's ``*`` of two fixed-point numbers: Q(m) * Q(n) gives Q(m + n)."""


def _constant(real: float, integer_bits: int = 0, bits: int = 32) -> int:
    """Return ``real`` in Q(``integer_bits``); for 16 bits, round to 32 bits first, as gemmlowp does."""
    wide = math.floor(abs(real) * 2.0 ** (31 - integer_bits) + 0.5)
    return int(math.copysign(wide if bits == 32 else (wide + (1 << 15)) >> 16, real))


def bit_length(x: Array) -> Ints:
    """Return the number of bits of each element of ``x``, which must be from 0 to 2^53 - 1."""
    return np.frexp(np.asarray(x, np.float64))[1].astype(np.int64)


# -- exponential, logistic, tanh ---------------------------------------------------------------


def exp_on_negative_values(x: Array, integer_bits: int, bits: int = 32) -> Ints:
    """Return e^x in Q0 for ``x`` <= 0 in Q(``integer_bits``).

    Let x = r - (a sum of powers 2^k), with r in [-1/4, 0).  The result is e^r, computed by a polynomial,
    times e^-(2^k) for each of these powers.
    """
    x = np.asarray(x, np.int64)
    fraction_bits = bits - 1 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    remainder = (x & (quarter - 1)) - quarter
    out = _exp_on_interval_between_negative_one_quarter_and_0(
        saturating_left_shift(remainder, integer_bits, bits), bits
    )
    powers = remainder - x
    for exponent in range(-2, integer_bits):
        factor = _constant(math.exp(-(2.0**exponent)), bits=bits)
        out = np.where(powers & (1 << (fraction_bits + exponent)), _mul(out, factor, bits), out)
    return np.where(x == 0, (1 << (bits - 1)) - 1, out)  # e^0: r cannot be 0


def _exp_on_interval_between_negative_one_quarter_and_0(x: Array, bits: int) -> Ints:
    """Return e^x in Q0 for -1/4 <= ``x`` < 0 in Q0, by the Taylor series around -1/8."""
    middle, third = _constant(math.exp(-1 / 8), bits=bits), _constant(1 / 3, bits=bits)
    y = x + (1 << (bits - 4))  # x + 1/8
    square = _mul(y, y, bits)
    cube, fourth = _mul(square, y, bits), _mul(square, square, bits)
    tail = _mul(rounding_divide_by_pot(fourth, 2) + cube, third, bits) + square  # y^2 + y^3 / 3 + y^4 / 12
    return saturating_left_shift(middle + _mul(middle, y + rounding_divide_by_pot(tail, 1), bits), 0, bits)


def logistic(x: Array, integer_bits: int, bits: int = 32) -> Ints:
    """Return 1 / (1 + e^-x) in Q0 for ``x`` in Q(``integer_bits``)."""
    x, one = np.asarray(x, np.int64), (1 << (bits - 1)) - 1
    positive = one_over_one_plus_x(exp_on_negative_values(-np.abs(x), integer_bits, bits), bits)
    half = 1 << (bits - 2)  # the logistic of 0
    return np.asarray(np.select([x > 0, x < 0], [positive, one - positive], half), np.int64)


def tanh(x: Array, integer_bits: int, bits: int = 32) -> Ints:
    """Return the hyperbolic tangent in Q0 for ``x`` in Q(``integer_bits``).

    It is the sign of x times 2 / (1 + e^-2|x|) - 1.
    """
    x = np.asarray(x, np.int64)
    power = exp_on_negative_values(-np.abs(x), integer_bits + 1, bits)  # x read as Q(n + 1) is 2x
    one_in_q2 = 1 << (bits - 3)
    out = saturating_left_shift(_two_over_one_plus_x(power, bits) - one_in_q2, 2, bits)  # Q2 to Q0
    return np.asarray(np.sign(x) * out, np.int64)


# -- reciprocals -------------------------------------------------------------------------------


def _two_over_one_plus_x(x: Array, bits: int) -> Ints:
    """Return 2 / (1 + x) in Q2 for 0 <= ``x`` < 1 in Q0."""
    half_denominator = (np.asarray(x, np.int64) + (1 << (bits - 1))) >> 1
    guess = _constant(48 / 17, 2, bits) + _mul(half_denominator, _constant(-32 / 17, 2, bits), bits)
    for _ in range(3):  # Newton's iteration for 1 / half_denominator; ``guess`` and ``error`` in Q2
        error = (1 << (bits - 3)) - _mul(half_denominator, guess, bits)
        guess = guess + saturating_left_shift(_mul(guess, error, bits), 2, bits)
    return guess


def one_over_one_plus_x(x: Array, bits: int = 32) -> Ints:
    """Return 1 / (1 + x) in Q0 for 0 <= ``x`` < 1 in Q0."""
    return saturating_left_shift(_two_over_one_plus_x(x, bits), 1, bits)


def get_reciprocal(x: Array) -> tuple[Ints, Ints]:
    """Return (mantissa, shift), where 1 / x = mantissa / 2^31 * 2^-shift, for ``x`` from 1 to 2^31 - 1."""
    x = np.asarray(x, np.int64)
    headroom = 32 - bit_length(x)
    fraction = (x << headroom) - (1 << 31)  # x = (1 + fraction) * 2^(31 - headroom), fraction in Q0
    return one_over_one_plus_x(fraction), 31 - headroom


def get_inv_sqrt_quantized_multiplier(x: Array) -> QuantizedMultiplier:
    """Return 1 / sqrt(x) for integers from 0 to 2^31 - 1; the result for 0 equals the result for 1."""
    x = np.asarray(x, np.int64)
    excess_pairs = np.maximum((bit_length(x) - 28) // 2, 0)  # pairs of bits to shift out, to get below 2^29
    small = np.maximum(x >> (2 * excess_pairs), 1)
    headroom_pairs = (31 - bit_length(small)) // 2 - 1
    # y = small * 4^headroom_pairs / 2^29, from 1/4 to below 1; ``half`` is y / 2 in Q3
    half = rounding_divide_by_pot((small << (2 * headroom_pairs)) >> 1, 1)
    guess = np.full(x.shape, 1 << 28, np.int64)  # 1.0 in Q3
    for _ in range(5):  # Newton's iteration for 1 / sqrt(y): 3/2 * guess - half * guess^3
        cube = saturating_left_shift(_mul(_mul(guess, guess), guess), 6)
        guess = saturating_left_shift(_mul(3 << 27, guess) - _mul(half, cube), 3)
    mantissa = _mul(guess, _constant(0.5**0.5))
    shift = 11 + excess_pairs - headroom_pairs
    mantissa = np.where(x <= 1, (1 << 31) - 1, mantissa << np.maximum(-shift, 0))
    return QuantizedMultiplier(mantissa, -np.maximum(shift, 0))


# -- logarithm ---------------------------------------------------------------------------------


def log_x_for_x_greater_than_or_equal_to_1(x: Array, integer_bits: int, output_integer_bits: int) -> Ints:
    """Return log(x) in Q(``output_integer_bits``) for ``x`` >= 1 in Q(``integer_bits``), both of 32 bits.

    Let x = r * 2^(1/4) * 2^power.  There are two candidates (``first``, ``second``): power is a whole number
    plus 1/4, or a whole number minus 1/4.  The candidate with the smaller r is taken; this r is near
    2^(-1/4).  So r * 2^(1/4) is near 1, and a quotient of polynomials approximates its logarithm.
    """
    x = np.asarray(x, np.int64)
    power_integer_bits = output_integer_bits + 1
    quarter = rounding_divide_by_pot(1 << 29, power_integer_bits)
    sqrt_half, sqrt_sqrt_half = _constant(0.5**0.5), _constant(0.5**0.25)

    headroom = 31 - bit_length(x)
    first = saturating_left_shift(_mul(saturating_left_shift(x, headroom), sqrt_half), 1)
    first_power = saturating_left_shift(integer_bits - 1 - headroom, 31 - power_integer_bits) + quarter
    headroom = 31 - bit_length(_mul(x, sqrt_half))
    second = saturating_left_shift(x, headroom)
    second_power = saturating_left_shift(integer_bits - headroom, 31 - power_integer_bits) - quarter

    r, power = np.minimum(first, second), np.maximum(first_power, second_power)
    q = wrap_int32(2 * (r - sqrt_sqrt_half))
    square = _mul(q, q)
    numerator = _mul(q, r) + _mul(_mul(q, square), _constant(11 / 240 * 2**0.25))
    inner = _constant(2 / 2**0.25 - 2**0.25) + q + _mul(_constant(1 / 20 * 2**0.25), square)
    denominator_minus_one = _mul((r + sqrt_sqrt_half + 1) >> 1, inner) + _mul(_constant(2**0.25 / 4), q)
    numerator = rounding_divide_by_pot(numerator, power_integer_bits)
    log_remainder = _mul(numerator, one_over_one_plus_x(denominator_minus_one))
    return saturating_left_shift(_mul(power, _constant(math.log(2))) + log_remainder, 1)
