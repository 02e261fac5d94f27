# SPDX-License-Identifier: Apache-2.0
"""Constants of parameter operands, and the same for permuted data."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import i32
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import (
    axis_after_transpose,
    permuted_axes,
    permuted_rows,
    static_int,
    static_int_vector,
    vector_length,
)
from tests.ops.litert import const


def test_static_int_vector() -> None:
    assert static_int_vector(const([1, -1], np.int64)) == [1, -1]
    assert static_int_vector(const(3, np.int32)) == [3]
    assert static_int_vector(Value("", i32, (2,))) is None
    assert static_int_vector(const([1.0], np.float32)) is None
    assert static_int_vector(None) is None


def test_static_int() -> None:
    assert static_int(const([4], np.int32), "axis") == 4
    assert static_int(Value("", i32, ()), "axis") is None
    for numbers in ([], [1, 2]):
        with pytest.raises(ShapeError, match=f"expected 1 element in axis, got {len(numbers)}"):
            static_int(const(numbers, np.int32), "axis")


def test_vector_length() -> None:
    shapes = [(3,), (None,), (), (2, 3), None]
    assert [vector_length(Value("", i32, shape)) for shape in shapes] == [3, None, None, None, None]


def test_permuted_parameters() -> None:
    perm = (0, 3, 1, 2)
    assert [axis_after_transpose(axis, perm) for axis in (0, 1, 2, 3, -1)] == [0, 2, 3, 1, 1]
    rows = permuted_rows(const([[1, 2], [3, 4], [5, 6], [7, 8]], np.int32), perm)
    assert rows is not None
    assert rows.tolist() == [[1, 2], [7, 8], [3, 4], [5, 6]]
    assert permuted_rows(const([1, 2, 3], np.int32), perm) is None
    assert permuted_rows(const(4, np.int32), perm) is None
    assert permuted_rows(Value("", i32, (4,)), perm) is None
    axes = permuted_axes(const([[-1, 1]], np.int64), perm)
    assert axes is not None
    assert axes.tolist() == [[1, 2]]
    assert axes.dtype == np.dtype(np.int64)
    assert permuted_axes(Value("", i32, (1,)), perm) is None
