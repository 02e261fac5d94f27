# SPDX-License-Identifier: Apache-2.0
"""NaN, infinities, overflow and scalars, as LiteRT has them; what the differential kit found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.value import Value
from circlekit.ops.activation import HardSwish
from circlekit.ops.bits import Bitcast
from circlekit.ops.cast import FakeQuant
from circlekit.ops.complex_numbers import Imag, Real
from circlekit.ops.elementwise import AddN, Pow
from circlekit.ops.reduce import ArgMax, ArgMin, ReduceMax, ReduceMin
from circlekit.ops.segments import UnsortedSegmentMax, UnsortedSegmentMin
from circlekit.ops.slice import StridedSlice
from tests.ops.litert import check, const, var

NAN, INF = np.nan, np.inf


def floats(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize("kind", [ReduceMax, ReduceMin])
def test_extremes_pass_nan_by(kind: Any) -> None:
    x = floats(1, NAN, -3, 2, INF, NAN, NAN, NAN, -INF).reshape(3, 3)
    check(kind(var(x), const([1], np.int32)), x)


@pytest.mark.parametrize("kind", [UnsortedSegmentMax, UnsortedSegmentMin])
def test_extremes_of_segments_pass_nan_by(kind: Any) -> None:
    x = floats(1, NAN, -3, NAN, INF, 2)
    check(kind(var(x), const([0, 0, 1, 1, 2, 2], np.int32), const(4, np.int32)), x)


@pytest.mark.parametrize("exponents", [[9, 3, 31], [13], 13, 0])
def test_powers_beyond_int32(exponents: Any) -> None:
    x, y = np.array([-13, 11, 2], np.int32), np.array(exponents, np.int32)
    check(Pow(var(x), var(y)), x, y)


def test_sums_of_many_are_finite() -> None:
    x, y = floats(3e38, -3e38, NAN, 1), floats(3e38, -3e38, 1, INF)
    check(AddN(var(x), var(y), var(x)), x, y, x)


def test_hard_swish_overflows_where_litert_does() -> None:
    x = floats(3e38, 1e38, -3e38, -INF, NAN, 0)
    check(HardSwish(var(x)), x)


def test_nan_is_the_least_of_a_fake_quantization() -> None:
    x = floats(NAN, INF, -INF, 0.3)
    check(FakeQuant(var(x), min=-1.0, max=2.0, num_bits=8), x)


@pytest.mark.parametrize("kind", [Real, Imag])
def test_parts_of_a_scalar(kind: Any) -> None:
    x = np.array(1 + 2j, np.complex64)
    check(kind(var(x)), x)


@pytest.mark.parametrize(("dtype", "shape"), [(i32, ()), (DType.INT8, (4,))])
def test_the_bits_of_a_scalar(dtype: DType, shape: tuple[int, ...]) -> None:
    x = np.array(1.5, np.float32)
    check(Bitcast(var(x), results=[Value("y", dtype, shape)]), x)


def test_unknown_strides_leave_a_dimension_unknown() -> None:
    given = const([0, 0], np.int32), const([0, 0], np.int32), Value("strides", i32, (2,))
    op = StridedSlice(Value("x", f32, (4, 5, 6)), *given, begin_mask=3, end_mask=3)
    assert op.output.shape == (None, None, 6)


@pytest.mark.parametrize("kind", [ArgMax, ArgMin])
def test_places_of_extremes_pass_nan_by(kind: Any) -> None:
    """Not along the last axis: LiteRT's vector instructions lose what stands beside NaN there."""
    rows = [1, NAN, 3], [NAN, NAN, NAN], [NAN, -INF, NAN], [NAN, INF, 5], [2, NAN, 2], [NAN, 4, 4]
    x = floats(*(number for row in rows for number in row)).reshape(6, 3).T.copy()
    check(kind(var(x), const(0, np.int32), output_type=i32), x)
