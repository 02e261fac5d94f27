# SPDX-License-Identifier: Apache-2.0
"""Float functions that numpy lacks or rounds in another way than LiteRT, and rounding to bfloat16."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from circlekit.ir.dtypes import bf16
from circlekit.ir.value import Array, Value


def round_to_bfloat16(x: Array) -> Array:
    """Return float32 numbers rounded to the nearest bfloat16, ties to even; NaN becomes a quiet NaN."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    with np.errstate(over="ignore"):  # only for NaN, which is replaced; numpy reports it for scalars
        rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)
    quiet = np.uint32(0x7FC00000) | (bits & np.uint32(0x80000000))
    return np.asarray(np.where(np.isnan(x), quiet, rounded), np.uint32).view(np.float32)


def rounded_for(array: Array, value: Value) -> Array:
    """Return ``array``, rounded to bfloat16 if that is the dtype of ``value``."""
    return round_to_bfloat16(array) if value.dtype is bf16 else np.asarray(array)


Floats = NDArray[np.float32]

HALF, ONE, TWO = map(np.float32, (0.5, 1, 2))


def _polynomial(x: Floats, coefficients: tuple[np.float32, ...]) -> Floats:
    """Return the polynomial of ``x`` by Horner's scheme.  ``coefficients``: the highest power first."""
    out = np.broadcast_to(coefficients[0], x.shape)
    for coefficient in coefficients[1:]:
        out = out * x + coefficient
    return out


# -- the error function ------------------------------------------------------------------------


def erf(x: Array) -> NDArray[np.float64]:
    """Return the error function of ``x`` in float64, computed by Python's standard library."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def erfc(x: Array) -> NDArray[np.float64]:
    """Return 1 - erf(x) in float64, computed by Python's standard library."""
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x))


@cache
def _tail_polynomial() -> tuple[np.float32, ...]:
    """Return the coefficients of a polynomial in u that approximates e^(z^2) erfc(z) / 2.

    u = 2 / (1 + z/2) - 1 maps z >= 0 to -1 < u <= 1, where the function is smooth: 11 terms give the
    precision of float32.  The highest power comes first.
    """

    def scaled_erfc(u: float) -> float:
        z = 4 / (u + 1) - 2
        if z < 20:
            return math.exp(z * z) * math.erfc(z)
        # e^(z^2) would overflow for large z: use the asymptotic series of the product
        return (1 - 0.5 / z**2 + 0.75 / z**4) / (z * math.sqrt(math.pi))

    on_arrays: Any = np.vectorize(scaled_erfc)
    powers = chebyshev.cheb2poly(chebyshev.chebinterpolate(on_arrays, 10)) / 2
    return tuple(np.float32(p) for p in powers[::-1])


def normal_cdf(x: Floats) -> Floats:
    """Return P(X <= x), where X has the standard normal distribution, computed in float32."""
    u = TWO / (np.abs(x) * np.float32(0.5**0.5 / 2) + ONE) - ONE  # z = |x| / sqrt(2)
    tail = _polynomial(u, _tail_polynomial()) * np.exp(x * x * np.float32(-0.5))
    return np.asarray(np.where(x > 0, ONE - tail, tail), np.float32)


# -- hyperbolic tangent ------------------------------------------------------------------------

_EIGEN_LIMIT = np.float32(7.90738964)
"""Eigen clamps x to this magnitude, at which its quotient of polynomials is nearest to 1."""
_EIGEN_NUMERATOR = tuple(map(np.float32, (1.39455363e-8, 2.10273356e-5, 3.52075673e-3, 1.34021610e-1)))
_EIGEN_DENOMINATOR = tuple(map(np.float32, (8.01577698e-7, 3.32695141e-4, 2.59725451e-2, 4.67354834e-1, 1)))
"""tanh(x) is x * P(x^2) / Q(x^2).  These are the coefficients of P and Q, the highest power first.

P ends in one more coefficient, 1, which is left out: ``eigen_tanh_plus_one`` adds x instead.
"""


def eigen_tanh_plus_one(x: Floats) -> Floats:
    """Return 1 + tanh(x), bit for bit as LiteRT's GELU computes it with Eigen's float tanh.

    If x is far below 0, the result is mostly the rounding error of tanh.  So the same polynomials must be
    evaluated in the same order.  Source: Eigen's generic_fast_tanh_float (x86, no fused multiply-add).
    """
    x = np.clip(x, -_EIGEN_LIMIT, _EIGEN_LIMIT)
    square = x * x
    odd = _polynomial(square, _EIGEN_NUMERATOR) * (square * x) + x
    return np.asarray(odd / _polynomial(square, _EIGEN_DENOMINATOR) + ONE)


_LN2 = (np.float32(float.fromhex("0x1.62e3p-1")), np.float32(float.fromhex("0x1.2fefa2p-17")))
"""ln 2 as the sum of two numbers.  The first ends in zero bits: its product with a small k is exact."""

_EXPM1_SERIES = tuple(
    map(
        np.float32,
        (-2.0109921195e-7, 4.0082177293e-6, -7.9365076090e-5, 1.5873016091e-3, -3.3333335072e-2, 1.0),
    )
)
"""The polynomial in fdlibm's e^x - 1, the highest power first."""


def fdlibm_tanh(x: Floats) -> Floats:
    """Return tanh(x), bit for bit as in C libraries that are derived from fdlibm (glibc up to 2.40).

    LiteRT calls the C library.  Where LiteRT truncates the results to integers, the last bit matters.
    Source: fdlibm s_tanhf.c, which uses e^x - 1.
    """
    magnitude = np.minimum(np.abs(x), np.float32(22))
    large = magnitude >= 1
    power = _fdlibm_expm1(np.where(large, TWO, -TWO) * magnitude)
    out = np.where(large, ONE - TWO / (power + TWO), -power / (power + TWO))
    return np.asarray(np.copysign(out, x), np.float32)


def _fdlibm_expm1(x: Floats) -> Floats:
    """Return e^x - 1 for -2 < x <= 0 and for 2 <= x <= 44: the arguments of ``fdlibm_tanh``.

    x is k * ln 2 + remainder + lost, where k is a whole number near x / ln 2, and ``lost`` is what rounding
    removed from the remainder.  The operations and their order are those of fdlibm.
    """
    k = np.trunc(x * np.float32(1 / np.log(2)) + np.copysign(HALF, x))
    k = np.where(np.abs(x) < np.float32(1.5 * np.log(2)), np.sign(x), k)
    k = np.where(np.abs(x) > np.float32(0.5 * np.log(2)), k, np.float32(0))
    high, low = x - k * _LN2[0], k * _LN2[1]
    remainder = high - low
    lost = (high - remainder) - low
    square = remainder * (HALF * remainder)
    series = _polynomial(square, _EXPM1_SERIES)
    t = np.float32(3) - series * (HALF * remainder)
    error = square * ((series - t) / (np.float32(6) - remainder * t))
    near = remainder - (remainder * error - square)
    error = (remainder * (error - lost) - lost) - square
    return np.where(k == 0, near, _fdlibm_scaled(k, remainder, error))


def _fdlibm_scaled(k: Floats, remainder: Floats, error: Floats) -> Floats:
    """Return 2^k * (1 + remainder - error) - 1 with the operations in the order of fdlibm.

    ``k``: -3 to -1, or 3 and more; the arguments of ``_fdlibm_expm1`` give no other k but 0.  The result for
    k = 0 is not used.  The four expressions are equal but for rounding; each is for another range of k.
    """
    whole = k.astype(np.int32)
    inverse = np.ldexp(ONE, -whole)  # 2^-k
    far = np.ldexp(ONE - (error - remainder), whole) - ONE  # for k < -1 or k > 56
    small = np.ldexp((ONE - inverse) - (error - remainder), whole)  # for 0 < k < 23
    great = np.ldexp((remainder - (error + inverse)) + ONE, whole)  # for 23 <= k <= 56
    minus_one = HALF * (remainder - error) - HALF  # for k = -1
    cases = [k == -1, (k < 0) | (k > 56), k < 23]  # the first case that is true counts
    return np.asarray(np.select(cases, [minus_one, far, small], great), np.float32)
