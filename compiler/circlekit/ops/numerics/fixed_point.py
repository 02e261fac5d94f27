# SPDX-License-Identifier: Apache-2.0
"""TFLite's fixed-point arithmetic, exact, on whole arrays.

A real multiplier is an int32 mantissa of 31 fraction bits and a power of two: mantissa / 2^31 * 2^shift.
LiteRT rounds twice: after the product with the mantissa (halves up), and after the shift (halves away
from zero, or up in its optimized kernels).  Source: TFLite kernels/internal/common.h, quantization_util.cc.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from circlekit.ir.enums import Activation
from circlekit.ir.value import Array, Value
from circlekit.ops.quantization import dtype_limits, scale_of, zero_point_of

Ints = NDArray[np.int64]

BLOCK = 1 << 15
"""Elements that are rescaled at a time: their int64 scratch stays in the cache."""


class QuantizedMultiplier(NamedTuple):
    """Fixed-point numbers: ``mantissa`` (0, or 2^30 to 2^31 - 1) / 2^31 * 2^``shift``; both int64.

    Scalars (rank 0) per tensor, rank 1 per channel; they broadcast against the last axis.
    """

    mantissa: Ints
    shift: Ints


def quantize_multiplier(real: ArrayLike) -> QuantizedMultiplier:
    """The fixed-point number nearest to each of ``real`` (float64, not negative); below 2^-32 it is 0."""
    fraction, exponent = np.frexp(np.asarray(real, np.float64))
    mantissa = round_half_away(fraction * 2.0**31).astype(np.int64)
    shift = exponent.astype(np.int64)
    carried = mantissa == 1 << 31
    mantissa = np.where(carried, 1 << 30, mantissa)
    shift = np.where(carried, shift + 1, shift)
    tiny = (mantissa == 0) | (shift < -31)
    return QuantizedMultiplier(np.where(tiny, 0, mantissa), np.where(tiny, 0, shift))


def round_half_away(x: Array) -> Array:
    """The nearest whole number, halves away from zero (C's round), in the float type of ``x``."""
    whole = np.trunc(x)
    return np.asarray(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0), x.dtype)


# -- one step ----------------------------------------------------------------------------------


def wrap_int32(x: Array) -> Ints:
    """int64 numbers as int32 arithmetic would leave them: modulo 2^32."""
    return np.asarray(x, np.int64).astype(np.int32).astype(np.int64)


def saturating_rounding_doubling_high_mul(a: ArrayLike, b: ArrayLike) -> Ints:
    """round(a * b / 2^31) of int32 numbers (as int64), halves up, saturated for -2^31 * -2^31."""
    out: Ints = np.multiply(np.asarray(a, np.int64), np.asarray(b, np.int64))
    out += 1 << 30
    out >>= 31
    return np.minimum(out, (1 << 31) - 1)


def rounding_divide_by_pot(x: ArrayLike, exponent: ArrayLike) -> Ints:
    """round(x / 2^exponent), halves away from zero."""
    x, exponent = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    nudge = half - ((x < 0) & (exponent > 0))
    return np.asarray((x + nudge) >> exponent)


def saturating_left_shift(x: ArrayLike, exponent: ArrayLike, bits: int = 32) -> Ints:
    """Numbers times 2^exponent, limited to signed integers of ``bits``."""
    limit = 1 << (bits - 1)
    wide = np.asarray(x, np.int64) << np.asarray(exponent, np.int64)
    return np.asarray(np.clip(wide, -limit, limit - 1))


# -- rescaling ---------------------------------------------------------------------------------


def multiply_by_quantized_multiplier(x: Array, by: QuantizedMultiplier) -> Ints:
    """int32 numbers times ``by``, rounded twice: what LiteRT's kernels do with int32 accumulators."""
    left, right = np.maximum(by.shift, 0), np.maximum(-by.shift, 0)
    out = np.asarray(x, np.int64)
    if left.any():
        out = wrap_int32(out << left)
    out = np.asarray(out * by.mantissa)
    out += 1 << 30
    out >>= 31
    if right.all():
        sign = out >> 63
        out += (np.int64(1) << right) >> 1
        out += sign
        out >>= right
    elif right.any():
        out = rounding_divide_by_pot(out, right)
    return out


def multiply_by_quantized_multiplier_half_up(x: Array, by: QuantizedMultiplier) -> Ints:
    """int32 numbers times ``by``, rounded twice, halves up both times: what LiteRT's optimized kernels do."""
    left, right = np.maximum(by.shift, 0), np.maximum(-by.shift, 0)
    out = saturating_rounding_doubling_high_mul(wrap_int32(np.asarray(x, np.int64) << left), by.mantissa)
    return np.asarray((out + ((np.int64(1) << right) >> 1)) >> right)


def multiply_by_quantized_multiplier_int64(x: Array, by: QuantizedMultiplier) -> Ints:
    """int64 accumulators times ``by``, as in 16x8 kernels: a mantissa of 15 bits, rounded once, halves up.

    The product wraps modulo 2^64, the result modulo 2^32, where |x| is 2^48 or more.
    """
    mantissa = np.where(by.mantissa < 0x7FFF0000, (by.mantissa + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - by.shift
    out = np.asarray(x, np.int64) * mantissa
    out += np.int64(1) << (total - 1)
    out >>= total
    return wrap_int32(out)


def requantize(
    accumulators: Array,
    by: QuantizedMultiplier,
    zero_point: int,
    limits: tuple[int, int],
    dtype: np.dtype[Any],
) -> Array:
    """The end of a quantized kernel: (accumulators * by + zero_point), limited, as ``dtype``.

    ``accumulators``: int32, or whole float64 numbers, for the twice-rounded form; int64 for the wide form
    of the 16x8 kernels.  ``by`` is per tensor, or per channel along the last axis.
    """
    scale = (
        multiply_by_quantized_multiplier_int64
        if accumulators.dtype == np.int64
        else multiply_by_quantized_multiplier
    )
    depth = accumulators.shape[-1] if accumulators.ndim else 1
    rows = np.ascontiguousarray(accumulators).reshape(-1, max(depth, 1))
    out = np.empty(rows.shape, dtype)
    step = max(1, BLOCK // max(depth, 1))
    for start in range(0, rows.shape[0], step):
        scaled = scale(rows[start : start + step], by)
        scaled += zero_point
        np.clip(scaled, *limits, out=scaled)
        out[start : start + step] = scaled
    return out.reshape(accumulators.shape)


# -- ranges ------------------------------------------------------------------------------------


_BOUNDS: dict[Activation, tuple[float | None, float | None]] = {
    Activation.RELU: (0.0, None),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def quantized_activation_range(act: Activation, output: Value) -> tuple[int, int]:
    """The integers between which ``act`` keeps a result quantized as ``output``.

    An activation without bounds (TANH) limits nothing here, as in TFLite.
    """
    least, most = dtype_limits(output.dtype)
    low, high = _BOUNDS.get(act, (None, None))
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
