# SPDX-License-Identifier: Apache-2.0
"""ONE's formulas: from a range to a scale and a zero point, and from floats to integers, with its rounding.

They differ from LiteRT's in the smallest scale, the range of symmetric integers, and where they round to
float32.  Every function takes scalars or arrays with one element per channel that broadcast with the data.
Source: the behavior of luci's QuantizationUtils.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlekit.ir.dtypes import DType, i16, i32, i64, u8
from circlekit.ir.value import Array, Quantization
from circlekit.ops.numerics.fixed_point import round_half_away

SMALLEST_SCALE = {u8: 1e-5, DType.INT8: 1e-5, DType.INT4: 1e-5, i16: 1e-8}
"""ONE's lower limit of scales by dtype."""

LARGEST = float(np.finfo(np.float32).max)

BIAS_DTYPES = {u8: i32, DType.INT8: i32, i16: i64}
"""The dtype of the bias, by the dtype of the operator's other operands."""


def integer_limits(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest integer: all of uint8, else a symmetric range."""
    low, high = dtype.limits
    return (low if dtype is u8 else -high), high


@dataclass(frozen=True, eq=False)
class Parameters:
    """Scales (float32), zero points (int64), and the range that the integers represent (float32)."""

    scale: Array
    zero_point: Array
    low: Array
    high: Array

    def quantization(self, axis: int = 0, keeps_range: bool = False) -> Quantization:
        """Return them as the quantization of a tensor; ``keeps_range``: with the range as min and max."""
        scale, zero_point, low, high = (
            np.atleast_1d(np.squeeze(part)) for part in (self.scale, self.zero_point, self.low, self.high)
        )
        if not keeps_range:
            return Quantization(scale, zero_point, axis)
        return Quantization(scale, zero_point, axis, low, high)


def parameters(low: Array, high: Array, dtype: DType, smallest_scale: Array | float = 0.0) -> Parameters:
    """Return the parameters of uint8 (asymmetric) or another dtype (symmetric) for the ranges low to high.

    Zero becomes part of the range.  ``smallest_scale``: a further lower limit of the scales.
    """
    lowest = np.minimum(np.asarray(low, np.float64), 0.0)
    highest = np.maximum(np.asarray(high, np.float64), 0.0)
    first, last = integer_limits(dtype)
    limit = np.maximum(SMALLEST_SCALE[dtype], smallest_scale)
    if dtype is u8:
        scale = np.maximum((highest - lowest) / 255.0, limit)
        zero_point = round_half_away(-lowest / scale)
    else:
        rounded = np.float32(np.maximum(highest, -lowest) / last)
        scale = np.maximum(rounded, np.float32(limit)).astype(np.float64)
        zero_point = np.zeros_like(scale)
    ends = (np.float32((end - zero_point) * scale) for end in (first, last))
    return Parameters(np.float32(scale), np.int64(zero_point), *map(np.asarray, ends))


def to_integers(x: Array, dtype: DType, scale: Array, low: Array | float = 0.0) -> Array:
    """Return round((x - low) / scale) for uint8, round(x / scale) for others, in the dtype's range.

    ``low``: the number that 0 represents.  int4 results are held as int8.
    """
    shifted = x - np.float32(low) if dtype is u8 else x
    return clamped(shifted * inverse(scale), dtype)


def to_given_integers(x: Array, dtype: DType, quantization: Quantization) -> Array:
    """Return ``x`` as integers of the one scale and zero point of ``quantization``."""
    finite = np.clip(x.astype(np.float64), -LARGEST, LARGEST)
    steps = round_half_away(finite * inverse(quantization.scale[0]))
    return clamped(steps + float(quantization.zero_point[0]), dtype)


def clamped(steps: Array, dtype: DType) -> Array:
    """Return ``steps`` rounded, halves away from zero, and clamped to the range of ``dtype``."""
    first, last = integer_limits(dtype)
    storage = dtype.numpy or np.dtype(np.int8)
    return np.asarray(np.clip(round_half_away(steps), first, last)).astype(storage)


def inverse(scale: Array) -> Array:
    """Return 1 / scale as float32, rounded once."""
    return np.asarray(1.0 / np.asarray(scale, np.float64)).astype(np.float32)


def to_floats(integers: Array, dtype: DType, scale: Array, low: Array) -> Array:
    """Return the floats that ``integers`` represent, with ONE's rounding."""
    scaled = integers.astype(np.float32) * scale
    return scaled + low if dtype is u8 else scaled


def bias_integers(bias: Array, scale: Array, dtype: DType) -> Array:
    """Return round(bias / scale) in the bias dtype of ``dtype``; saturated.

    ``scale``: one for each element along the last axis, or one.
    """
    target = BIAS_DTYPES[dtype]
    steps = round_half_away((bias * inverse(scale)).astype(np.float64))
    first, last = target.limits
    largest = np.nextafter(np.float64(last), 0) if target is i64 else last  # 2^63 - 1 is no float64
    return np.clip(steps, first, largest).astype(target.numpy)


def smallest_weight_scale(bias: Array, input_scale: float, dtype: DType) -> Array:
    """Return the weight scales below which the integers of ``bias`` overflow (per element)."""
    return np.abs(bias.astype(np.float64)) / (BIAS_DTYPES[dtype].limits[1] * float(input_scale))


def element_parameters(x: Array, dtype: DType) -> tuple[Array, Quantization]:
    """Return integers and parameters of a constant with a scale per element: its magnitude.

    uint8: x >= 0 is 1 with zero point 0, x < 0 is 0 with zero point 1.  int16: 1 and -1.
    """
    flat = x.reshape(-1)
    negative = flat < 0
    scale = np.abs(flat)
    if dtype is u8:
        integers, zero_point = np.where(negative, 0, 1), np.where(negative, 1, 0)
    else:
        integers, zero_point = np.where(negative, -1, 1), np.zeros(flat.size)
    data = integers.astype(dtype.numpy).reshape(x.shape)
    return data, Quantization(scale, zero_point.astype(np.int64), x.ndim - 1)


def with_integer_scale(quantization: Quantization) -> Quantization:
    """Return the quantization with each scale rounded to an integer of at least 1."""
    rounded = np.maximum(round_half_away(quantization.scale), 1).astype(np.float32)
    rounded[quantization.scale < 1] = 1.0
    kept = quantization
    return Quantization(rounded, kept.zero_point, kept.quantized_dimension, kept.min, kept.max)
