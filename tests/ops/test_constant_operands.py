# SPDX-License-Identifier: Apache-2.0
"""Functions that read operands such as axes and shapes: what they return for constants and other operands."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import i32
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import (
    listed_shape,
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


def test_listed_shape() -> None:
    assert listed_shape(const([2, 3], np.int32)) == (2, 3)
    assert listed_shape(Value("", i32, (2,))) == (None, None)
    assert listed_shape(Value("", i32, (None,))) is None
