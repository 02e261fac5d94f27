# SPDX-License-Identifier: Apache-2.0
"""TFLite's fixed-point arithmetic, exact, on whole arrays.

A real multiplier is an int32 mantissa with 31 fraction bits and a power of two: mantissa / 2^31 * 2^shift.
LiteRT rounds twice: after the product with the mantissa (halves up), and after the right shift (halves away
from zero in the reference kernels, halves up in the optimized ones).  Functions take any integer arrays and
return int64, which holds every intermediate result.

Source: TFLite kernels/internal/common.h and quantization_util.cc, gemmlowp fixedpoint.h.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from circlekit.ir.enums import Activation
from circlekit.ir.value import Array, Value
from circlekit.ops.fused_activation import ACTIVATION_BOUNDS
from circlekit.ops.quantization import dtype_limits, scale_of, zero_point_of

Ints = NDArray[np.int64]


class QuantizedMultiplier(NamedTuple):
    """Real factors ``mantissa`` / 2^31 * 2^``shift``; mantissas are 0, or 2^30 to 2^31 - 1.

    Both are int64: rank 0 for one factor, rank 1 for one factor per channel (the last axis).
    """

    mantissa: Ints
    shift: Ints


def quantize_multiplier(real: ArrayLike) -> QuantizedMultiplier:
    """Return the factors nearest to ``real`` (float64, not negative); 0 below 2^-32."""
    fraction, exponent = np.frexp(np.asarray(real, np.float64))
    mantissa = round_half_away(fraction * 2.0**31).astype(np.int64)
    shift = exponent.astype(np.int64)
    carried = mantissa == 1 << 31
    mantissa = np.where(carried, 1 << 30, mantissa)
    shift = np.where(carried, shift + 1, shift)
    underflow = (mantissa == 0) | (shift < -31)
    return QuantizedMultiplier(np.where(underflow, 0, mantissa), np.where(underflow, 0, shift))


# -- rounding and saturation -------------------------------------------------------------------


def round_half_away(x: Array) -> Array:
    """Round floats to whole numbers, halves away from zero (C's ``round``), in the dtype of ``x``."""
    whole = np.trunc(x)
    return np.asarray(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0), x.dtype)


def wrap_int32(x: Array) -> Ints:
    """Return integers modulo 2^32 in the range of int32."""
    return np.asarray(x, np.int64).astype(np.int32).astype(np.int64)


def saturating_rounding_doubling_high_mul(a: ArrayLike, b: ArrayLike, bits: int = 32) -> Ints:
    """Return round(a * b / 2^(bits - 1)), halves up, saturated for the product of two least numbers.

    The product of two Q0 numbers of ``bits`` bits (16 or 32) in Q0.
    """
    out: Ints = np.multiply(np.asarray(a, np.int64), np.asarray(b, np.int64))
    out += 1 << (bits - 2)
    out >>= bits - 1
    return np.minimum(out, (1 << (bits - 1)) - 1)


def rounding_divide_by_pot(x: ArrayLike, exponent: ArrayLike) -> Ints:
    """Return round(x / 2^exponent), halves away from zero."""
    x, exponent = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    below_zero = (x >> 63) & np.where(exponent > 0, -1, 0)  # -1 for negative numbers
    return np.asarray((x + half + below_zero) >> exponent)


def saturating_left_shift(x: ArrayLike, exponent: ArrayLike, bits: int = 32) -> Ints:
    """Return x * 2^exponent, saturated to signed integers of ``bits`` bits."""
    limit = 1 << (bits - 1)
    wide = np.asarray(x, np.int64) << np.asarray(exponent, np.int64)
    return np.asarray(np.clip(wide, -limit, limit - 1))


# -- multiplication ----------------------------------------------------------------------------


def multiply_by_quantized_multiplier(x: Array, by: QuantizedMultiplier) -> Ints:
    """Return int32 numbers ``x`` times ``by``, rounded twice as in LiteRT's reference kernels."""
    out, right = _product_before_right_shift(x, by), np.maximum(-by.shift, 0)
    return rounding_divide_by_pot(out, right) if right.any() else out


def multiply_by_quantized_multiplier_half_up(x: Array, by: QuantizedMultiplier) -> Ints:
    """Return int32 numbers ``x`` times ``by``, rounded twice, halves up, as in LiteRT's optimized kernels."""
    out, right = _product_before_right_shift(x, by), np.maximum(-by.shift, 0)
    return np.asarray((out + ((np.int64(1) << right) >> 1)) >> right)


def _product_before_right_shift(x: Array, by: QuantizedMultiplier) -> Ints:
    """Return round(x * 2^max(shift, 0) * mantissa / 2^31), halves up."""
    x, left = np.asarray(x, np.int64), np.maximum(by.shift, 0)
    return saturating_rounding_doubling_high_mul(wrap_int32(x << left) if left.any() else x, by.mantissa)


def multiply_by_quantized_multiplier_int64(x: Array, by: QuantizedMultiplier) -> Ints:
    """Return int64 accumulators of 16x8-bit kernels times ``by``.

    The mantissa is reduced to 15 bits, the product rounded once, halves up.  As in LiteRT, the product wraps
    modulo 2^64 and the result modulo 2^32 where |x| is 2^48 or more.
    """
    mantissa = np.where(by.mantissa < 0x7FFF0000, (by.mantissa + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - by.shift
    out = np.asarray(x, np.int64) * mantissa
    out += np.int64(1) << (total - 1)
    out >>= total
    return wrap_int32(out)


def requantize(
    x: Array, by: QuantizedMultiplier, zero_point: int, limits: tuple[int, int], dtype: np.dtype[Any]
) -> Array:
    """Return int32 numbers ``x`` times ``by`` plus ``zero_point``, clamped to ``limits``, as ``dtype``."""
    return np.clip(multiply_by_quantized_multiplier(x, by) + zero_point, *limits).astype(dtype)


# -- ranges ------------------------------------------------------------------------------------


def quantized_activation_range(act: Activation, output: Value) -> tuple[int, int]:
    """Return the smallest and the largest integer of ``output`` that the activation ``act`` allows.

    Activations without bounds (TANH) do not limit it, as in TFLite's CalculateActivationRangeQuantized.
    """
    least, most = dtype_limits(output.dtype)
    low, high = ACTIVATION_BOUNDS.get(act, (None, None))
    if low is None and high is None:
        return least, most
    scale, zero = scale_of(output), zero_point_of(output)

    def quantized(real: float) -> int:
        steps = float(np.float32(real) / scale)
        return zero + int(math.copysign(math.floor(abs(steps) + 0.5), steps))

    return (
        least if low is None else max(least, quantized(low)),
        most if high is None else min(most, quantized(high)),
    )


def clamp_to_dtype(x: Array, output: Value) -> Array:
    """Return whole numbers ``x`` plus the zero point of ``output``, clamped and cast to its dtype."""
    return np.asarray(np.clip(x + zero_point_of(output), *dtype_limits(output.dtype)), output.dtype.numpy)
