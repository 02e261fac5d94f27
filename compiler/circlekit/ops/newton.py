# SPDX-License-Identifier: Apache-2.0
"""Reciprocals in fixed point, by Newton's iteration as gemmlowp and TFLite do it.

A number in Q(n) has n integer bits and 31 - n fraction bits.  Source: gemmlowp fixedpoint.h, TFLite
kernels/internal/common.h.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.fixed_point import (
    Ints,
    Multiplier,
    doubling_high_mul,
    rounding_divide_by_pot,
    saturating_shift_left,
)


def bit_length(x: Array) -> Ints:
    """How many bits each of ``x`` takes, which are 0 or positive and below 2^53."""
    return np.frexp(np.asarray(x, np.float64))[1].astype(np.int64)


def one_over_one_plus(x: Array) -> Ints:
    """1 / (1 + x) in Q0 of x in Q0, 0 <= x < 1."""
    half_denominator = (np.asarray(x, np.int64) + ((1 << 31) - 1) + 1) >> 1  # Q0 of (1 + x) / 2
    # 48/17 - 32/17 * d is the best first guess of 1 / d, d from 1/2 to 1; Q2
    guess = round(48 / 17 * 2**29) + doubling_high_mul(half_denominator, round(-32 / 17 * 2**29))
    for _ in range(3):
        missing = (1 << 29) - doubling_high_mul(half_denominator, guess)
        guess = guess + saturating_shift_left(doubling_high_mul(guess, missing), 2)
    return saturating_shift_left(guess, 1)  # Q2 of 2 / (1 + x) is Q1 of 1 / (1 + x)


def reciprocal(x: Array) -> tuple[Ints, Ints]:
    """(Q0, bits): 1 / x = Q0 * 2^-bits of integers x from 1 to 2^31 - 1."""
    headroom = 32 - bit_length(x)
    fraction = (np.asarray(x, np.int64) << headroom) - (1 << 31)
    return one_over_one_plus(fraction), 31 - headroom


def inverse_square_root(x: Array) -> Multiplier:
    """1 / sqrt(x) of int32 numbers from 0; of 0 it is as of 1."""
    x = np.asarray(x, np.int64)
    excess = np.maximum((bit_length(x) - 28) // 2, 0)  # pairs of bits that are too many for 2^29
    small = np.maximum(x >> (2 * excess), 1)
    pairs = (31 - bit_length(small)) // 2 - 1
    q3 = (small << (2 * pairs)) >> 1
    half = rounding_divide_by_pot(q3, 1)
    guess = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = saturating_shift_left(doubling_high_mul(doubling_high_mul(guess, guess), guess), 6)
        change = doubling_high_mul(3 << 27, guess) - doubling_high_mul(half, cube)
        guess = saturating_shift_left(change, 3)
    mantissa = doubling_high_mul(guess, round(0.5**0.5 * 2**31))
    shift = 11 + excess - pairs
    mantissa = np.where(shift < 0, mantissa << np.maximum(-shift, 0), mantissa)
    return Multiplier(np.where(x <= 1, (1 << 31) - 1, mantissa), np.where(x <= 1, 0, -np.maximum(shift, 0)))
