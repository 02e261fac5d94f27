# SPDX-License-Identifier: Apache-2.0
"""Exponential and logarithm of 32-bit fixed-point numbers, as gemmlowp and TFLite compute them.

A number in Q(n) has n integer bits and 31 - n fraction bits.  Source: gemmlowp fixedpoint.h, TFLite
kernels/internal/common.h.
"""

from __future__ import annotations

import math

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.numerics.fixed_point import (
    Ints,
    rounding_divide_by_pot,
    saturating_left_shift,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)
from circlekit.ops.numerics.newton_raphson import bit_length, one_over_one_plus

ONE = (1 << 31) - 1
"""1 in Q0, as near as it comes."""


def _constant(real: float) -> int:
    """A number in Q0."""
    return math.floor(real * 2.0**31 + 0.5)


def exp_of_negative(x: Array, integer_bits: int) -> Ints:
    """e^x in Q0 of ``x`` <= 0 in Q(``integer_bits``), at most 5.

    A polynomial on the last quarter, times e^-2^k for each bit k above it.
    """
    x = np.asarray(x, np.int64)
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    rest = (x & (quarter - 1)) - quarter
    out = _exp_near_eighth(saturating_left_shift(rest, integer_bits))
    above = rest - x
    for exponent in range(-2, integer_bits):
        factor = _constant(math.exp(-(2.0**exponent)))
        out = np.where(
            above & (1 << (fraction_bits + exponent)), saturating_rounding_doubling_high_mul(out, factor), out
        )
    return np.where(x == 0, ONE, out)


def _exp_near_eighth(x: Array) -> Ints:
    """e^x in Q0 for -1/4 <= x < 0, by Taylor's series around -1/8."""
    middle, third = _constant(math.exp(-1 / 8)), _constant(1 / 3)
    y = x + (1 << 28)
    square = saturating_rounding_doubling_high_mul(y, y)
    cube, fourth = (
        saturating_rounding_doubling_high_mul(square, y),
        saturating_rounding_doubling_high_mul(square, square),
    )
    tail = saturating_rounding_doubling_high_mul(rounding_divide_by_pot(fourth, 2) + cube, third) + square
    return np.asarray(
        middle + saturating_rounding_doubling_high_mul(middle, y + rounding_divide_by_pot(tail, 1))
    )


def log_of_at_least_one(x: Array, integer_bits: int, output_bits: int) -> Ints:
    """log(x) in Q(``output_bits``) of x >= 1 in Q(``integer_bits``).

    x = r * 2^k, with r around sqrt(sqrt(1/2)) and k a whole number plus or minus a quarter; log(r) is a
    quotient of polynomials.
    """
    x = np.asarray(x, np.int64)
    bits = output_bits + 1
    quarter = rounding_divide_by_pot(1 << 29, bits)
    root, half_root = _constant(0.5**0.5), _constant(0.5**0.25)

    headroom = 31 - bit_length(x)
    first = saturating_left_shift(
        saturating_rounding_doubling_high_mul(saturating_left_shift(x, headroom), root), 1
    )
    first_power = saturating_left_shift(integer_bits - 1 - headroom, 31 - bits) + quarter
    headroom = 31 - bit_length(saturating_rounding_doubling_high_mul(x, root))
    second = saturating_left_shift(x, headroom)
    second_power = saturating_left_shift(integer_bits - headroom, 31 - bits) - quarter

    r, power = np.minimum(first, second), np.maximum(first_power, second_power)
    product = saturating_rounding_doubling_high_mul(power, _constant(math.log(2)))
    rest = rounding_divide_by_pot(_log_numerator(r, half_root), bits)
    total = product + saturating_rounding_doubling_high_mul(
        rest, one_over_one_plus(_log_denominator(r, half_root))
    )
    return saturating_left_shift(total, 1)


def _twice_from(r: Array, half_root: int) -> Ints:
    return wrap_int32(2 * (r - half_root))


def _log_numerator(r: Array, half_root: int) -> Ints:
    q = _twice_from(r, half_root)
    factor = _constant(11 / 240 * 2**0.25)
    cubic = saturating_rounding_doubling_high_mul(
        saturating_rounding_doubling_high_mul(q, saturating_rounding_doubling_high_mul(q, q)), factor
    )
    return np.asarray(saturating_rounding_doubling_high_mul(q, r) + cubic)


def _log_denominator(r: Array, half_root: int) -> Ints:
    """The denominator minus 1."""
    q = _twice_from(r, half_root)
    mean = (r + half_root + 1) >> 1
    inner = _constant(2 / 2**0.25 - 2**0.25) + q
    inner = inner + saturating_rounding_doubling_high_mul(
        _constant(1 / 20 * 2**0.25), saturating_rounding_doubling_high_mul(q, q)
    )
    return np.asarray(
        saturating_rounding_doubling_high_mul(mean, inner)
        + saturating_rounding_doubling_high_mul(_constant(1 / 4 * 2**0.25), q)
    )
