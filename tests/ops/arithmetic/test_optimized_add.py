# SPDX-License-Identifier: Apache-2.0
"""ADD of 8 and 16 bits like LiteRT's optimized kernel, which rounds otherwise than the reference kernel."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.arithmetic.optimized_add import row_of
from circlekit.ops.numerics.output_stage import Kernels, following
from tests.ops.litert import check, graph_of, kernel_results, run_litert
from tests.ops.quantized import generator, quantized

CASES = [
    (i8, (0.561, 0.955, 1.084), (82, 114, -65), (40, 70)),
    (i8, (0.845, 0.468, 1.378), (-49, -107, -121), (-96, -3)),
    (i8, (0.463, 0.283, 0.426), (-12, -123, 64), (-86, 50)),
    (i8, (0.245, 0.973, 1.396), (10, -54, -99), (-45, -5)),
    (i8, (0.799, 0.652, 0.95), (-19, -118, 55), (-106, 1)),
    (i8, (0.715, 0.808, 0.636), (-91, 14, 77), (-53, -9)),
    (u8, (0.215, 0.3, 0.422), (36, 99, 175), (133, 33)),
    (u8, (0.767, 0.686, 0.878), (73, 116, 8), (32, 174)),
    (u8, (0.174, 0.934, 1.12), (254, 29, 38), (4, 39)),
]
"""(dtype, scales, zero points, numbers): sums that the two kernels round differently, about one in 10^6.

Scales and zero points are those of both operands and the result; the numbers are those of the operands.
"""


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 44), (1, 44)), ((1, 44), ()), ((44,), (1, 1)), ((1,), (2, 44)),
        ((3, 44), (44,)), ((1, 44), (3, 44)), ((3, 44), (3, 1)), ((3, 1), (3, 44)),
        ((2, 3, 5, 44), (2, 1, 1, 44)), ((2, 3, 5, 7), (2, 3, 1, 1)), ((2, 3, 1, 44), (1, 3, 5, 44)),
        ((1, 9), (5, 1)), ((2, 1, 3, 9), (1, 4, 1, 9)), ((2, 1, 4, 1, 9), (1, 3, 1, 5, 9)),
        ((3, 1, 1), (1, 17, 1)), ((3, 17, 1, 3), (1, 1)), ((5, 1, 2, 9, 1), (1, 17)),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("dtype", "scales", "zeros", "numbers"), CASES)
def test_8_bits(
    shapes: tuple[tuple[int, ...], ...],
    dtype: DType,
    scales: tuple[float, ...],
    zeros: tuple[int, ...],
    numbers: tuple[int, int],
) -> None:
    result = np.broadcast_shapes(*shapes)
    x, y, z = (quantized(dtype, *form) for form in zip((*shapes, result), scales, zeros, strict=True))
    arrays = [np.full(shape, n, dtype.numpy) for shape, n in zip(shapes, numbers, strict=True)]
    with following(Kernels.OPTIMIZED):
        check(Add(x, y, results=[z]), *arrays, optimized=True)


@pytest.mark.parametrize("index", range(3, 6))
def test_int16(index: int) -> None:
    rng = generator("int16", index)
    shapes = ((3, 41), (3, 41)) if index % 2 else ((3, 41), (41,))
    scales = rng.uniform(0.01, 0.02, 3)
    x, y = (quantized(i16, shape, float(scale), 0) for shape, scale in zip(shapes, scales, strict=False))
    z = quantized(i16, (3, 41), float(scales[2]), 0)
    arrays = [rng.integers(-32768, 32768, shape).astype(np.int16) for shape in shapes]
    op = Add(x, y, results=[z], pot_scale_int16=False)
    (wanted,) = run_litert(graph_of(op), arrays, optimized=True)
    with following(Kernels.OPTIMIZED):
        (got,) = kernel_results(op, arrays)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("x", "y", "row"),
    [
        ((2, 3), (2, 3), (6, False)),
        ((), (), (1, False)),
        ((2, 3), (3,), (3, False)),
        ((2, 3), (2, 1), (3, True)),
        ((2, 3, 1), (2, 1, 1), (3, True)),
        ((4, 1), (1, 3), (3, True)),
        ((4, 1, 3), (1,), (12, True)),  # an axis of size 1 in both shapes does not count
        ((2, 1, 4, 1, 9), (1, 3, 1, 5, 9), (0, False)),  # the repeated operand changes three times
    ],
)
def test_rows(x: tuple[int, ...], y: tuple[int, ...], row: tuple[int, bool]) -> None:
    assert row_of(x, y) == row
    assert row_of(y, x) == row
