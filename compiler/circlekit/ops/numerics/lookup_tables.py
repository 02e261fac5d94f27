# SPDX-License-Identifier: Apache-2.0
"""Functions of quantized integers: 8-bit results are computed one by one, 16-bit results from lookup tables.

The exceptions are some scales of LOGISTIC and TANH with LiteRT's optimized kernels: see ``logistic_int16``.
LiteRT uses a table of 256 entries for 8 bits, too; its entries are the numbers that are computed here.
Source: TFLite kernels/internal/common.h (LUTPopulate, LUTLookup), reference/integer_ops/logistic.h and
tanh.h (the sigmoid table), activations.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import i16
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import Ints, centered, logistic, round_half_away, tanh, wrap_int32
from circlekit.ops.numerics.output_stage import follows_optimized_kernels
from circlekit.ops.quantized_values import dtype_limits, is_quantized, scale_of, zero_point_of

Function = Callable[[Array], Array]
Interval = tuple[np.floating[Any], np.floating[Any]]  # the lowest and the highest number

# -- tables of real functions ------------------------------------------------------------------


def real_function(x: Array, input: Value, output: Value, transform: Function) -> Array:
    """Return ``transform`` of ``x``, the elements of ``input``, quantized as ``output``.

    ``transform`` maps float32 numbers to float32 numbers.  An 8-bit result is computed directly; a 16-bit
    result is interpolated in a table.
    """
    if x.dtype.itemsize == 1:
        inverse_scale = np.float32(1) / scale_of(output)
        real = scale_of(input) * centered(x, input).astype(np.float32)
        rounded = round_half_away(transform(real) * inverse_scale) + np.float32(zero_point_of(output))
        if x.dtype == np.uint8:
            # LiteRT on x86: numbers of 2^31 and more become 0 in a table of uint8; in int8 they saturate
            rounded = np.where(rounded < 2.0**31, rounded, 0)
        return np.asarray(np.clip(rounded, *dtype_limits(output.dtype)), output.dtype.numpy)

    def dequantized(value: Value, stored: int) -> Any:
        return scale_of(value) * np.float32(stored - zero_point_of(value))

    domain, image = ((dequantized(v, -(1 << 15)), dequantized(v, (1 << 15) - 1)) for v in (input, output))
    return interpolated(x, interpolation_table(domain, image, transform))


def interpolation_table(domain: Interval, image: Interval, transform: Function) -> Array:
    """Return the table int16[513] of ``transform`` at equal steps of ``domain``.

    The entries are scaled so that the range of int16 stands for ``image``.  An interpolation has its largest
    error in the middle of a step.  Half of this error is subtracted from the entry where the step begins,
    which about halves the largest error.  The computation uses the float type of ``domain``.  NaN becomes 0.
    """
    real = type(domain[0])
    lowest, highest = domain
    step = (highest - lowest) / real(512)
    inverse_scale = real(1 << 16) / (image[1] - image[0])
    index = np.arange(513, dtype=real)
    values, middle = transform(lowest + index * step), transform(lowest + index[:512] * step + step / real(2))
    entries = round_half_away(values * inverse_scale)
    interpolated_middle = round_half_away((values[1:] * inverse_scale + entries[:512]) / real(2))
    bias = round_half_away((interpolated_middle - round_half_away(middle * inverse_scale)) / real(2))
    last = round_half_away(transform(np.array([highest])) * inverse_scale)
    table = np.clip(np.concatenate([entries[:512] - bias, last]), real(-(1 << 15)), real((1 << 15) - 1))
    return np.where(np.isnan(table), 0, table).astype(np.int16)


def interpolated(x: Array, table: Array) -> Array:
    """Return int16 results for int16 ``x``, interpolated linearly between the 513 entries of ``table``."""
    index = 256 + (x >> 7)  # the lower 7 bits are the fraction
    base = table[index]
    slope = (table[index + 1] - base).astype(np.int32)
    return np.asarray(base + ((slope * (x & 0x7F) + 64) >> 7), np.int16)


# -- LOGISTIC and TANH of int16 ----------------------------------------------------------------

SIGMOID_ENTRIES_PER_UNIT = 24  # the number of entries of TFLite's table from x to x + 1


def _sigmoid_table() -> Ints:
    """Return TFLite's table of the sigmoid.

    Entry i is sigmoid(i / 24) * 2^16 for i from 0 to 254, corrected and rounded; entry 255, the last, is
    65535.  Between two entries the interpolation is too low, by at most |second derivative| / 8 * (1 / 24)^2.
    The correction adds half of that.
    """
    sigmoid = 1 / (1 + np.exp(-np.arange(256) / SIGMOID_ENTRIES_PER_UNIT))
    curvature = sigmoid * (1 - sigmoid) * (2 * sigmoid - 1)  # |second derivative|
    correction = curvature / (16 * SIGMOID_ENTRIES_PER_UNIT**2)
    table = np.floor((sigmoid + correction) * 65536 + 0.5).astype(np.int64)
    table[-1] = 65535
    return table


_SIGMOID_TABLE = _sigmoid_table()

LARGEST_SCALE = 2**31 / (2**15 * 12288)
"""The largest scale, about 5.3, of an int16 operand whose elements surely do not overflow in LiteRT."""


def checked_log2(scale: np.float32) -> int | None:
    """Return log2 of ``scale`` if it is an integer up to TFLite's tolerance of 1e-3, else None."""
    log = np.log(scale, dtype=np.float32) * (np.float32(1) / np.log(np.float32(2)))
    exponent = float(round_half_away(log))
    return int(exponent) if abs(float(log) - exponent) < 1e-3 else None


def _input_in_table_steps(x: Array, input: Value, plain_shifts: tuple[int, ...]) -> Ints:
    """Return ``x``, the elements of ``input``, in units of 1 / 12288.

    That is 1 / (24 * 2^9): the units of an index into the sigmoid table with 9 fraction bits.  As in LiteRT,
    the result is exact for a scale of 2^(s - 12) with s in ``plain_shifts``, and rounded for other scales.
    For scales above LARGEST_SCALE, it overflows for large ``x``.
    """
    exponent = checked_log2(scale_of(input))
    if exponent is not None and exponent + 12 in plain_shifts:
        return x.astype(np.int64) * (3 << (exponent + 12))
    multiplier, shift = float(scale_of(input)) * 4096.0 * 3.0, 0  # scaled up below to 15 bits, as in LiteRT
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return wrap_int32(x.astype(np.int64) * int(multiplier) + ((1 << shift) >> 1)) >> shift


def _interpolated_sigmoid(magnitude: Ints, bits: int, saturated: int) -> Ints:
    """Return 2^(16 + bits) times the sigmoid, interpolated in the table.

    ``magnitude``: an index into the table with ``bits`` fraction bits, not negative.  ``saturated``: the
    result for index 255, which is the last entry, and for higher ones.
    """
    index = magnitude >> bits
    entry = np.minimum(index, 254)
    low = _SIGMOID_TABLE[entry]
    interpolated = (low << bits) + (magnitude & ((1 << bits) - 1)) * (_SIGMOID_TABLE[entry + 1] - low)
    return np.asarray(np.where(index >= 255, saturated, interpolated))


def logistic_int16(x: Array, input: Value) -> Array:
    """Return the sigmoid of ``x``, the int16 elements of ``input``, as int16 in units of 2^-15.

    LiteRT's optimized kernels use fixed point instead of the table if the scale of ``input`` is 2^-12.
    """
    if follows_optimized_kernels() and checked_log2(scale_of(input)) == -12:
        return logistic(x, integer_bits=3, bits=16).astype(np.int16)
    steps = _input_in_table_steps(x, input, (0,))
    result = _interpolated_sigmoid(np.abs(steps), 9, 0x7FFF << 10)  # units of 2^-25
    # sigmoid(x) = 1 - sigmoid(-x); 512 and 511 round the result to units of 2^-15
    return np.asarray(np.where(steps >= 0, result + 512, (1 << 25) - result + 511) >> 10, np.int16)


def tanh_int16(x: Array, input: Value) -> Array:
    """Return tanh of ``x``, the int16 elements of ``input``, as int16 in units of 2^-15.

    It is computed as 2 * sigmoid(2x) - 1.  LiteRT's optimized kernels use fixed point instead of the table if
    the scale of ``input`` is 2^-12 or 2^-11.
    """
    exponent = checked_log2(scale_of(input))
    if follows_optimized_kernels() and exponent in (-12, -11):
        return tanh(x, integer_bits=exponent + 15, bits=16).astype(np.int16)
    steps = _input_in_table_steps(x, input, (0, 1))
    result = _interpolated_sigmoid(np.abs(steps), 8, 0xFFFF << 8)  # for 2x: one fraction bit less
    # ``result`` is 2 * sigmoid(2|x|) in units of 2^-23
    shifted = np.where(steps >= 0, result - (1 << 23) + 128, (1 << 23) - result + 127)
    return np.asarray(shifted >> 8, np.int16)


def overflow_fault(op: Op) -> str | None:
    """Return a sentence if large elements of an int16 operand of LOGISTIC or TANH overflow; else None."""
    value = op.inputs[0]
    if value is None or value.dtype is not i16 or not is_quantized(value) or scale_of(value) <= LARGEST_SCALE:
        return None
    return f"{op.code} of int16 overflows for an operand of a scale above {LARGEST_SCALE:.3g}"


def require_output_scale(op: Op, scale: float) -> None:
    """Raise UnsupportedError if the result has another scale than ``scale``.

    If the result is int16, also raise it if the operand or the result has a zero point other than 0.
    """
    value, result = op.inputs[0], op.output
    assert value is not None  # required by the declaration
    result_scale = scale_of(result)
    if result_scale != scale:
        got = f"a result of scale {result_scale:.6g}"
        raise UnsupportedError(f"{op.code} has no kernel for {got}, only for {scale}")
    if result.dtype.bits == 16 and (zero_point_of(value) or zero_point_of(result)):
        raise UnsupportedError(f"{op.code} of int16 has no kernel for zero points other than 0")
