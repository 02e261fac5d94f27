# SPDX-License-Identifier: Apache-2.0
"""Permutations read from transposes, and values that can be transposed."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest

from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value
from circlekit.ops.movement.slice import StridedSlice
from circlekit.passes.support.axes import (
    constant_perm,
    inverse,
    is_movable,
    is_movable_constant,
    keeps_order,
    keeps_shape,
    last_axis_stride,
    perms_of,
    permuted_array,
    permuted_constant,
    permuted_quantization,
    permuted_shape,
    taken,
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


def test_movable_values() -> None:
    """Variables, quantization of unknown form and constants of a larger rank cannot be transposed."""
    blockwise = Quantization(details={"": "BlockwiseQuantization"})
    plain = Quantization.per_tensor(1.0)
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


@pytest.mark.parametrize("shape", list(product((1, 2, 3), repeat=3)))
def test_permutations_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    """The oracle is numpy's transpose.  An unknown dimension may have any size, here 5."""
    array = np.arange(math.prod(shape)).reshape(shape)
    for perm in permutations(range(3)):
        moved = array.transpose(perm)
        assert permuted_shape(shape, perm) == moved.shape
        assert np.array_equal(moved.transpose(inverse(perm)), array)
        is_same_order = np.array_equal(moved.reshape(-1), array.reshape(-1))
        assert keeps_order(shape, perm) == is_same_order
        assert keeps_shape(shape, perm) == (
            moved.shape == shape and is_same_order and _moves_ones(shape, perm)
        )
        call = f"%y = Reshape(%x, {list(moved.shape)})"
        found = perms_of(
            parse_model(f"graph main(%x: f32{list(shape)}) -> %y {{ {call} }}").main.ops[0], [perm]
        )
        assert found == ([perm] if is_same_order else [])
        for axis in range(3):
            unknown = tuple(None if a == axis else dim for a, dim in enumerate(shape))
            larger = tuple(5 if dim is None else dim for dim in unknown)
            assert keeps_order(unknown, perm) == keeps_order(larger, perm)
            assert keeps_shape(unknown, perm) == keeps_shape(larger, perm)
    assert keeps_order((None, 1, None), (0, 1, 2)) is False


def _moves_ones(shape: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    return all(shape[old] == 1 for new, old in enumerate(perm) if new != old)


def test_shapes_of_a_lower_rank_are_kept_if_only_dimensions_of_1_move() -> None:
    assert keeps_shape((3,), (1, 0, 2))
    assert keeps_shape((), (1, 2, 0))
    assert not keeps_shape((3,), (0, 2, 1))
    assert not keeps_shape((1, 1, 1, 3), (1, 0, 2))
    assert not keeps_shape((None,), (2, 0, 1))


@pytest.mark.parametrize(
    ("shape", "call"),
    [
        ("2,1,?", "Reshape(%x, [2,3,1])"),
        ("*", "Reshape(%x, [2,3,1])"),
        ("2,1,3", "Neg(%x)"),
        ("2,1,3,1", "Reshape(%x, [2,3,1])"),
        ("2,1,3", "Reshape(%x, [6])"),
    ],
)
def test_other_operators_are_no_permutations(shape: str, call: str) -> None:
    text = f"graph main(%x: f32[{shape}]) -> %y {{ %y = {call} }}"
    assert not perms_of(parse_model(text).main.ops[0], [(0, 2, 1)])


@pytest.mark.parametrize("perm", list(permutations(range(4))))
def test_scales_follow_their_axis(perm: tuple[int, ...]) -> None:
    scales = Quantization(np.array([1.0, 2.0, 4.0], np.float32), np.array([0, 1, 2]), 1)
    value = Value.constant("k", np.arange(6, dtype=np.int8).reshape(2, 3), scales)
    made = permuted_constant(value, perm)
    assert made.quantization is not None
    axis = made.quantization.quantized_dimension
    assert made.static_shape[axis] == 3
    assert perm[axis] == 3
    real = (value.array() - np.arange(3)) * scales.scale
    shape = [3 if a == axis else 1 for a in range(4)]
    found = (made.array() - np.arange(3).reshape(shape)) * scales.scale.reshape(shape)
    np.testing.assert_array_equal(found, real.reshape(1, 1, 2, 3).transpose(perm))
    whole = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64), 1)
    assert permuted_quantization(whole, perm) is whole
    assert permuted_quantization(None, perm) is None


@pytest.mark.parametrize("indices", [[2, 0, 1], [1, 2]])
def test_scales_follow_the_rows_that_are_taken(indices: list[int]) -> None:
    scales = Quantization(np.array([1.0, 2.0, 4.0], np.float32), np.array([0, 1, 2]), 0)
    value = Value.constant("k", np.arange(6, dtype=np.int8).reshape(3, 2), scales)
    order = np.array(indices)
    rows = taken(Graph("main"), value, order, 0)
    assert rows.quantization is not None
    np.testing.assert_array_equal(rows.array(), value.array()[order])
    np.testing.assert_array_equal(rows.quantization.scale, scales.scale[order])
    np.testing.assert_array_equal(rows.quantization.zero_point, scales.zero_point[order])
    columns = taken(Graph("main"), value, np.array([1, 0]), 1)
    assert columns.quantization == scales
    np.testing.assert_array_equal(columns.array(), value.array()[:, ::-1])
