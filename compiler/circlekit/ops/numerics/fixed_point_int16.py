# SPDX-License-Identifier: Apache-2.0
"""Logistic and hyperbolic tangent of 16-bit fixed-point numbers, as gemmlowp computes them.

A number in Q(n) has n integer bits and 15 - n fraction bits.  Source: gemmlowp fixedpoint.h.
"""

from __future__ import annotations

import math

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.numerics.fixed_point import Ints, rounding_divide_by_pot, saturating_left_shift

ONE = (1 << 15) - 1
"""1 in Q0, as near as it comes."""


def logistic(x: Array, integer_bits: int) -> Ints:
    """1 / (1 + e^-x) in Q0 of ``x`` in Q(``integer_bits``)."""
    x = np.asarray(x, np.int64)
    positive = _one_over_one_plus(_exp_of_negative(-np.abs(x), integer_bits))
    out = np.where(x > 0, positive, ONE - positive)
    return np.asarray(np.where(x == 0, 1 << 14, out), np.int64)


def tanh(x: Array, integer_bits: int) -> Ints:
    """The hyperbolic tangent in Q0 of ``x`` in Q(``integer_bits``)."""
    x = np.asarray(x, np.int64)
    power = _exp_of_negative(-np.abs(x), integer_bits + 1)
    out = saturating_left_shift(_reciprocal_of_half(power) - (1 << 13), 2, 16)
    return np.asarray(np.where(x == 0, 0, np.where(x < 0, -out, out)), np.int64)


def product(a: Array, b: Array | int) -> Ints:
    """round(a * b / 2^15), halves up, saturated for -2^15 * -2^15."""
    return np.asarray(np.minimum((np.asarray(a, np.int64) * b + (1 << 14)) >> 15, ONE))


def _constant(real: float, integer_bits: int = 0) -> int:
    """A positive or negative number in Q(n), rounded from its 32-bit form (halves away from zero)."""
    wide = math.floor(abs(real) * 2.0 ** (31 - integer_bits) + 0.5)
    return int(math.copysign((wide + (1 << 15)) >> 16, real))


def _exp_of_negative(x: Array, integer_bits: int) -> Ints:
    """e^x in Q0 of ``x`` <= 0: a polynomial on the last quarter, times e^-2^k for each bit k above it."""
    fraction_bits = 15 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    rest = (x & (quarter - 1)) - quarter
    out = _exp_near_eighth(saturating_left_shift(rest, integer_bits, 16))
    above = rest - x
    for exponent in range(-2, integer_bits):
        factor = _constant(math.exp(-(2.0**exponent)))
        out = np.where(above & (1 << (fraction_bits + exponent)), product(out, factor), out)
    if integer_bits > 5:
        out = np.where(x < -(32 << fraction_bits), 0, out)
    return np.where(x == 0, ONE, out)


def _exp_near_eighth(x: Array) -> Ints:
    """e^x in Q0 for -1/4 <= x < 0, by Taylor's series around -1/8."""
    middle, third = _constant(math.exp(-1 / 8)), _constant(1 / 3)
    y = x + (1 << 12)
    square = product(y, y)
    cube, fourth = product(square, y), product(square, square)
    tail = product(rounding_divide_by_pot(fourth, 2) + cube, third) + square
    out: Ints = middle + product(y + rounding_divide_by_pot(tail, 1), middle)
    return np.clip(out, -ONE - 1, ONE)


def _reciprocal_of_half(x: Array) -> Ints:
    """1 / ((1 + x) / 2) in Q2 of x in Q0, 0 <= x < 1, by Newton's iteration."""
    half = (np.asarray(x, np.int64) + ONE + 1) >> 1
    guess = _constant(48 / 17, 2) + product(half, _constant(-32 / 17, 2))
    for _ in range(3):
        missing = (1 << 13) - product(half, guess)
        guess = guess + saturating_left_shift(product(guess, missing), 2, 16)
    return guess


def _one_over_one_plus(x: Array) -> Ints:
    """1 / (1 + x) in Q0 of x in Q0, 0 <= x < 1."""
    return saturating_left_shift(_reciprocal_of_half(x), 1, 16)
