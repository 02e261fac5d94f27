# SPDX-License-Identifier: Apache-2.0
"""Scales and zero points against their definition, at the ends of ranges and at the limits of scales."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, i8, i16, i64, u8
from circlekit.ir.value import Array
from circlekit.quant.parameters import (
    LARGEST_SCALE,
    SCALE_OF_ZEROS,
    SMALLEST_SCALE,
    asymmetric,
    integers,
    magnitudes,
    scales_for,
    symmetric,
)

ENDS = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(ENDS, ENDS, st.sampled_from([i8, u8, i16]), st.booleans())
@example(1.0, 3.0, i8, False)
@example(-3.0, -1.0, i8, False)
@example(-3.0, -1.0, u8, False)
@example(-3.0, -1.0, u8, True)
@example(0.0, 1e-6, i16, False)
def test_forms_cover_the_range_and_zero(a: float, b: float, dtype: DType, narrow: bool) -> None:
    low, high = min(a, b), max(a, b)
    smallest, largest = dtype.limits[0] + narrow, dtype.limits[1]
    if max(abs(low), abs(high)) < 1e-6:
        return
    scale, zero_point = asymmetric(low, high, dtype, narrow=narrow)
    wide = max(high, 0.0) - min(low, 0.0)
    assert scale == pytest.approx(wide / (largest - smallest), rel=1e-6)
    assert smallest <= zero_point <= largest
    covered = (smallest - zero_point) * scale, (largest - zero_point) * scale
    assert covered[0] <= min(low, 0.0) + 0.5001 * scale
    assert covered[1] >= max(high, 0.0) - 0.5001 * scale
    if low < 0 and dtype is u8:
        with pytest.raises(
            ModelError, match="uint8 with zero point 0: expected a range without negative numbers"
        ):
            symmetric(low, high, dtype)
        return
    scale, zero_point = symmetric(low, high, dtype)
    assert zero_point == 0
    assert scale * largest == pytest.approx(max(abs(low), abs(high)), rel=1e-6)


@pytest.mark.parametrize("formula", [asymmetric, symmetric])
def test_a_range_of_zeros_has_a_scale_and_invalid_ranges_have_none(
    formula: Callable[[float, float, DType], tuple[float, int]],
) -> None:
    assert formula(0.0, 0.0, i8) == (SCALE_OF_ZEROS, 0)
    for low, high in ((math.nan, 1.0), (0.0, math.nan), (-math.inf, 0.0), (0.0, math.inf), (1.0, 0.5)):
        with pytest.raises(ModelError, match="expected a finite range with min <= max, got"):
            formula(low, high, i8)
    assert formula(2.0, 2.0, i8)[0] > 0


def test_scales_have_limits() -> None:
    """The limits themselves are allowed."""
    for scale, is_allowed in (
        (SMALLEST_SCALE, True),
        (SMALLEST_SCALE * 0.999, False),
        (LARGEST_SCALE, True),
        (LARGEST_SCALE * 1.001, False),
    ):
        size = "small" if scale < 1 else "large"
        if is_allowed:
            assert asymmetric(0.0, scale * 255, i8) == (scale, -128)
            assert symmetric(-scale * 127, 0.0, i8) == (scale, 0)
            assert scales_for(np.array([scale * 127]), i8).tolist() == [scale]
            continue
        with pytest.raises(ModelError, match=f"is too {size} for a scale"):
            asymmetric(0.0, scale * 255, i8)
        with pytest.raises(ModelError, match=f"is too {size} for a scale"):
            symmetric(-scale * 127, 0.0, i8)
        with pytest.raises(ModelError, match=f"are too {size} for a scale"):
            scales_for(np.array([scale * 127, 0.0]), i8)


def test_scales_of_channels() -> None:
    """A channel of zeros gets SCALE_OF_ZEROS, a tiny one SMALLEST_SCALE if another channel is not tiny."""
    found = scales_for(np.array([0.0, 12.7, SMALLEST_SCALE, SMALLEST_SCALE * 254]), i8)
    assert found.tolist() == [SCALE_OF_ZEROS, np.float32(0.1), SMALLEST_SCALE, 2 * SMALLEST_SCALE]
    assert scales_for(np.zeros(2), i8).tolist() == [SCALE_OF_ZEROS] * 2
    assert scales_for(np.zeros(0), i8).tolist() == []


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("shift", [-2.0, 0.0, 2.0])
def test_magnitudes(axis: int | None, shift: float) -> None:
    weights = np.random.default_rng(4).uniform(-0.5, 0.5, (2, 3, 4)) + shift
    found = magnitudes(weights, axis)
    assert found.dtype == np.float64
    parts = [weights] if axis is None else list(np.moveaxis(weights, axis, 0))
    assert found.tolist() == [np.abs(part).max() for part in parts]
    assert not magnitudes(np.zeros((2, 0)), 0).any()


@pytest.mark.parametrize("dtype", [i8, u8, i16, DType.INT4])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("narrow", [False, True])
def test_integers_one_by_one(dtype: DType, axis: int | None, narrow: bool) -> None:
    """Halves are rounded to even; numbers outside the dtype's range become its ends."""
    first, last = dtype.limits
    row: Array = np.array([0.5, 1.5, -0.5, 2.4, 1e6, -1e6, np.inf, -np.inf], np.float32)
    numbers = np.stack([row, row / 2, -row])
    count = 1 if axis is None else numbers.shape[axis]
    scales, zero_points = np.float32(2.0) ** -np.arange(count), np.arange(count) + (first + last) // 2
    found = integers(numbers, scales.astype(np.float32), zero_points, dtype, axis or 0, narrow)
    assert found.dtype == (dtype.numpy or np.int8)
    for place in itertools.product(range(3), range(8)):
        channel = 0 if axis is None else place[axis]
        exact = float(numbers[place]) / float(scales[channel])
        rounded = exact if math.isinf(exact) else round(exact)  # Python, too, rounds halves to even
        wanted = min(max(rounded + int(zero_points[channel]), first + narrow), last)
        assert found[place] == wanted


def test_nan_is_no_number() -> None:
    with pytest.raises(ModelError, match="expected numbers to quantize, got NaN"):
        integers(np.array([1.0, np.nan]), np.ones(1, np.float32), np.zeros(1), i8)


def test_scales_belong_to_the_first_axis_if_none_is_given() -> None:
    numbers, scales, zero_points = np.ones((2, 2)), np.array([1.0, 0.5]), np.array([0, 3])
    assert integers(numbers, scales, zero_points, i8).tolist() == [[1, 1], [5, 5]]
    assert integers(numbers, scales, zero_points, i8, 1).tolist() == [[1, 5], [1, 5]]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_integers_of_64_bits_are_clamped_to_what_float64_holds(sign: float) -> None:
    found = integers(np.array([sign * 1e30]), np.ones(1, np.float32), np.zeros(1), i64)
    assert found.tolist() == [-(2**63) if sign < 0 else 2**63 - 1024]
