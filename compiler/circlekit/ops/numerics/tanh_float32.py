# SPDX-License-Identifier: Apache-2.0
"""The tangent of float32 numbers to the last bit as C libraries of the family of fdlibm have it.

LiteRT takes it from the C library; where it cuts results off to integers, the last bit counts.  glibc had
this one up to 2.40, and rounds correctly from 2.41 on: one in a thousand numbers cut off to 15 bits differs.
Source: the published method of fdlibm, tanh by way of e^x - 1, which has a rational approximation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

LN2 = (np.float32(float.fromhex("0x1.62e3p-1")), np.float32(float.fromhex("0x1.2fefa2p-17")))
"""ln 2 in two parts, the first with zeros at its end: its small multiples are exact."""

SERIES = tuple(map(np.float32, (1.0, -3.3333335072e-2, 1.5873016091e-3, -7.9365076090e-5, 4.0082177293e-6)))
LAST = np.float32(-2.0109921195e-7)
HALF, ONE, TWO = map(np.float32, (0.5, 1, 2))


def tanh_32(x: Floats) -> Floats:
    """For |x| up to 22, and for what tends to 1 beyond."""
    size = np.minimum(np.abs(x), np.float32(22))
    large = size >= 1
    power = _exp_minus_one(np.where(large, TWO, -TWO) * size)
    out = np.where(large, ONE - TWO / (power + TWO), -power / (power + TWO))
    return np.asarray(np.copysign(out, x), np.float32)


def _exp_minus_one(x: Floats) -> Floats:
    """e^x - 1 for -2 < x <= 44: x = k ln 2 + rest, and the error ``lost`` that the rest has."""
    k = np.trunc(x * np.float32(1 / np.log(2)) + np.copysign(HALF, x))
    k = np.where(np.abs(x) < np.float32(1.5 * np.log(2)), np.sign(x), k)
    k = np.where(np.abs(x) > np.float32(0.5 * np.log(2)), k, np.float32(0))
    high, low = x - k * LN2[0], k * LN2[1]
    rest = high - low
    lost = (high - rest) - low
    square = rest * (HALF * rest)
    series = np.broadcast_to(LAST, x.shape)
    for factor in reversed(SERIES):
        series = factor + square * series
    t = np.float32(3) - series * (HALF * rest)
    error = square * ((series - t) / (np.float32(6) - rest * t))
    near = rest - (rest * error - square)
    error = (rest * (error - lost) - lost) - square
    return np.where(k == 0, near, _scaled(k, rest, error))


def _scaled(k: Floats, rest: Floats, error: Floats) -> Floats:
    """2^k * (1 + rest - error) - 1, k not 0, in the order that keeps most of it."""
    whole = k.astype(np.int32)
    below = np.ldexp(ONE, -whole)
    far = np.ldexp(ONE - (error - rest), whole) - ONE
    middle = np.ldexp((ONE - below) - (error - rest), whole)
    great = np.ldexp((rest - (error + below)) + ONE, whole)
    minus = HALF * (rest - error) - HALF
    plus = np.where(rest < np.float32(-0.25), -TWO * (error - (rest + HALF)), ONE + TWO * (rest - error))
    cases = [k == -1, k == 1, (k <= -2) | (k > 56), k < 23]
    return np.asarray(np.select(cases, [minus, plus, far, middle], great), np.float32)
