# SPDX-License-Identifier: Apache-2.0
"""Quantized normalizations along the last axis, in the fixed-point arithmetic of LiteRT's reference kernels.

LiteRT's optimized kernels compute SOFTMAX and LOG_SOFTMAX of 8 bits in float32.

Q0, Q5 and Q12 are 32-bit fixed-point numbers with 0, 5 and 12 integer bits, and 31, 26 and 19 fraction bits
(see ``numerics.fixed_point``).  A multiplier is a mantissa and a shift: mantissa / 2^31 * 2^shift.
Source: TFLite reference/softmax.h, log_softmax.h, l2normalization.h and their integer_ops.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    bit_length,
    clamp_to_dtype,
    exp_on_negative_values,
    get_inv_sqrt_quantized_multiplier,
    get_reciprocal,
    log_x_for_x_greater_than_or_equal_to_1,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    round_half_away,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from circlekit.ops.numerics.lookup_tables import interpolated, interpolation_table
from circlekit.ops.numerics.output_stage import follows_optimized_kernels
from circlekit.ops.quantized_values import dtype_limits, scale_of, zero_point_of

SOFTMAX_DTYPES = ((i8, i8), (i8, i16), (u8, u8), (u8, i16), (i16, i16))
"""The pairs of input and output dtypes for which LiteRT has a kernel of SOFTMAX."""

EQUAL_8_BITS = ((i8, i8), (u8, u8))
"""The pairs of dtypes for which LiteRT has kernels of LOG_SOFTMAX and L2_NORMALIZATION."""

INPUT_INTEGER_BITS = 5
"""The integer bits of scaled differences from the maximum: these are in Q5."""

SMALLEST_MULTIPLIER = 1 + 2.0**-23
"""The multiplier of differences for the smallest float32 scale with which LiteRT's reference kernels run.

They abort if this multiplier is 1 or less.
"""

SUM_INTEGER_BITS = 12
"""The integer bits of the sum of exponentials: it is in Q12."""


def require_dtypes(op: Op, data: Value, output: Value, pairs: tuple[tuple[DType, DType], ...]) -> None:
    """Raise UnsupportedError unless the dtypes of ``data`` and ``output`` are one of ``pairs``."""
    if (data.dtype, output.dtype) not in pairs:
        raise UnsupportedError(f"{op.code} from {data.dtype.short} to {output.dtype.short} has no kernel")


class ExpTable(NamedTuple):
    """Tables of exponentials; the index d = 0 to 255 is the distance of an 8-bit element from the maximum.

    ``scaled``: -d times the scale, in Q5.  ``exps``: the exponentials of these numbers, in Q0.  ``addends``:
    the same exponentials in Q12, so that they can be summed up.  ``multiplier``: converts -d to Q5.
    ``lowest``: the lowest -d whose exponential is not taken as 0.
    """

    scaled: Ints
    exps: Ints
    addends: Ints
    multiplier: QuantizedMultiplier
    lowest: int


@lru_cache(maxsize=64)  # the table costs more than the SOFTMAX of a few classes
def exp_table(scale: float) -> ExpTable:
    """Return the table for 8-bit data with ``scale`` (for SOFTMAX: the scale of the data times beta).

    LiteRT's reference kernels abort for scales of 2^-26 and less.  For these, return the table of the next
    larger float32 scale, in which all exponentials are 1 within 4e-6.
    """
    real = max(scale * 2.0 ** (31 - INPUT_INTEGER_BITS), SMALLEST_MULTIPLIER)
    multiplier = quantize_multiplier(min(real, 2.0**31 - 1))
    lowest = -(((1 << INPUT_INTEGER_BITS) - 1) << (31 - INPUT_INTEGER_BITS) >> int(multiplier.shift))
    differences = -np.arange(256)
    in_range = differences >= lowest
    scaled = multiply_by_quantized_multiplier(differences, multiplier)
    exps = np.where(in_range, exp_on_negative_values(np.where(in_range, scaled, 0), INPUT_INTEGER_BITS), 0)
    return ExpTable(scaled, exps, rounding_divide_by_pot(exps, SUM_INTEGER_BITS), multiplier, lowest)


def largest(x: Array) -> Array:
    """Return the largest element along the last axis, [..., 1]; the lowest number if the axis is empty."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return np.asarray(x.max(axis=-1, keepdims=True, initial=lowest))


def below_maximum(x: Array) -> Array:
    """Return the distance (int32, not negative) of each element from the maximum along the last axis."""
    return np.asarray(np.subtract(largest(x), x, dtype=np.int32))


# -- SOFTMAX -----------------------------------------------------------------------------------


def softmax_8_bits(x: Array, input: Value, output: Value, beta: float) -> Array:
    """Return SOFTMAX of ``x``, the int8 or uint8 elements of ``input``, in the dtype of ``output``.

    The scale of the result is 1 / 2^n for n bits of that dtype, and its lowest integer stands for 0.0.
    """
    if follows_optimized_kernels():
        return optimized_softmax(x, np.float32(beta) * scale_of(input), output)
    if beta < 0:  # LiteRT's reference kernel ends the process
        raise UnsupportedError(f"expected a beta of 0 or more for 8-bit data, got {beta:g}")
    table = exp_table(float(np.float32(beta)) * float(scale_of(input)))
    distance = below_maximum(x)
    total = table.addends[distance].sum(axis=-1, keepdims=True)
    inverse, shift = get_reciprocal(total)
    # total is in Q12: a result with b fraction bits is (exponential * inverse) >> (shift + 12 - b)
    shift = shift + SUM_INTEGER_BITS - output.dtype.bits
    product = saturating_rounding_doubling_high_mul(table.exps[distance], inverse)
    lowest, highest = dtype_limits(output.dtype)
    shifted = (product + ((np.int64(1) << shift) >> 1)) >> shift
    return np.asarray(np.clip(shifted + lowest, lowest, highest), output.dtype.numpy)


def softmax_16_bits(x: Array, input: Value, beta: float) -> Array:
    """Return SOFTMAX of ``x``, the int16 elements of ``input``, as int16 with the scale 2^-15.

    As in LiteRT, two functions are interpolated in tables of int16: exp(x) for x from -10 to 0, and
    1 / (1 + x) for x from 0 to 1.
    """
    step, unit = np.float64(1 / 65535), np.float64(2 / 65535)
    image = (unit * -32768, unit * 32767)  # in both tables, the range of int16 stands for about -1 to 1
    exp_table_16 = interpolation_table((np.float64(10 / 65535) * -65535, np.float64(0)), image, np.exp)
    one_over_one_plus_x = interpolation_table((np.float64(0), step * 65535), image, lambda x: 1 / (1 + x))
    # from the scale of the input to the index of the first table, which covers 10 with 65535 steps
    real = float(np.float32(scale_of(input) * np.float32(beta))) / (10.0 / 65535.0)
    scaled = multiply_by_quantized_multiplier(-below_maximum(x), quantize_multiplier(real)) + 32767
    powers = interpolated(np.clip(scaled, -32768, 32767).astype(np.int16), exp_table_16).astype(np.int64)
    total = powers.sum(axis=-1, keepdims=True)
    headroom = 32 - bit_length(total)
    # total is (1 + f) times a power of two: ``mantissa`` is 1 + f in units of 2^-16
    mantissa = ((total << (headroom - 1)) + (1 << 13)) >> 14
    # the index of f in the second table, which is -2^15 for f = 0
    fraction = np.clip(mantissa - ((1 << 15) + (1 << 16)), -32768, 32767).astype(np.int16)
    right_shift = 31 - headroom
    out = powers * interpolated(fraction, one_over_one_plus_x) + (np.int64(1) << (right_shift - 1))
    return np.asarray(np.clip(out >> right_shift, 0, 32767), np.int16)


def exponentials(x: Array, scale: np.float32) -> tuple[Array, Array]:
    """Return exp(-scale * d) for the distances d of 8-bit ``x`` from its maxima, and the sums, [..., 1].

    Both are float32, and the sums are added element by element, as in LiteRT's optimized kernels.
    """
    table = np.exp((-scale * np.arange(256, dtype=np.float32)).astype(np.float64)).astype(np.float32)
    powers = table[below_maximum(x)]
    return powers, np.cumsum(powers, axis=-1, dtype=np.float32)[..., -1:]


def optimized_softmax(x: Array, scale: np.float32, output: Value) -> Array:
    """Return SOFTMAX as LiteRT's optimized kernels compute it; ``scale``: that of ``x``, times beta."""
    powers, total = exponentials(x, scale)
    steps = powers * (1 / (total * scale_of(output)))
    # for uint8, LiteRT adds 1/2 in float32, where a sum just below a whole number may become this number
    rounded = np.trunc(steps + np.float32(0.5)) if output.dtype is u8 else round_half_away(steps)
    return clamp_to_dtype(rounded, output)


# -- LOG_SOFTMAX -------------------------------------------------------------------------------


def log_softmax_8_bits(x: Array, input: Value) -> Array:
    """Return LOG_SOFTMAX of ``x``, the int8 or uint8 elements of ``input``.

    The result has the scale 1/16, and its largest integer stands for 0.0.
    """
    if follows_optimized_kernels():
        return optimized_log_softmax(x, scale_of(input))
    table = exp_table(float(scale_of(input)))
    distance = below_maximum(x)
    total = table.addends[distance].sum(axis=-1, keepdims=True)
    log_sum = log_x_for_x_greater_than_or_equal_to_1(total, SUM_INTEGER_BITS, INPUT_INTEGER_BITS)
    mantissa, shift = table.multiplier
    inverse = quantize_multiplier(2.0 ** (31 - int(shift)) / float(mantissa))  # 1 / multiplier: Q5 to -d
    # where -d <= ``lowest``, the result is the lowest integer: the exponential counts as 0, or the logarithm
    # is -32 or less, which Q5 cannot hold
    lowest = np.maximum(table.lowest - 1, multiply_by_quantized_multiplier(log_sum - (1 << 31), inverse))
    low, high = dtype_limits(input.dtype)
    out = rounding_divide_by_pot(table.scaled[distance] - log_sum, 31 - INPUT_INTEGER_BITS - 4) + high
    return np.asarray(np.clip(np.where(-distance > lowest, out, low), low, high), x.dtype)


def optimized_log_softmax(x: Array, scale: np.float32) -> Array:
    """Return LOG_SOFTMAX as LiteRT's optimized kernels compute it; ``scale``: that of ``x``."""
    step = np.float32(1 / 16)
    _, total = exponentials(x, scale)
    logarithm = np.log(total.astype(np.float64)).astype(np.float32)
    offset = (scale * largest(x).astype(np.float32) + logarithm) / step
    rounded = np.rint(scale / step * x.astype(np.float32) - offset)
    low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    return np.asarray(np.clip(rounded + high, low, high), x.dtype)


# -- L2_NORMALIZATION --------------------------------------------------------------------------


def l2_normalization_8_bits(x: Array, input: Value) -> Array:
    """Return L2_NORMALIZATION of ``x``, the int8 or uint8 elements of ``input``.

    The result has the scale 1/128 and the zero point 0, or 128 for uint8.
    """
    centered = x.astype(np.int64) - zero_point_of(input)
    # x / norm in units of 1/128: for uint8, LiteRT multiplies x by 128; for int8, it adds 7 to the shift
    inverse = get_inv_sqrt_quantized_multiplier(np.square(centered).sum(axis=-1, keepdims=True))
    if input.dtype is u8:
        out = multiply_by_quantized_multiplier(128 * centered, inverse) + 128
    else:
        out = multiply_by_quantized_multiplier(centered, inverse._replace(shift=inverse.shift + 7))
    return np.asarray(np.clip(out, *dtype_limits(input.dtype)), x.dtype)
