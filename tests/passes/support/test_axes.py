# SPDX-License-Identifier: Apache-2.0
"""Permutations read from transposes, and values that can be transposed."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, f32, i8
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Shape, Value
from circlekit.ops.movement.slice import StridedSlice
from circlekit.passes.support.axes import (
    constant_perm,
    is_movable,
    is_movable_constant,
    last_axis_stride,
    permuted_array,
    size_in_bytes,
)


@pytest.mark.parametrize(
    ("call", "perm"),
    [
        ("Transpose(%x, [0, 2, 1])", (0, 2, 1)),
        ("Transpose(%x, [-3, -1, -2])", (0, 2, 1)),
        ("Transpose(%x, %i) : f32[?,?,?]", None),
        ("Transpose(%u, [0, 2, 1]) : f32[*]", None),
        ("Neg(%x)", None),
    ],
)
def test_constant_permutation(call: str, perm: tuple[int, ...] | None) -> None:
    model = parse_model(f"graph main(%x: f32[2,3,4], %i: i32[3], %u: f32[*]) -> %y {{ %y = {call} }}")
    assert constant_perm(model.main.ops[0]) == perm
    assert constant_perm(None) is None


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        (f32, (2, 3), 24),
        (DType.INT4, (3,), 2),
        (DType.INT4, (4,), 2),
        (DType.STRING, (3,), 3),
        (i8, (), 1),
        (f32, (None, 3), 12),
    ],
)
def test_size_in_bytes(dtype: DType, shape: Shape, size: int) -> None:
    assert size_in_bytes(Value("x", dtype, shape)) == size


def test_movable_values() -> None:
    """Variables, quantization of unknown form and constants of a larger rank cannot be transposed."""
    blockwise = Quantization(details={"": "BlockwiseQuantization"})
    plain = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
    zeros = np.zeros((2, 3), np.int8)
    values = [Value.constant("k", zeros, q) for q in (None, plain, blockwise)]
    variable = Value.constant("v", zeros)
    variable.is_variable = True
    assert [is_movable(v) for v in (*values, variable)] == [True, True, False, False]
    assert [is_movable_constant(v, 2) for v in (*values, variable)] == [True, True, False, False]
    assert is_movable_constant(values[0], 3)
    assert not is_movable_constant(values[0], 1)
    assert not is_movable_constant(Value("x", f32, (2, 3)), 2)


def test_permuted_array_of_lower_rank() -> None:
    array = np.arange(6).reshape(2, 3)
    found = permuted_array(array, (0, 3, 1, 2))
    np.testing.assert_array_equal(found, array.reshape(1, 1, 2, 3).transpose(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("shape", "operands", "attributes", "stride"),
    [
        ("4,6", "[0, 1], [4, 6], [1, 2]", "", 2),
        ("4,6", "[0, 5], [4, 0], [1, -3]", "", -3),
        ("4,6", "[1], [4], [2]", "", 1),
        ("?,?", "%b, %b, [1, 2]", "", 2),
        ("4,6", "[0, 1], [4, 6], %b", "", None),
        ("4,6", "[0, 1], [4, 6], [1, 2]", "{shrink_axis_mask: 2}", None),
        ("4,6", "[0, 0, 0], [1, 4, 6], [1, 1, 2]", "{new_axis_mask: 4}", None),
        ("*", "[0, 1], [4, 6], [1, 2]", "", None),
    ],
)
def test_stride_of_the_last_axis(shape: str, operands: str, attributes: str, stride: int | None) -> None:
    body = f"%y = StridedSlice(%x, {operands}) {attributes}"
    op = parse_model(f"graph main(%x: f32[{shape}], %b: i32[2]) -> %y {{ {body} }}").main.ops[0]
    assert isinstance(op, StridedSlice)
    assert last_axis_stride(op) == stride
