# SPDX-License-Identifier: Apache-2.0
"""Sums of integer products, computed in floats, are exact; scales and zero points of weights."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.value import Quantization, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.numerics.fixed_point import round_half_away
from circlekit.ops.numerics.quantized_layers import (
    LARGEST_HYBRID_PRODUCT,
    centered_weights,
    channel_scales,
    exact_float_dtype,
    greatest_magnitude,
    integer_product,
    quantize_rows,
    to_exact_floats,
    weight_zero_points,
)
from tests.ops.litert import check, const, kernel_results, var
from tests.ops.quantized import generator, per_tensor


def weights(dtype: DType, scales: int, zeros: list[int]) -> Value:
    quantization = Quantization(np.ones(scales, np.float32), np.array(zeros, np.int64))
    return Value("w", dtype, (4, 2), None, quantization)


def test_float32_holds_whole_numbers_below_2_to_24() -> None:
    assert [exact_float_dtype(2**24 + n) for n in (-1, 0)] == [np.float32, np.float64]
    longest = (2**24 - 1) // LARGEST_HYBRID_PRODUCT
    kinds = [to_exact_floats(np.zeros((2, longest + n), np.int8)).dtype for n in (0, 1)]
    assert kinds == [np.float32, np.float64]


@pytest.mark.parametrize("length", [1, 519, 521, 3001])
def test_products_of_8_bits_are_exact(length: int) -> None:
    """Row 0 adds up products 255 * 127.  The sum of 519 is odd and above 2^24: float32 does not hold it."""
    a, b = np.full((2, length), 255, np.int32), np.full((3, length), 127, np.int8)
    a[1] = generator(length).integers(-255, 256, length)
    np.testing.assert_array_equal(integer_product(a, b), a.astype(np.int64) @ b.T.astype(np.int64))


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("taps", [(3, 5), (25, 29), (41, 53)])
def test_sums_of_a_dynamically_quantized_convolution_are_exact(
    depthwise: bool, taps: tuple[int, int]
) -> None:
    """The range of the data gives the scale 1, so rounding the data to integers loses nothing."""
    rng = generator(taps)
    x = rng.integers(100, 128, (1, *taps, 1)).astype(np.float32)
    x[0, 0, 0, 0] = 127
    numbers = rng.integers(100, 128, (1, *taps, 1)).astype(np.int8)
    filter = Value.constant("w", numbers, per_tensor(1.0))
    if depthwise:  # always asymmetric: integers from -128 stand for 0 to 255
        x += 128
    op = (DepthwiseConv2D if depthwise else Conv2D)(var(x), filter, const([0], np.float32))
    (got,) = kernel_results(op, [x])
    middle = got[0, (taps[0] - 1) // 2, (taps[1] - 1) // 2, 0]
    assert middle == np.float32(np.sum(x.astype(np.int64) * numbers))


@pytest.mark.parametrize("length", [3, 1041, 3001])
@pytest.mark.parametrize("is_float", [False, True])
def test_products_of_matrices_are_exact(length: int, is_float: bool) -> None:
    """int8 by int8 to int32, and floats that are quantized with the scale 1."""
    rng = generator(length)
    x, y = rng.integers(100, 128, (2, length)), rng.integers(100, 128, (length, 3)).astype(np.int8)
    x[:, 0] = 127
    x = x.astype(np.float32 if is_float else np.int8)
    right = Value.constant("y", y, per_tensor(1.0) if is_float else None)
    result = Value("z", f32 if is_float else i32, (2, 3))
    (got,) = kernel_results(BatchMatMul(var(x), right, results=[result]), [x])
    exact = x.astype(np.int64) @ y.astype(np.int64)
    np.testing.assert_array_equal(got, exact.astype(np.float32) if is_float else exact)


def test_zero_points_that_lie_between_two_integers_are_rounded_as_by_litert() -> None:
    """A zero point can be computed from either end of the range.  In these rows, the two results differ."""
    rng = generator("ties")
    below, scale = rng.integers(0, 255, 20000) + 0.5, np.exp(rng.uniform(-6, 6, 20000)).astype(np.float32)
    low, high = (-below * scale).astype(np.float32), ((255 - below) * scale).astype(np.float32)
    step = (high.astype(float) - low) / 255
    is_tie = round_half_away(-128 - low / step) != round_half_away(127 - high / step)
    x = np.stack([low, high, (low + high) / 3, 0 * low], axis=1)[is_tie]
    assert len(x) > 20
    identity = Value.constant("w", np.eye(4, dtype=np.int8) * 127, per_tensor(1 / 127))
    op = FullyConnected(var(x), identity, const(np.zeros(4), np.float32), asymmetric_quantize_inputs=True)
    check(op, x, tolerance=0)


def test_the_range_of_a_row_includes_zero_and_keeps_its_ends() -> None:
    x = np.array([[0, 1, 255], [-255, -1, 0], [-100, 0, 155]], np.float32)
    rows = quantize_rows(x, asymmetric=True)
    np.testing.assert_array_equal(rows.scale, np.ones((3, 1)))
    np.testing.assert_array_equal(rows.offset, [[-128], [127], [-28]])
    np.testing.assert_array_equal(rows.data - rows.offset, x)


def test_greatest_magnitudes() -> None:
    assert [greatest_magnitude(Value("x", i8, ()), zero) for zero in (-128, -1, 0, 127)] == [
        255,
        128,
        128,
        255,
    ]
    assert [greatest_magnitude(Value("x", u8, ()), zero) for zero in (0, 127, 128, 255)] == [
        255,
        128,
        128,
        255,
    ]


@pytest.mark.parametrize("scales", [1, 4])
def test_scales_and_zero_points_are_one_or_one_per_channel(scales: int) -> None:
    assert channel_scales(weights(u8, scales, [0]), 4).tolist() == [1.0] * scales
    zeros = weight_zero_points(weights(u8, scales, [5] * scales), 4)
    assert zeros.shape == (() if scales == 1 else (4,))
    assert np.all(zeros == 5)
    for dtype, numbers in ((i8, [5]), (i16, [5]), (u8, [0, 0]), (u8, [])):
        assert weight_zero_points(weights(dtype, scales, numbers), 4).shape == ()
    for count in (2, 3, 5):
        with pytest.raises(ModelError, match=f"%w has {count} scales, expected 1 or 4"):
            channel_scales(weights(u8, count, [0]), 4)
        with pytest.raises(ModelError, match=f"%w has {count} zero points, expected 1 or 4"):
            weight_zero_points(weights(u8, 4, [5] * count), 4)
    with pytest.raises(ModelError, match="expected a scale"):
        channel_scales(Value("w", f32, (4, 2)), 4)


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_are_centered_in_floats_that_hold_their_sums(axis: int) -> None:
    numbers = np.array([[200, 0, 0], [0, 100, 100]], np.uint8)
    zeros = np.arange(10, 10 + numbers.shape[axis])
    wanted = numbers.astype(int) - zeros.reshape((-1, 1) if axis == 0 else (1, -1))
    largest = np.abs(wanted).sum(axis=1 - axis).max()
    for magnitude, dtype in ((2**24 - 1) / largest, np.float32), (2**24 / largest, np.float64):
        found = centered_weights(numbers, zeros, axis, magnitude)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)
