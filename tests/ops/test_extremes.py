# SPDX-License-Identifier: Apache-2.0
"""NaN, infinities, overflow and scalars against LiteRT: cases that differential testing found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.interp import Interpreter
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.graph import Model
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import HardSwish, LeakyRelu, PRelu
from circlekit.ops.arithmetic.binary import AddN, Maximum, Minimum, Pow
from circlekit.ops.arithmetic.bits import Bitcast
from circlekit.ops.arithmetic.cast import FakeQuant
from circlekit.ops.arithmetic.unary import Imag, Real
from circlekit.ops.movement.pad import MirrorPad, Pad, PadV2
from circlekit.ops.movement.scatter import DynamicUpdateSlice
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.movement.sparse import SparseToDense
from circlekit.ops.reduction.reduce import ArgMax, ArgMin, ReduceMax, ReduceMin
from circlekit.ops.reduction.segments import UnsortedSegmentMax, UnsortedSegmentMin
from tests.ops.litert import check, const, graph_of, run_litert, var

NAN, INF = np.nan, np.inf


def floats(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize("kind", [ReduceMax, ReduceMin])
def test_extremes_ignore_nan(kind: Any) -> None:
    x = floats(1, NAN, -3, 2, INF, NAN, NAN, NAN, -INF).reshape(3, 3)
    check(kind(var(x), const([1], np.int32)), x)


@pytest.mark.parametrize("kind", [UnsortedSegmentMax, UnsortedSegmentMin])
def test_extremes_of_segments_ignore_nan(kind: Any) -> None:
    x = floats(1, NAN, -3, NAN, INF, 2)
    check(kind(var(x), const([0, 0, 1, 1, 2, 2], np.int32), const(4, np.int32)), x)


@pytest.mark.parametrize("exponents", [[9, 3, 31], [13], 13, 0])
def test_powers_beyond_int32(exponents: Any) -> None:
    x, y = np.array([-13, 11, 2], np.int32), np.array(exponents, np.int32)
    check(Pow(var(x), var(y)), x, y)


def test_sums_of_many_saturate() -> None:
    x, y = floats(3e38, -3e38, NAN, 1), floats(3e38, -3e38, 1, INF)
    check(AddN(var(x), var(y), var(x)), x, y, x)


def test_hard_swish_overflows_where_litert_does() -> None:
    x = floats(3e38, 1e38, -3e38, -INF, NAN, 0)
    check(HardSwish(var(x)), x)


def test_a_fake_quantization_of_nan_is_its_minimum() -> None:
    x = floats(NAN, INF, -INF, 0.3)
    check(FakeQuant(var(x), min=-1.0, max=2.0, num_bits=8), x)


@pytest.mark.parametrize("slope", [INF, -INF, NAN, 0.0])
def test_slopes_at_zero_and_infinity(slope: float) -> None:
    x = floats(0, -0.0, 1, -1, INF, -INF, NAN)
    check(LeakyRelu(var(x), alpha=slope), x)
    check(PRelu(var(x), const([slope], np.float32)), x)


@pytest.mark.parametrize("kind", [Maximum, Minimum])
def test_the_extreme_of_two_zeros_or_with_nan_is_the_second_operand(kind: Any) -> None:
    x, y = floats(0, -0.0, 0, -0.0, NAN, 1), floats(-0.0, 0, 0, -0.0, 1, NAN)
    op = kind(var(x), var(y))
    (got,), (wanted,) = check(op, x, y), run_litert(op.graph or graph_of(op), [x, y])
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("kind", [Real, Imag])
def test_parts_of_a_scalar(kind: Any) -> None:
    x = np.array(1 + 2j, np.complex64)
    check(kind(var(x)), x)


@pytest.mark.parametrize(("dtype", "shape"), [(i32, ()), (DType.INT8, (4,))])
def test_the_bits_of_a_scalar(dtype: DType, shape: tuple[int, ...]) -> None:
    x = np.array(1.5, np.float32)
    check(Bitcast(var(x), results=[Value("y", dtype, shape)]), x)


SCALAR = np.array(1.5, np.float32)
NO_PAIRS, NO_NUMBERS = const(np.zeros((0, 2)), np.int32), const([], np.int32)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: Pad(x, NO_PAIRS),
        lambda x: PadV2(x, NO_PAIRS, const(7.0, np.float32)),
        lambda x: MirrorPad(x, NO_PAIRS),
        lambda x: Slice(x, NO_NUMBERS, NO_NUMBERS),
        lambda x: StridedSlice(x, NO_NUMBERS, NO_NUMBERS, NO_NUMBERS),
        lambda x: DynamicUpdateSlice(const(7.0, np.float32), x, NO_NUMBERS),
    ],
)
def test_movement_of_a_scalar(make: Any) -> None:
    """Kernels of data movement on a scalar give its current value in every run."""
    check(make(var(SCALAR)), SCALAR)
    interpreter = Interpreter(Model([graph_of(make(var(SCALAR)))]))
    for number in (2.0, 3.0):
        (out,) = interpreter.run([np.array(number, np.float32)])
        assert (out.shape, float(out)) == ((), number)


@pytest.mark.parametrize("values", [[5.0], 5.0])
def test_a_dense_scalar(values: Any) -> None:
    array = np.array(values, np.float32)
    places = const(np.zeros((1, 0)), np.int32)
    check(SparseToDense(places, NO_NUMBERS, var(array), const(7.0, np.float32)), array)


def test_unknown_strides_leave_a_dimension_unknown() -> None:
    given = const([0, 0], np.int32), const([0, 0], np.int32), Value("strides", i32, (2,))
    op = StridedSlice(Value("x", f32, (4, 5, 6)), *given, begin_mask=3, end_mask=3)
    assert op.output.shape == (None, None, 6)


@pytest.mark.parametrize("kind", [ArgMax, ArgMin])
def test_places_of_extremes_ignore_nan(kind: Any) -> None:
    """The axis is 0, because along the last axis LiteRT may give wrong places for NaN."""
    rows = [1, NAN, 3], [NAN, NAN, NAN], [NAN, -INF, NAN], [NAN, INF, 5], [2, NAN, 2], [NAN, 4, 4]
    x = floats(*(number for row in rows for number in row)).reshape(6, 3).T.copy()
    check(kind(var(x), const(0, np.int32), output_type=i32), x)
