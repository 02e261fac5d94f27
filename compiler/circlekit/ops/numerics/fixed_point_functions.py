# SPDX-License-Identifier: Apache-2.0
"""Exponential, logarithm, logistic, tanh and reciprocals in fixed point.

A number in Q(n) is a signed integer of ``bits`` bits (16 or 32) with n integer bits and bits - 1 - n fraction
bits; 1.0 in Q0 is the largest integer.  Functions take integer arrays of any shape and return int64.

Source: gemmlowp fixedpoint.h; TFLite kernels/internal/common.h.  Names are theirs where they have one.
"""

from __future__ import annotations

import math

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    rounding_divide_by_pot,
    saturating_left_shift,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)

_mul = saturating_rounding_doubling_high_mul
"""gemmlowp's ``*`` of two fixed-point numbers: Q(m) * Q(n) gives Q(m + n)."""


def _constant(real: float, integer_bits: int = 0, bits: int = 32) -> int:
    """Return ``real`` in Q(n); one of 16 bits is rounded from its 32-bit form, halves away from zero."""
    wide = math.floor(abs(real) * 2.0 ** (31 - integer_bits) + 0.5)
    return int(math.copysign(wide if bits == 32 else (wide + (1 << 15)) >> 16, real))


def bit_length(x: Array) -> Ints:
    """Return the number of bits of each element of ``x``, from 0 to 2^53 - 1."""
    return np.frexp(np.asarray(x, np.float64))[1].astype(np.int64)


# -- exponential, logistic, tanh ---------------------------------------------------------------


def exp_on_negative_values(x: Array, integer_bits: int, bits: int = 32) -> Ints:
    """Return e^x in Q0 for ``x`` <= 0 in Q(``integer_bits``).

    A polynomial for the last quarter, times e^-(2^k) for each bit k above it.
    """
    x = np.asarray(x, np.int64)
    fraction_bits = bits - 1 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    remainder = (x & (quarter - 1)) - quarter
    out = _exp_on_interval_between_negative_one_quarter_and_0(
        saturating_left_shift(remainder, integer_bits, bits), bits
    )
    above = remainder - x
    for exponent in range(-2, integer_bits):
        factor = _constant(math.exp(-(2.0**exponent)), bits=bits)
        out = np.where(above & (1 << (fraction_bits + exponent)), _mul(out, factor, bits), out)
    if integer_bits > 5:
        out = np.where(x < -(32 << fraction_bits), 0, out)
    return np.where(x == 0, (1 << (bits - 1)) - 1, out)


def _exp_on_interval_between_negative_one_quarter_and_0(x: Array, bits: int) -> Ints:
    """Return e^x in Q0 for -1/4 <= ``x`` < 0 in Q0: the Taylor series around -1/8."""
    middle, third = _constant(math.exp(-1 / 8), bits=bits), _constant(1 / 3, bits=bits)
    y = x + (1 << (bits - 4))
    square = _mul(y, y, bits)
    cube, fourth = _mul(square, y, bits), _mul(square, square, bits)
    tail = _mul(rounding_divide_by_pot(fourth, 2) + cube, third, bits) + square
    return saturating_left_shift(middle + _mul(middle, y + rounding_divide_by_pot(tail, 1), bits), 0, bits)


def logistic(x: Array, integer_bits: int, bits: int = 32) -> Ints:
    """Return 1 / (1 + e^-x) in Q0 for ``x`` in Q(``integer_bits``)."""
    x, one = np.asarray(x, np.int64), (1 << (bits - 1)) - 1
    positive = one_over_one_plus_x(exp_on_negative_values(-np.abs(x), integer_bits, bits), bits)
    out = np.where(x > 0, positive, one - positive)
    return np.asarray(np.where(x == 0, 1 << (bits - 2), out), np.int64)


def tanh(x: Array, integer_bits: int, bits: int = 32) -> Ints:
    """Return the hyperbolic tangent in Q0 for ``x`` in Q(``integer_bits``): 2 / (1 + e^-2|x|) - 1."""
    x = np.asarray(x, np.int64)
    power = exp_on_negative_values(-np.abs(x), integer_bits + 1, bits)  # as Q(n + 1), x stands for 2x
    out = saturating_left_shift(_two_over_one_plus_x(power, bits) - (1 << (bits - 3)), 2, bits)
    return np.asarray(np.where(x == 0, 0, np.where(x < 0, -out, out)), np.int64)


# -- reciprocals -------------------------------------------------------------------------------


def _two_over_one_plus_x(x: Array, bits: int) -> Ints:
    """Return 2 / (1 + x) in Q2 for 0 <= ``x`` < 1 in Q0: Newton's iteration, started at 48/17 - 32/17 d."""
    half_denominator = (np.asarray(x, np.int64) + (1 << (bits - 1))) >> 1
    guess = _constant(48 / 17, 2, bits) + _mul(half_denominator, _constant(-32 / 17, 2, bits), bits)
    for _ in range(3):
        missing = (1 << (bits - 3)) - _mul(half_denominator, guess, bits)
        guess = guess + saturating_left_shift(_mul(guess, missing, bits), 2, bits)
    return guess


def one_over_one_plus_x(x: Array, bits: int = 32) -> Ints:
    """Return 1 / (1 + x) in Q0 for 0 <= ``x`` < 1 in Q0."""
    return saturating_left_shift(_two_over_one_plus_x(x, bits), 1, bits)


def get_reciprocal(x: Array) -> tuple[Ints, Ints]:
    """Return (mantissa, shift) with 1 / x = mantissa / 2^31 * 2^-shift, for integers from 1 to 2^31 - 1."""
    x = np.asarray(x, np.int64)
    headroom = 32 - bit_length(x)
    return one_over_one_plus_x((x << headroom) - (1 << 31)), 31 - headroom


def get_inv_sqrt_quantized_multiplier(x: Array) -> QuantizedMultiplier:
    """Return 1 / sqrt(x) for integers from 0 to 2^31 - 1; for 0 the result is that for 1."""
    x = np.asarray(x, np.int64)
    excess_pairs = np.maximum((bit_length(x) - 28) // 2, 0)  # pairs of bits beyond 2^29
    small = np.maximum(x >> (2 * excess_pairs), 1)
    headroom_pairs = (31 - bit_length(small)) // 2 - 1
    half = rounding_divide_by_pot((small << (2 * headroom_pairs)) >> 1, 1)  # Q3
    guess = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = saturating_left_shift(_mul(_mul(guess, guess), guess), 6)
        guess = saturating_left_shift(_mul(3 << 27, guess) - _mul(half, cube), 3)
    mantissa = _mul(guess, _constant(0.5**0.5))
    shift = 11 + excess_pairs - headroom_pairs
    mantissa = np.where(shift < 0, mantissa << np.maximum(-shift, 0), mantissa)
    return QuantizedMultiplier(
        np.where(x <= 1, (1 << 31) - 1, mantissa), np.where(x <= 1, 0, -np.maximum(shift, 0))
    )


# -- logarithm ---------------------------------------------------------------------------------


def log_x_for_x_greater_than_or_equal_to_1(x: Array, integer_bits: int, output_bits: int) -> Ints:
    """Return log(x) in Q(``output_bits``) for ``x`` >= 1 in Q(``integer_bits``), 32 bits.

    x = r * 2^k with r near sqrt(sqrt(1/2)) and k a whole number plus or minus a quarter; log(r) is a
    quotient of polynomials.
    """
    x = np.asarray(x, np.int64)
    bits = output_bits + 1
    quarter = rounding_divide_by_pot(1 << 29, bits)
    sqrt_half, sqrt_sqrt_half = _constant(0.5**0.5), _constant(0.5**0.25)

    headroom = 31 - bit_length(x)
    first = saturating_left_shift(_mul(saturating_left_shift(x, headroom), sqrt_half), 1)
    first_power = saturating_left_shift(integer_bits - 1 - headroom, 31 - bits) + quarter
    headroom = 31 - bit_length(_mul(x, sqrt_half))
    second = saturating_left_shift(x, headroom)
    second_power = saturating_left_shift(integer_bits - headroom, 31 - bits) - quarter

    r, power = np.minimum(first, second), np.maximum(first_power, second_power)
    q = wrap_int32(2 * (r - sqrt_sqrt_half))
    square = _mul(q, q)
    numerator = _mul(q, r) + _mul(_mul(q, square), _constant(11 / 240 * 2**0.25))
    inner = _constant(2 / 2**0.25 - 2**0.25) + q + _mul(_constant(1 / 20 * 2**0.25), square)
    denominator_minus_one = _mul((r + sqrt_sqrt_half + 1) >> 1, inner) + _mul(_constant(2**0.25 / 4), q)
    log_r = _mul(rounding_divide_by_pot(numerator, bits), one_over_one_plus_x(denominator_minus_one))
    return saturating_left_shift(_mul(power, _constant(math.log(2))) + log_r, 1)
