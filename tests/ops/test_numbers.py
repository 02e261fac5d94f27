# SPDX-License-Identifier: Apache-2.0
"""Random streams, complex numbers, spread data and windows, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, f32, i32, i64
from circlekit.ir.enums import ReduceWindowFunction
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.complex_numbers import ComplexAbs, Imag, Real, Rfft2d
from circlekit.ops.arithmetic.random_ops import Multinomial, RandomStandardNormal, RandomUniform
from circlekit.ops.convolution.reduce_window import Dilate, ReduceWindow
from tests.ops.litert import check, const, graph_of, kernel_results, run_litert, var
from tests.ops.stateful import check_runs

SEEDS = [(1, 2), (0, 7), (-5, 1 << 40), (1 << 62, -1)]


@pytest.mark.parametrize("kind", [RandomUniform, RandomStandardNormal])
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("shape", [(2, 3), (1000,), (4, 5, 2)])
def test_streams(kind: Any, seeds: tuple[int, int], shape: tuple[int, ...]) -> None:
    op = kind(const(shape, np.int32), seed=seeds[0], seed2=seeds[1])
    assert op.output.shape == shape
    first, second = check_runs(op, [[], []])
    assert not np.array_equal(first[0], second[0])


@pytest.mark.parametrize("dtype", [i32, i64])
@pytest.mark.parametrize("count", [1, 6, 101])
@pytest.mark.parametrize("seeds", SEEDS[:2])
def test_multinomial(dtype: DType, count: int, seeds: tuple[int, int]) -> None:
    logits = np.random.default_rng(3).normal(0, 2, (3, 5)).astype(np.float32)
    logits[0, 1] = -np.inf
    out = Value("y", dtype, (3, count))
    op = Multinomial(var(logits), const(count, np.int32), seed=seeds[0], seed2=seeds[1], results=[out])
    check_runs(op, [[logits]] * 3)


def test_without_seeds_the_stream_follows_the_name() -> None:
    def draw(name: str) -> Array:
        op = RandomStandardNormal(const([20000], np.int32), results=[Value(name, f32, (20000,))])
        return Interpreter(Model([graph_of(op)])).run([])[0]

    np.testing.assert_array_equal(draw("a"), draw("a"))
    assert not np.array_equal(draw("a"), draw("b"))
    np.testing.assert_allclose([draw("a").mean(), draw("a").std()], [0, 1], atol=0.02)


def test_a_random_operator_is_not_computed_alone() -> None:
    op = RandomUniform(const([2], np.int32))
    assert not op.pure
    with pytest.raises(UnsupportedError, match="RANDOM_UNIFORM keeps state, it cannot be computed"):
        op.call(lambda graph, inputs: [], np.array([2], np.int32))


# -- complex numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Real, Imag, ComplexAbs])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_parts(kind: Any, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))).astype(dtype)
    check(kind(var(x)), x)


def test_parts_of_real_numbers() -> None:
    with pytest.raises(ShapeError, match="expected complex numbers for input, got f32"):
        Real(Value("x", f32, (2,)))


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 6), (5, 9)])
@pytest.mark.parametrize("length", [(4, 4), (2, 8), (8, 2)])
def test_rfft2d(shape: tuple[int, ...], length: tuple[int, int]) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    op = Rfft2d(var(x), const(length, np.int32))
    (got,) = kernel_results(op, [x.copy()])
    assert got.dtype == np.complex64
    assert op.output.shape == got.shape
    (wanted,) = run_litert(graph_of(op), [x])
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            getattr(got, part), getattr(wanted, part), atol=1e-5 * np.abs(wanted).max()
        )


def test_rfft2d_of_other_lengths() -> None:
    op = Rfft2d(Value("x", f32, (4, 6)), const([4, 6], np.int32))
    with pytest.raises(ShapeError, match=r"expected powers of two for fft_length, got \[4, 6\]"):
        kernel_results(op, [np.zeros((4, 6), np.float32)])


# -- windows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "i4", "i1", "i8"])
@pytest.mark.parametrize("steps", [[1, 1, 1], [2, 1, 3], [1, 3, 1], [2, 2, 2]])
def test_dilate(dtype: str, steps: list[int]) -> None:
    x, fill = np.arange(24).reshape(2, 3, 4).astype(dtype), np.array(-1, dtype)
    check(Dilate(var(x), const(steps, np.int32), const(fill)), x)


@pytest.mark.parametrize(
    "function", [f for f in ReduceWindowFunction if f.name not in ("UNSUPPORTED", "ALL", "ANY")]
)
@pytest.mark.parametrize("dtype", ["f4", "i4", "i2", "u1", "i8"])
@pytest.mark.parametrize(
    "window",
    [([2, 2], [1, 1], [1, 1]), ([1, 3], [2, 1], [1, 2]), ([3, 2], [1, 3], [2, 1]), ([9, 1], [1, 1], [1, 1])],
)
def test_reduce_window(function: ReduceWindowFunction, dtype: str, window: Any) -> None:
    x = np.random.default_rng(1).integers(0, 5, (6, 7)).astype(dtype)
    lists = [const(n, np.int64) for n in window]
    check(ReduceWindow(var(x), const(np.array(3, dtype)), *lists, reduce_function=function), x)


@pytest.mark.parametrize("function", [ReduceWindowFunction.ALL, ReduceWindowFunction.ANY])
@pytest.mark.parametrize("start", [False, True])
def test_reduce_truth(function: ReduceWindowFunction, start: bool) -> None:
    x = np.random.default_rng(1).uniform(size=(6, 7)) < 0.5
    lists = [const(n, np.int64) for n in ([2, 2], [1, 1], [1, 1])]
    check(ReduceWindow(var(x), const(start), *lists, reduce_function=function), x)


def test_windows_have_a_number_for_each_axis() -> None:
    x = Value("x", f32, (6, 7))
    with pytest.raises(ShapeError, match=r"window_strides is \[1\], 1 or more for each axis of \[6,7\]"):
        ReduceWindow(x, const(0, np.float32), *[const(n, np.int64) for n in ([2, 2], [1], [1, 1])])
    with pytest.raises(ShapeError, match=r"dilations is \[0, 1\]"):
        Dilate(x, const([0, 1], np.int32), const(0, np.float32))
    lists = [const(n, np.int64) for n in ([2, 2], [1, 1], [1, 1])]
    op = ReduceWindow(x, const(0, np.float32), *lists)
    with pytest.raises(UnsupportedError, match="REDUCE_WINDOW by UNSUPPORTED"):
        kernel_results(op, [np.zeros((6, 7), np.float32)])
