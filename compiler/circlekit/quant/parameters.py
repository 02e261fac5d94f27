# SPDX-License-Identifier: Apache-2.0
"""Formulas of LiteRT's quantization: scales and zero points for ranges, and integers for numbers.

Source: LiteRT's 8-bit quantization specification, and ``tools/optimize/quantization_utils.cc``.  The formulas
of ONE, which differ, are in ``quant.one``.
"""

from __future__ import annotations

import math

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array

SMALLEST_SCALE = 2.0**-60
"""The least scale: products and quotients of two such scales are still normal float32 numbers.

Tensors whose numbers need a smaller scale are not quantized.
"""


LARGEST_SCALE = 2.0**60
"""The largest scale: products of two such scales, and the numbers of int16, are float32 numbers.

Tensors whose numbers need a larger scale are not quantized, either.
"""

SCALE_OF_ZEROS = 2.0**-7
"""The scale of a tensor of zeros; it is below 1 because LiteRT's comparisons fail on scales from 1 on."""


def asymmetric(low: float, high: float, dtype: DType) -> tuple[float, int]:
    """Return (scale, zero point) with which the integers of ``dtype`` cover [low, high], extended to 0.

    The integer ``zero_point`` stands for exactly 0, so the covered range is moved by up to half a step.
    Raise ModelError for a range that is not finite, or too small or too large for a scale.
    """
    _require_finite(low, high)
    low, high = min(low, 0.0), max(high, 0.0)
    smallest, largest = dtype.limits
    if low == high:
        return SCALE_OF_ZEROS, 0
    scale = _checked_scale((high - low) / (largest - smallest), low, high)
    zero_point = round(smallest - low / scale)
    return scale, min(max(zero_point, smallest), largest)


def symmetric(low: float, high: float, dtype: DType) -> tuple[float, int]:
    """Return (scale, 0) with which the integers of ``dtype`` without the lowest one cover [low, high].

    Raise ModelError for a range that is not finite, or too small or too large for a scale.
    """
    _require_finite(low, high)
    magnitude = max(abs(low), abs(high))
    return (_checked_scale(magnitude / dtype.limits[1], low, high) if magnitude else SCALE_OF_ZEROS), 0


def magnitudes(weights: Array, axis: int | None) -> Array:
    """Return the largest magnitude for each index of ``axis`` (None: of all), as a float64 vector."""
    if axis is None:
        return np.array([np.abs(weights).max(initial=0)], np.float64)
    others = tuple(i for i in range(weights.ndim) if i != axis)
    highest, lowest = weights.max(others, initial=0), weights.min(others, initial=0)
    return np.asarray(np.maximum(highest, -lowest), np.float64)


def scales_for(magnitude: Array, dtype: DType) -> Array:
    """Return the float32 scales with which integers around 0 cover numbers up to each of ``magnitude``.

    A scale is at least SMALLEST_SCALE, and SCALE_OF_ZEROS for the magnitude 0.  Raise ModelError if every
    magnitude other than 0 is too small for a scale, or if one is too large.
    """
    if magnitude.any() and magnitude.max() < SMALLEST_SCALE * dtype.limits[1]:
        raise ModelError(f"numbers of up to {magnitude.max():.4g} are too small for a scale")
    if magnitude.max(initial=0) > LARGEST_SCALE * dtype.limits[1]:
        raise ModelError(f"numbers of up to {magnitude.max():.4g} are too large for a scale")
    scales = np.where(magnitude > 0, np.maximum(magnitude / dtype.limits[1], SMALLEST_SCALE), SCALE_OF_ZEROS)
    return scales.astype(np.float32)


def integers(
    numbers: Array, scale: Array, zero_point: Array, dtype: DType, axis: int = 0, narrow: bool = False
) -> Array:
    """Return ``numbers / scale + zero_point``, rounded half to even and clamped to the range of ``dtype``.

    ``scale``, ``zero_point``: vectors of one element, or of one for each index of ``axis``.  ``narrow``: the
    lowest integer is not used.  int4 integers have the numpy dtype int8.  Raise ModelError for NaN.
    """
    if np.isnan(numbers).any():
        raise ModelError("expected numbers to quantize, got NaN")
    smallest, largest = dtype.limits
    shape = [-1 if i == axis else 1 for i in range(numbers.ndim)] if scale.size > 1 else []
    out = numbers.astype(np.float64)
    out /= scale.astype(np.float64).reshape(shape)
    np.rint(out, out=out)
    out += zero_point.reshape(shape if zero_point.size > 1 else [])
    np.clip(out, smallest + narrow, largest, out=out)
    return out.astype(dtype.numpy or np.int8)


def _require_finite(low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise ModelError(f"expected a finite range, got {low} to {high}")


def _checked_scale(scale: float, low: float, high: float) -> float:
    """Return ``scale`` rounded to float32; raise ModelError, with the range, if it is too small or large."""
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        size = "small" if scale < SMALLEST_SCALE else "large"
        raise ModelError(f"the range {low:.4g} to {high:.4g} is too {size} for a scale")
    return float(np.float32(scale))
