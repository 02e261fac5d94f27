# SPDX-License-Identifier: Apache-2.0
"""Fixed-point arithmetic against its definition in plain integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, f32, i8, i16, u8
from circlekit.ir.enums import Activation
from circlekit.ops.numerics.fixed_point import (
    QuantizedMultiplier,
    logistic,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_half_up,
    multiply_by_quantized_multiplier_int64,
    quantize_multiplier,
    quantized_activation_range,
    rounding_divide_by_pot,
    rounding_divide_by_pot_on_x86,
    saturating_left_shift,
    saturating_rounding_doubling_high_mul,
)
from circlekit.ops.quantized_values import dtype_limits
from tests.ops.quantized import generator, quantized

INT32 = (-(2**31), 2**31 - 1)


def half_up(numerator: int, bits: int) -> int:
    """Return numerator / 2^bits, rounded to the nearest, halves up."""
    return (numerator + (1 << bits >> 1)) >> bits


def half_away(numerator: int, bits: int) -> int:
    """Return numerator / 2^bits, rounded to the nearest, halves away from zero."""
    magnitude = half_up(abs(numerator), bits)
    return magnitude if numerator >= 0 else -magnitude


def wrapped(x: int) -> int:
    """Return ``x`` modulo 2^32 as an int32."""
    return (x + 2**31) % 2**32 - 2**31


def twice_rounded(x: int, mantissa: int, shift: int) -> int:
    """Return x * mantissa * 2^(shift - 31), rounded after the product and again after a right shift."""
    high = half_up(wrapped(x << max(shift, 0)) * mantissa, 31)
    return half_away(high, max(-shift, 0))


def numbers(rng: np.random.Generator, count: int = 400) -> list[int]:
    """Return int32 numbers of every magnitude, the limits included."""
    drawn = rng.integers(*INT32, count) >> rng.integers(0, 32, count)
    return [*map(int, drawn), *INT32, 0, 1, -1]


@pytest.mark.parametrize("shift", [-31, -20, -9, -1, 0, 1, 8, 20])
def test_multiply(shift: int) -> None:
    rng = generator("multiply", shift)
    for mantissa in (1 << 30, (1 << 31) - 1, int(rng.integers(1 << 30, 1 << 31))):
        by = QuantizedMultiplier(np.array(mantissa), np.array(shift))
        xs = numbers(rng)
        got = multiply_by_quantized_multiplier(np.array(xs), by)
        assert got.tolist() == [twice_rounded(x, mantissa, shift) for x in xs]
        up = multiply_by_quantized_multiplier_half_up(np.array(xs), by)
        high = [half_up(wrapped(x << max(shift, 0)) * mantissa, 31) for x in xs]
        assert up.tolist() == [half_up(x, max(-shift, 0)) for x in high]


def test_multiply_per_channel() -> None:
    rng = generator("channels")
    by = quantize_multiplier([0.3, 1.0, 7.5, 1e-4, 0.0, 0.5])
    x = rng.integers(-(1 << 20), 1 << 20, (50, 6))
    columns = [
        multiply_by_quantized_multiplier(x[:, c], QuantizedMultiplier(by.mantissa[c], by.shift[c]))
        for c in range(6)
    ]
    np.testing.assert_array_equal(multiply_by_quantized_multiplier(x, by), np.stack(columns, axis=1))


@pytest.mark.parametrize("shift", [-31, -12, -1, 0, 3, 7])
def test_multiply_int64(shift: int) -> None:
    rng = generator("wide", shift)
    for mantissa in (1 << 30, (1 << 31) - 1, int(rng.integers(1 << 30, 1 << 31))):
        short = min((mantissa + (1 << 15)) >> 16, 0x7FFF)  # rounded to 15 bits
        xs = [int(x) for x in rng.integers(-(1 << 47), 1 << 47, 300) >> rng.integers(0, 47, 300)]
        got = multiply_by_quantized_multiplier_int64(
            np.array(xs), QuantizedMultiplier(np.array(mantissa), np.array(shift))
        )
        assert got.tolist() == [wrapped(half_up(x * short, 15 - shift)) for x in xs]


def test_the_steps_of_a_multiplication() -> None:
    rng = generator("steps")
    a, b = numbers(rng), numbers(rng)
    high = saturating_rounding_doubling_high_mul(np.array(a), np.array(b))
    assert high.tolist() == [min(half_up(x * y, 31), INT32[1]) for x, y in zip(a, b, strict=True)]
    for bits in (0, 1, 5, 31):
        assert rounding_divide_by_pot(np.array(a), bits).tolist() == [half_away(x, bits) for x in a]
        limited = [min(max(x << bits, INT32[0]), INT32[1]) for x in a]
        assert saturating_left_shift(np.array(a), bits).tolist() == limited


@pytest.mark.parametrize(
    "real", [1e-12, 2.0**-33, 2.0**-32, 1e-9, 0.1, 0.5, 1 - 2.0**-33, 1.0, 1.5, 200.0, 2.0**20]
)
def test_quantize_multiplier(real: float) -> None:
    by = quantize_multiplier(real)
    if real < 2.0**-32:
        assert by.mantissa == by.shift == 0
        return
    assert 1 << 30 <= by.mantissa <= (1 << 31) - 1
    assert math.ldexp(int(by.mantissa), int(by.shift) - 31) == pytest.approx(real, rel=2.0**-31)


@pytest.mark.parametrize(
    ("act", "dtype", "scale", "zero", "limits"),
    [
        (Activation.NONE, i8, 0.1, 5, (-128, 127)),
        (Activation.RELU, i8, 0.1, 5, (5, 127)),
        (Activation.RELU, i16, 0.1, 0, (0, 32767)),
        (Activation.RELU6, u8, 0.1, 5, (5, 65)),
        (Activation.RELU6, u8, 0.01, 5, (5, 255)),
        (Activation.RELU_N1_TO_1, i8, 0.25, -3, (-7, 1)),
        (Activation.RELU_N1_TO_1, i8, 2.0, 0, (-1, 1)),  # halves away from zero
        (Activation.TANH, i8, 0.1, 5, (-128, 127)),
    ],
)
def test_activation_limits(
    act: Activation, dtype: DType, scale: float, zero: int, limits: tuple[int, int]
) -> None:
    assert quantized_activation_range(act, quantized(dtype, (1,), scale, zero)) == limits


def test_limits_of_types() -> None:
    assert dtype_limits(DType.INT4) == (-8, 7)
    assert dtype_limits(DType.INT2) == (-2, 1)
    assert dtype_limits(DType.UINT4) == (0, 15)
    with pytest.raises(ModelError, match="expected an integer dtype for quantized data, got f32"):
        dtype_limits(f32)


@pytest.mark.parametrize("x", [-5, -4, -1, 0, 1, 3, 4, (1 << 31) - 1, -(1 << 31)])
def test_division_on_x86(x: int) -> None:
    """The shift takes the exponent modulo 32.  The mask takes it modulo 64, and is cut to int32."""
    for exponent in (*range(31), -1, -2, 31, 32, 33, 63, 64, 65):
        mask = ((1 << exponent % 64) - 1) & 0xFFFFFFFF
        mask -= (mask >> 31) << 32
        wanted = (x >> exponent % 32) + ((x & mask) > (mask >> 1) + (x < 0))
        assert rounding_divide_by_pot_on_x86(np.array([x]), np.array(exponent)).tolist() == [wanted], exponent
        if 0 <= exponent < 31:
            assert wanted == rounding_divide_by_pot(x, exponent)


@pytest.mark.parametrize("bits", [16, 32])
def test_logistic_of_opposite_numbers_adds_up_to_one(bits: int) -> None:
    x = np.array([1, 2, 1 << (bits - 8)])
    both = logistic(x, 6, bits) + logistic(-x, 6, bits)
    assert both.tolist() == [(1 << (bits - 1)) - 1] * 3
