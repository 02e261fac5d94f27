# SPDX-License-Identifier: Apache-2.0
"""LiteRT's formulas: compute scales and zero points from ranges, and round numbers to integers.

Source: LiteRT's 8-bit quantization specification, and ``tools/optimize/quantization_utils.cc``.  ONE's
quantizer uses other formulas; they are in ``quant.one``.
"""

from __future__ import annotations

import math

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array

SMALLEST_SCALE = 2.0**-60
"""The smallest allowed scale.  A tensor that needs a smaller scale is not quantized.

The product of two scales of this size is still a normal float32 number.
"""

LARGEST_SCALE = 2.0**60
"""The largest allowed scale.  A tensor that needs a larger scale is not quantized.

The product of two scales of this size does not overflow float32, nor does this scale times an int16 number.
"""

SCALE_OF_ZEROS = 2.0**-7
"""The scale of a tensor that holds only zeros, for which any scale is exact.

It is below 1 because LiteRT's comparison kernels fail on scales of 1 and more.
"""


def asymmetric(low: float, high: float, dtype: DType, *, narrow: bool = False) -> tuple[float, int]:
    """Return (scale, zero point) with which the integers of ``dtype`` cover the range [low, high].

    ``narrow``: the lowest integer is not used.  The range is first extended so that it includes 0.  The zero
    point is rounded to an integer, which moves the covered range by up to half of the scale.  The range
    [0, 0] gets SCALE_OF_ZEROS and the zero point 0; the zero point is 1 if ``narrow`` excludes 0.
    Raise ModelError if the range is not finite, if ``low`` is above ``high``, or if the scale is below
    SMALLEST_SCALE or above LARGEST_SCALE.
    """
    _require_finite(low, high)
    low, high = min(low, 0.0), max(high, 0.0)
    smallest, largest = dtype.limits[0] + narrow, dtype.limits[1]
    if low == high:
        return SCALE_OF_ZEROS, max(smallest, 0)
    scale = _checked_scale((high - low) / (largest - smallest), low, high)
    zero_point = round(smallest - low / scale)
    return scale, min(max(zero_point, smallest), largest)


def symmetric(low: float, high: float, dtype: DType) -> tuple[float, int]:
    """Return (scale, 0) with which the integers of ``dtype`` cover the range [low, high].

    The lowest integer of a signed dtype is not used: int8 covers the range with -127 to 127.  The range
    [0, 0] gets SCALE_OF_ZEROS.
    Raise ModelError if ``low`` is negative and ``dtype`` is unsigned.  Also raise ModelError if the range is
    not finite, if ``low`` is above ``high``, or if the scale is below SMALLEST_SCALE or above LARGEST_SCALE.
    """
    _require_finite(low, high)
    if low < 0 and dtype.limits[0] == 0:
        name = dtype.name.lower()
        raise ModelError(
            f"{name} with zero point 0: expected a range without negative numbers, got {low:.6g}"
        )
    magnitude = max(abs(low), abs(high))
    return (_checked_scale(magnitude / dtype.limits[1], low, high) if magnitude else SCALE_OF_ZEROS), 0


def magnitudes(weights: Array, axis: int | None) -> Array:
    """Return the largest magnitude of ``weights`` at each index of ``axis``, as a float64 vector.

    ``axis``: 0 or more.  None: the vector has one element, the largest magnitude of all ``weights``.
    """
    if axis is None:
        return np.array([np.abs(weights).max(initial=0)], np.float64)
    others = tuple(i for i in range(weights.ndim) if i != axis)
    highest, lowest = weights.max(others, initial=0), weights.min(others, initial=0)
    return np.asarray(np.maximum(highest, -lowest), np.float64)


def scales_for(magnitude: Array, dtype: DType) -> Array:
    """Return for each magnitude m the float32 scale with which integers of ``dtype`` cover [-m, m].

    The zero point is 0.  A scale is at least SMALLEST_SCALE; the magnitude 0 gets SCALE_OF_ZEROS.
    Raise ModelError if every magnitude other than 0 needs a scale below SMALLEST_SCALE, or if at least one
    magnitude needs a scale above LARGEST_SCALE.
    """
    if magnitude.any() and magnitude.max() < SMALLEST_SCALE * dtype.limits[1]:
        raise ModelError(f"numbers of up to {magnitude.max():.4g} are too small for a scale")
    if magnitude.max(initial=0) > LARGEST_SCALE * dtype.limits[1]:
        raise ModelError(f"numbers of up to {magnitude.max():.4g} are too large for a scale")
    scales = np.where(magnitude > 0, np.maximum(magnitude / dtype.limits[1], SMALLEST_SCALE), SCALE_OF_ZEROS)
    return scales.astype(np.float32)


def along_axis(numbers: Array, axis: int, rank: int) -> Array:
    """Return the vector ``numbers`` reshaped to ``rank`` axes, so that it lies along ``axis``.

    ``numbers``: one number, or one number for each index of ``axis``.
    """
    return numbers.reshape([-1 if i == axis else 1 for i in range(rank)])


def integers(
    numbers: Array, scale: Array, zero_point: Array, dtype: DType, axis: int = 0, narrow: bool = False
) -> Array:
    """Return ``round(numbers / scale) + zero_point``, clamped to the range of ``dtype``.

    Halves are rounded to the even integer.
    ``scale``, ``zero_point``: vectors with one element, or with one element for each index of ``axis``.
    ``narrow``: the lowest integer of ``dtype`` is not used, as for weights.
    The result has the shape of ``numbers`` and the numpy dtype of ``dtype``, or int8 if there is none.
    Raise ModelError for NaN.
    """
    if np.isnan(numbers).any():
        raise ModelError("expected numbers to quantize, got NaN")
    smallest, largest = dtype.float_limits
    out = numbers.astype(np.float64)
    out /= along_axis(scale.astype(np.float64), axis, out.ndim)
    np.rint(out, out=out)
    out += along_axis(zero_point, axis, out.ndim)
    np.clip(out, smallest + narrow, largest, out=out)
    return out.astype(dtype.numpy or np.int8)


def _require_finite(low: float, high: float) -> None:
    """Raise ModelError unless both ends are finite and ``low`` is at most ``high``."""
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise ModelError(f"expected a finite range with min <= max, got {low} to {high}")


def _checked_scale(scale: float, low: float, high: float) -> float:
    """Return ``scale`` rounded to float32.

    Raise ModelError if it is below SMALLEST_SCALE or above LARGEST_SCALE; ``low`` and ``high`` are for the
    message.
    """
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        size = "small" if scale < SMALLEST_SCALE else "large"
        raise ModelError(f"the range {low:.4g} to {high:.4g} is too {size} for a scale")
    return float(np.float32(scale))
