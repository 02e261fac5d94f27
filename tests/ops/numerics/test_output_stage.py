# SPDX-License-Identifier: Apache-2.0
"""Output stages against their definition in Python's integers and fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest

from circlekit.ops.numerics.output_stage import Arithmetic, OutputStage

INT8, INT16 = np.dtype(np.int8), np.dtype(np.int16)
BOTH_ENDS = {INT8: (-128, 127), INT16: (-(2**15), 2**15 - 1)}


def stage(
    scale: float, arithmetic: Arithmetic, dtype: np.dtype[np.signedinteger] = INT8, **more: object
) -> OutputStage:
    values: dict[str, Any] = {"bias": None, "zero_point": 0, "limits": BOTH_ENDS[dtype], **more}
    return OutputStage(scale=np.array(scale), dtype=dtype, arithmetic=arithmetic, **values)


def half_up(x: Fraction) -> int:
    return floor(x + Fraction(1, 2))


def half_away(x: Fraction) -> int:
    return half_up(abs(x)) * (1 if x >= 0 else -1)


SUMS = np.arange(-3000, 3000)[:, None]


@pytest.mark.parametrize("rounds_up", [False, True])
@pytest.mark.parametrize("scale", [0.02, 2.0**-5, 1.5 * 2.0**-6, 1.0])
def test_fixed_point(scale: float, rounds_up: bool) -> None:
    """Results are rounded after the product with the mantissa, and again after the shift.

    Scales that are powers of two give many ties.
    """
    last = half_up if rounds_up else half_away
    got = stage(scale, Arithmetic.FIXED_POINT, rounds_up=rounds_up)(SUMS)
    shift = next(s for s in range(-1, 31) if 2**30 <= round(scale * 2.0 ** (31 + s)) < 2**31)
    mantissa = round(scale * 2.0 ** (31 + shift))
    for total, result in zip(SUMS[:, 0].tolist(), got[:, 0].tolist(), strict=True):
        high = half_up(Fraction(total * 2 ** max(-shift, 0) * mantissa, 2**31))
        wanted = last(Fraction(high, 2 ** max(shift, 0)))
        assert result == min(max(wanted, -128), 127), total


@pytest.mark.parametrize("arithmetic", [Arithmetic.DOUBLE, Arithmetic.WIDE_DOUBLE])
@pytest.mark.parametrize("zero_point", [0, 5, -7])
def test_double(arithmetic: Arithmetic, zero_point: int) -> None:
    got = stage(0.0625, arithmetic, zero_point=zero_point)(SUMS)
    wanted = [half_away(Fraction(total, 16)) + zero_point for total in SUMS[:, 0].tolist()]
    assert got[:, 0].tolist() == [min(max(w, -128), 127) for w in wanted]


def test_wide_fixed_point() -> None:
    """The mantissa has 15 bits; the result is rounded once, halves up."""
    sums = np.arange(-(1 << 20), 1 << 20, 617)[:, None]
    got = stage(0.3, Arithmetic.WIDE_FIXED_POINT, INT16)(sums)
    mantissa = (round(0.6 * 2**31) + 2**15) >> 16
    wanted = [half_up(Fraction(total * mantissa, 2**16)) for total in sums[:, 0].tolist()]
    assert got[:, 0].tolist() == [min(max(w, -(2**15)), 2**15 - 1) for w in wanted]


def test_sums_of_int32_wrap_and_those_of_int64_do_not() -> None:
    total, bias = np.array([[2**31 - 1]]), np.array([1])  # sum: 2^31, as int32 -2^31; 2^31 * 2^-25 = 64
    assert stage(2.0**-25, Arithmetic.FIXED_POINT, bias=bias)(total).item() == -64
    assert stage(2.0**-25, Arithmetic.DOUBLE, bias=bias)(total).item() == -64
    assert stage(2.0**-25, Arithmetic.WIDE_FIXED_POINT, bias=bias)(total).item() == 64
    assert stage(2.0**-25, Arithmetic.WIDE_DOUBLE, bias=bias)(total).item() == 64


def test_products_beyond_int32_become_the_least_int32() -> None:
    """2^30 * 2.0 becomes -2^31.  A zero point of -1 makes it wrap to 2^31 - 1."""
    for total in (2**30, -(2**30)):
        assert stage(2.0, Arithmetic.DOUBLE)(np.array([[total]])).item() == -128
        assert stage(2.0, Arithmetic.DOUBLE, zero_point=-1)(np.array([[total]])).item() == 127


def test_channels() -> None:
    """One bias, one scale and one rounding per channel."""
    scales, bias = np.array([0.5, 0.25, 1 / 16]), np.array([10, -20, 2])
    rounds_up = np.array([True, False, True])
    made = OutputStage(bias, scales, 3, (-100, 100), INT8, Arithmetic.FIXED_POINT, rounds_up)
    sums = 2 * np.arange(-150, 150).reshape(
        -1, 3
    )  # even, so half of a sum is exact: only the second rounding counts
    got = made(sums)
    for channel, rounded in enumerate((half_up, half_away, half_up)):
        totals = (sums[:, channel] + bias[channel]).tolist()
        exact = [Fraction(total) * Fraction(scales[channel]) for total in totals]
        assert got[:, channel].tolist() == [min(max(rounded(x) + 3, -100), 100) for x in exact]


def test_no_sums() -> None:
    assert stage(0.02, Arithmetic.FIXED_POINT)(np.zeros((0, 3))).shape == (0, 3)
