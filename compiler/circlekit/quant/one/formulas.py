# SPDX-License-Identifier: Apache-2.0
"""ONE's formulas: compute scales and zero points from ranges, and integers from floats, with ONE's rounding.

These differ from LiteRT's formulas (``quant.parameters``) in the smallest scale, in the range of symmetric
integers, and in where they round to float32.  Scales, zero points and ends of ranges are scalars, or arrays
that have one element for each channel and broadcast with the data.  Source: the behavior of luci's
QuantizationUtils.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlekit.ir.dtypes import DType, i16, i32, i64, u8
from circlekit.ir.value import Array, Quantization
from circlekit.ops.numerics.fixed_point import round_half_away

SMALLEST_SCALE = {u8: 1e-5, DType.INT8: 1e-5, DType.INT4: 1e-5, i16: 1e-8}
"""By dtype, the smallest scale that ONE uses."""

LARGEST = float(np.finfo(np.float32).max)
"""The largest float32; infinity is quantized like this number."""

BIAS_DTYPES = {u8: i32, DType.INT8: i32, i16: i64}
"""By dtype of an operator's input and weights, the dtype of its bias."""


def integer_limits(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest integer that ONE uses: (0, 255) for uint8, (-127, 127) for int8."""
    low, high = dtype.limits
    return (low if dtype is u8 else -high), high


@dataclass(frozen=True, eq=False)
class Parameters:
    """Scales (float32), zero points (int64), and the range [low, high] (float32) that the integers cover."""

    scale: Array
    zero_point: Array
    low: Array
    high: Array

    def quantization(self, axis: int = 0, keeps_range: bool = False) -> Quantization:
        """Return the parameters as the quantization of a tensor of the IR.

        ``axis``: the axis of the channels.  ``keeps_range``: the range becomes min and max.
        """
        scale, zero_point, low, high = (
            np.atleast_1d(np.squeeze(part)) for part in (self.scale, self.zero_point, self.low, self.high)
        )
        if not keeps_range:
            return Quantization(scale, zero_point, axis)
        return Quantization(scale, zero_point, axis, low, high)


def parameters(low: Array, high: Array, dtype: DType, smallest_scale: Array | float = 0.0) -> Parameters:
    """Return the parameters with which the integers of ``dtype`` cover the range [low, high].

    The range is first extended so that it includes 0.  For uint8, the zero point is -low / scale, rounded.
    For all other dtypes the zero point is 0, and the scale follows from the end that is farther from 0.
    ``smallest_scale``: a lower limit of the scales, in addition to SMALLEST_SCALE.
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
    ends = (np.float32(np.clip((end - zero_point) * scale, -LARGEST, LARGEST)) for end in (first, last))
    return Parameters(np.float32(scale), np.int64(zero_point), *map(np.asarray, ends))


def to_integers(x: Array, dtype: DType, scale: Array, low: Array | float) -> Array:
    """Return the integers for the floats ``x``, clamped to ``integer_limits``.

    They are round((x - low) / scale) for uint8, round(x / scale) for other dtypes.
    ``low``: the number for which the uint8 integer 0 stands.  int4 results have the numpy dtype int8.
    """
    with np.errstate(over="ignore"):  # an infinite difference is clamped
        shifted = x - np.float32(low) if dtype is u8 else x
    return clamped(shifted * inverse(scale), dtype)


def to_given_integers(x: Array, dtype: DType, scale: Array, zero_point: Array) -> Array:
    """Return the integers round(x / scale) + zero_point, clamped to ``integer_limits``."""
    finite = np.clip(x.astype(np.float64), -LARGEST, LARGEST)
    steps = round_half_away(finite * inverse(scale))
    return clamped(steps + zero_point.astype(np.float64), dtype)


def clamped(steps: Array, dtype: DType) -> Array:
    """Return ``steps`` as integers: clamped to ``integer_limits``, then rounded, halves away from zero."""
    first, last = integer_limits(dtype)[0], dtype.float_limits[1]  # 2^63 - 1 is no float64
    storage = dtype.numpy or np.dtype(np.int8)
    return np.asarray(round_half_away(np.clip(steps, first, last))).astype(storage)


def inverse(scale: Array) -> Array:
    """Return 1 / scale, computed in float64 and rounded to float32."""
    return np.asarray(1.0 / np.asarray(scale, np.float64)).astype(np.float32)


def to_floats(integers: Array, dtype: DType, scale: Array, low: Array) -> Array:
    """Return the floats for which ``integers`` stand, with ONE's rounding.

    ``low``: the number for which the uint8 integer 0 stands.
    """
    scaled = integers.astype(np.float32) * scale
    return scaled + low if dtype is u8 else scaled


def bias_integers(bias: Array, scale: Array, dtype: DType) -> Array:
    """Return round(bias / scale), clamped, in the bias dtype for inputs of ``dtype`` (BIAS_DTYPES).

    ``scale``: one number, or one for each index of the last axis.
    """
    target = BIAS_DTYPES[dtype]
    steps = round_half_away((bias * inverse(scale)).astype(np.float64))
    return np.clip(steps, *target.float_limits).astype(target.numpy)


def smallest_weight_scale(bias: Array, input_scale: float, dtype: DType) -> Array:
    """Return for each element of ``bias`` the smallest weight scale with which the element does not overflow.

    The scale of a bias is ``input_scale`` times the weight scale.  ``dtype``: the dtype of the weights.
    """
    return np.abs(bias.astype(np.float64)) / (BIAS_DTYPES[dtype].limits[1] * float(input_scale))


def element_parameters(x: Array, dtype: DType) -> tuple[Array, Quantization]:
    """Return integers and parameters of the constant ``x``; the scale of each element is its magnitude.

    So the integers give only the signs.  In uint8, an element of at least 0 becomes 1 with the zero point 0,
    and a negative element becomes 0 with the zero point 1.  In int16, the integers are 1 and -1, with the
    zero point 0.  ``x``: float32[1, ..., N].
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
    """Return a copy of ``quantization`` with each scale rounded to an integer of at least 1."""
    rounded = np.maximum(round_half_away(quantization.scale), 1).astype(np.float32)
    return replace(quantization, scale=rounded)
