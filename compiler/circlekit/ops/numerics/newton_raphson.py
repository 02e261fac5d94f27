# SPDX-License-Identifier: Apache-2.0
"""Reciprocals in fixed point, by Newton's iteration as gemmlowp and TFLite do it.

A number in Q(n) has n integer bits and 31 - n fraction bits.  Source: gemmlowp fixedpoint.h, TFLite
kernels/internal/common.h.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array
from circlekit.ops.common import clip
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    rounding_divide_by_pot,
    saturating_left_shift,
    saturating_rounding_doubling_high_mul,
)


def bit_length(x: Array) -> Ints:
    """How many bits each of ``x`` takes, which are 0 or positive and below 2^53."""
    return np.frexp(np.asarray(x, np.float64))[1].astype(np.int64)


def one_over_one_plus(x: Array) -> Ints:
    """1 / (1 + x) in Q0 of x in Q0, 0 <= x < 1."""
    left = np.array(x, np.int64)
    out: Ints = np.empty_like(left)
    note_one_over_one_plus(NOW, left, out)
    return out


def reciprocal(x: Array) -> tuple[Ints, Ints]:
    """(Q0, bits): 1 / x = Q0 * 2^-bits of integers x from 1 to 2^31 - 1."""
    whole = np.asarray(x, np.int64)
    out, bits = np.empty_like(whole), np.empty_like(whole)
    note_reciprocal(NOW, whole, out, bits)
    return out, bits


def reciprocal_of(x: int) -> tuple[int, int]:
    """``reciprocal`` of one number: Python is done with it before numpy has begun."""
    bits = 32 - x.bit_length()
    d = x << bits >> 1  # Q0, from 1/2 to 1
    guess = _high_mul(d, round(-32 / 17 * 2**29)) + round(48 / 17 * 2**29)
    for _ in range(3):
        missing = _high_mul(guess, (1 << 29) - _high_mul(d, guess))
        guess += min(max(missing << 2, INT32[0].item()), INT32[1].item())
    return min(guess << 1, INT32[1].item()), 31 - bits


def _high_mul(a: int, b: int) -> int:
    return (a * b + (1 << 30)) >> 31


def note_high_mul(tape: Tape, a: Array, b: Array | np.int64, out: Array) -> None:
    """``saturating_rounding_doubling_high_mul`` on a tape, of numbers that are not both -2^31."""
    tape.do(np.multiply, a, b, out)
    tape.do(np.add, out, HALF, out)
    tape.do(np.right_shift, out, HIGH, out)


def note_one_over_one_plus(tape: Tape, x: Array, out: Array) -> None:
    """``one_over_one_plus`` on a tape; ``x``, int64, is overwritten."""
    tape.do(np.add, x, np.int64(1 << 31), x)
    tape.do(np.right_shift, x, np.int64(1), x)  # Q0 of (1 + x) / 2
    # 48/17 - 32/17 * d is the best first guess of 1 / d, d from 1/2 to 1; Q2
    note_high_mul(tape, x, np.int64(round(-32 / 17 * 2**29)), out)
    tape.do(np.add, out, np.int64(round(48 / 17 * 2**29)), out)
    missing = tape.empty(x.shape, np.int64)
    for _ in range(3):
        note_high_mul(tape, x, out, missing)
        tape.do(np.subtract, np.int64(1 << 29), missing, missing)
        note_high_mul(tape, out, missing, missing)
        tape.do(np.left_shift, missing, np.int64(2), missing)
        tape.do(clip, missing, *INT32, missing)
        tape.do(np.add, out, missing, out)
    tape.do(np.left_shift, out, np.int64(1), out)  # Q2 of 2 / (1 + x) is Q1 of 1 / (1 + x)
    tape.do(clip, out, *INT32, out)


def note_reciprocal(tape: Tape, x: Array, out: Array, bits: Array) -> None:
    """``reciprocal`` of int64 numbers on a tape."""
    real, fraction = tape.empty(x.shape, np.float64), tape.empty(x.shape, np.int64)
    length = tape.empty(x.shape, np.int32)
    tape.copy(x, real)
    tape.do(np.frexp, real, real, length)
    tape.do(np.subtract, np.int64(32), length, bits)
    tape.do(np.left_shift, x, bits, fraction)
    tape.do(np.subtract, fraction, np.int64(1 << 31), fraction)
    note_one_over_one_plus(tape, fraction, out)
    tape.do(np.subtract, np.int64(31), bits, bits)


HALF, HIGH = np.int64(1 << 30), np.int64(31)
INT32 = np.int64(-(1 << 31)), np.int64((1 << 31) - 1)


def inverse_square_root(x: Array) -> QuantizedMultiplier:
    """1 / sqrt(x) of int32 numbers from 0; of 0 it is as of 1."""
    x = np.asarray(x, np.int64)
    excess = np.maximum((bit_length(x) - 28) // 2, 0)  # pairs of bits that are too many for 2^29
    small = np.maximum(x >> (2 * excess), 1)
    pairs = (31 - bit_length(small)) // 2 - 1
    q3 = (small << (2 * pairs)) >> 1
    half = rounding_divide_by_pot(q3, 1)
    guess = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = saturating_left_shift(
            saturating_rounding_doubling_high_mul(saturating_rounding_doubling_high_mul(guess, guess), guess),
            6,
        )
        change = saturating_rounding_doubling_high_mul(
            3 << 27, guess
        ) - saturating_rounding_doubling_high_mul(half, cube)
        guess = saturating_left_shift(change, 3)
    mantissa = saturating_rounding_doubling_high_mul(guess, round(0.5**0.5 * 2**31))
    shift = 11 + excess - pairs
    mantissa = np.where(shift < 0, mantissa << np.maximum(-shift, 0), mantissa)
    return QuantizedMultiplier(
        np.where(x <= 1, (1 << 31) - 1, mantissa), np.where(x <= 1, 0, -np.maximum(shift, 0))
    )
