# SPDX-License-Identifier: Apache-2.0
"""DILATE and REDUCE_WINDOW against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i64
from circlekit.ir.enums import ReduceWindowFunction
from circlekit.ir.value import Value
from circlekit.ops.convolution.pool import Dilate, ReduceWindow
from tests.ops.litert import check, const, kernel_results, var


@pytest.mark.parametrize("dtype", ["f4", "i4", "i1", "i8"])  # of numpy: i1 is int8, i8 is int64
@pytest.mark.parametrize("steps", [[1, 1, 1], [2, 1, 3], [1, 3, 1], [2, 2, 2]])
def test_dilate_equals_litert(dtype: str, steps: list[int]) -> None:
    x, fill = np.arange(24).reshape(2, 3, 4).astype(dtype), np.array(-1, dtype)
    check(Dilate(var(x), const(steps, np.int32), const(fill)), x)


def test_dilate_of_no_elements_has_no_elements() -> None:
    op = Dilate(Value("x", f32, (2, 0)), const([2, 3], np.int32), const(0, np.float32))
    assert op.output.shape == (3, 0)
    assert kernel_results(op, [np.zeros((2, 0), np.float32)])[0].shape == (3, 0)


@pytest.mark.parametrize(
    "function", [f for f in ReduceWindowFunction if f.name not in ("UNSUPPORTED", "ALL", "ANY")]
)
@pytest.mark.parametrize("dtype", ["f4", "i4", "i2", "u1", "i8"])
@pytest.mark.parametrize(
    "window",  # shape, strides, dilations
    [([2, 2], [1, 1], [1, 1]), ([1, 3], [2, 1], [1, 2]), ([3, 2], [1, 3], [2, 1]), ([9, 1], [1, 1], [1, 1])],
)
def test_reduce_window_equals_litert(function: ReduceWindowFunction, dtype: str, window: Any) -> None:
    x = np.random.default_rng(1).integers(0, 5, (6, 7)).astype(dtype)
    lists = [const(n, np.int64) for n in window]
    check(ReduceWindow(var(x), const(np.array(3, dtype)), *lists, reduce_function=function), x)


@pytest.mark.parametrize("function", [ReduceWindowFunction.ALL, ReduceWindowFunction.ANY])
@pytest.mark.parametrize("start", [False, True])
def test_reduce_window_of_bools_equals_litert(function: ReduceWindowFunction, start: bool) -> None:
    x = np.random.default_rng(1).uniform(size=(6, 7)) < 0.5
    lists = [const(n, np.int64) for n in ([2, 2], [1, 1], [1, 1])]
    check(ReduceWindow(var(x), const(start), *lists, reduce_function=function), x)


def test_windows_have_a_positive_number_for_each_axis() -> None:
    x = Value("x", f32, (6, 7))
    with pytest.raises(ShapeError, match=r"window_strides: .* each axis of .*, got \[1\]"):
        ReduceWindow(x, const(0, np.float32), *[const(n, np.int64) for n in ([2, 2], [1], [1, 1])])
    with pytest.raises(ShapeError, match=r"dilations: .* got \[0, 1\]"):
        Dilate(x, const([0, 1], np.int32), const(0, np.float32))


def test_the_number_to_fill_in_has_an_element() -> None:
    """LiteRT takes an empty tensor, too, but then reads a number that is not part of the model."""
    x, none = Value("x", f32, (6, 7)), const([], np.float32)
    with pytest.raises(ShapeError, match=r"init_value: expected at least 1 element, got shape \[0\]"):
        ReduceWindow(x, none, *[const([1, 1], np.int64) for _ in range(3)])
    with pytest.raises(ShapeError, match=r"padding_value: expected at least 1 element, got shape \[0\]"):
        Dilate(x, const([2, 1], np.int32), none)


def test_a_window_without_a_function_is_refused() -> None:
    x = Value("x", f32, (6, 7))
    lists = [const(n, np.int64) for n in ([2, 2], [1, 1], [1, 1])]
    op = ReduceWindow(x, const(0, np.float32), *lists)
    with pytest.raises(UnsupportedError, match="REDUCE_WINDOW by UNSUPPORTED"):
        kernel_results(op, [np.zeros((6, 7), np.float32)])


@pytest.mark.parametrize("computed", [None, 0, 1, 2])
def test_windows_that_are_computed_leave_the_rank_only(computed: int | None) -> None:
    lists = [const(n, np.int64) for n in ([2, 2], [1, 1], [1, 1])]
    if computed is not None:
        lists[computed] = Value("n", DType.INT64, (2,))
    op = ReduceWindow(Value("x", f32, (6, 7)), const(0, np.float32), *lists)
    assert op.output.shape == ((5, 6) if computed is None else (None, None))
    assert ReduceWindow(Value("x", f32, None), const(0, np.float32), *lists).output.shape is None


@pytest.mark.parametrize("function", list(ReduceWindowFunction))
def test_only_functions_that_return_one_of_their_operands_keep_the_scale_of_integers(
    function: ReduceWindowFunction,
) -> None:
    lists = [const(n, np.int64) for n in ([2, 2], [1, 1], [1, 1])]
    op = ReduceWindow(Value("x", f32, (6, 7)), const(0, np.float32), *lists, reduce_function=function)
    assert (op.integer_fault() is None) == (function.name in ("MAXIMUM", "MINIMUM"))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("shape", [0, 0]),
        ("strides", [0, 1]),
        ("dilations", [-1, 1]),
        ("dilations", [0, 0]),
        ("shape", [1, 1, 1]),
    ],
)
def test_numbers_of_windows_are_checked_when_they_are_known(name: str, numbers: list[int]) -> None:
    windows = {"shape": [2, 2], "strides": [1, 1], "dilations": [1, 1]} | {name: numbers}
    arrays = [np.array(n, np.int64) for n in windows.values()]
    x = np.ones((4, 8), np.float32)
    lists = [Value(f"n{i}", i64, (None,)) for i in range(3)]
    op = ReduceWindow(var(x), const(0, np.float32), *lists, reduce_function=ReduceWindowFunction.ADD)
    with pytest.raises(ShapeError, match=rf"window_{name}: expected one number for each axis"):
        kernel_results(op, [x, *arrays])
