# SPDX-License-Identifier: Apache-2.0
"""Fixed-point functions against the real functions.

The tests of softmax, LSTM and other operators check the last bits, against LiteRT.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlekit.ops.numerics.fixed_point import (
    bit_length,
    exp_on_negative_values,
    get_inv_sqrt_quantized_multiplier,
    get_reciprocal,
    log_x_for_x_greater_than_or_equal_to_1,
    logistic,
    one_over_one_plus_x,
    tanh,
)

NUMBERS = st.integers(1, 2**31 - 1) | st.integers(0, 30).map(lambda n: 1 << n)

NEWTON_ERROR = 2.0**-26
"""The allowed relative error of three Newton steps with 29 fraction bits."""


@settings(derandomize=True, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_reciprocal(numbers: list[int]) -> None:
    mantissas, shifts = get_reciprocal(np.array(numbers))
    for x, mantissa, shift in zip(numbers, mantissas.tolist(), shifts.tolist(), strict=True):
        assert 0 < mantissa < 1 << 31
        assert abs(math.ldexp(mantissa * x, -31 - shift) - 1) < NEWTON_ERROR


@settings(derandomize=True, deadline=None)
@given(NUMBERS)
def test_inverse_square_root(x: int) -> None:
    by = get_inv_sqrt_quantized_multiplier(np.array(x))
    assert math.ldexp(int(by.mantissa), int(by.shift) - 31) * math.sqrt(x) == pytest.approx(1, rel=2.0**-18)


def test_the_inverse_square_roots_of_0_and_1_are_equal() -> None:
    by = get_inv_sqrt_quantized_multiplier(np.array([0, 1]))
    assert by.mantissa.tolist() == [2**31 - 1] * 2
    assert by.shift.tolist() == [0, 0]


@pytest.mark.parametrize(("bits", "error"), [(16, 8), (32, 64)])  # in units of the last bit
def test_one_over_one_plus_x(bits: int, error: int) -> None:
    x = np.round(np.linspace(0, 1, 1001)[:-1] * 2.0 ** (bits - 1))
    got = one_over_one_plus_x(x, bits)
    np.testing.assert_allclose(got, 2.0 ** (bits - 1) / (1 + x / 2.0 ** (bits - 1)), rtol=0, atol=error)


@pytest.mark.parametrize(("bits", "error"), [(16, 2.0**-12), (32, 2.0**-22)])
@pytest.mark.parametrize("integer_bits", [0, 3, 5])
def test_exp(integer_bits: int, bits: int, error: float) -> None:
    fraction_bits = bits - 1 - integer_bits
    x = -np.round(np.linspace(0, 2.0**integer_bits, 501) * 2.0**fraction_bits)
    got = exp_on_negative_values(x, integer_bits, bits) / 2.0 ** (bits - 1)
    np.testing.assert_allclose(got, np.exp(x / 2.0**fraction_bits), rtol=0, atol=error)


def test_exp_of_far_values_is_zero() -> None:
    """With more than 5 integer bits, e^x is 0 for every x of -32 or less."""
    x = -np.array([32, 33, 63], np.int64) << (15 - 6)  # 6 of 15 bits are integer bits
    assert exp_on_negative_values(x, 6, 16).tolist() == [0, 0, 0]
    assert exp_on_negative_values(np.array([0]), 6, 16).tolist() == [2**15 - 1]


@pytest.mark.parametrize("integer_bits", [0, 3, 6])
def test_logistic_and_tanh(integer_bits: int) -> None:
    x = np.arange(-(1 << 15), 1 << 15, 7)
    real = x / 2.0 ** (15 - integer_bits)
    np.testing.assert_allclose(logistic(x, integer_bits, 16) / 2.0**15, 1 / (1 + np.exp(-real)), atol=2e-4)
    np.testing.assert_allclose(tanh(x, integer_bits, 16) / 2.0**15, np.tanh(real), atol=4e-4)
    zero = np.zeros(1, np.int64)
    assert [f(zero, integer_bits, 16).tolist() for f in (logistic, tanh)] == [[1 << 14], [0]]


def test_log() -> None:
    # y has 12 integer bits and 31 - 12 = 19 fraction bits; its logarithm 5 and 31 - 5 = 26
    y = np.linspace(1, 4000, 500)
    log = log_x_for_x_greater_than_or_equal_to_1(np.round(y * 2**19), 12, 5) / 2.0**26
    np.testing.assert_allclose(log, np.log(y), rtol=0, atol=2.0**-19)


def test_bit_length() -> None:
    numbers = [0, 1, 2, 3, 4, 255, 256, 2**31 - 1, 2**31, 2**53 - 1]
    assert bit_length(np.array(numbers)).tolist() == [n.bit_length() for n in numbers]
