# SPDX-License-Identifier: Apache-2.0
"""Operators that make, read or change shapes, against LiteRT."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, f32, i32, i64
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.movement.repeat import BroadcastTo, Fill, Range, Tile
from circlekit.ops.movement.shape import (
    ExpandDims,
    Rank,
    Reshape,
    Shape,
    Squeeze,
    Transpose,
)
from tests.ops.litert import check, const, ints, kernel_results, run_litert, var
from tests.ops.litert import graph_of as graph

DTYPES = ["f4", "f2", "i4", "i8", "i2", "i1", "u1", "?"]


def data(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [[24], [-1], [4, -1], [2, 3, 4], [1, -1, 1, 2, 3], [2, 12, -1]])
def test_reshape(dtype: str, shape: list[int]) -> None:
    x = data(dtype, 2, 3, 4)
    check(Reshape(var(x), ints(shape)), x)
    check(Reshape(var(x), new_shape=shape), x)


def test_reshape_to_and_from_a_scalar() -> None:
    x = data("f4", 1, 1)
    check(Reshape(var(x), new_shape=[0]), x)
    check(Reshape(var(x[0, 0]), ints([1, -1])), x[0, 0])


def test_reshape_to_a_shape_that_is_known_only_in_a_run() -> None:
    x, shape = data("f4", 2, 6), np.array([3, -1], np.int32)
    op = Reshape(var(x), var(shape))
    assert op.output.shape == (None, None)
    (got,), (wanted,) = kernel_results(op, [x, shape]), run_litert(graph(op), [x, shape])
    np.testing.assert_array_equal(got, wanted)


def test_reshape_of_no_elements() -> None:
    """With 0 requested, any number would do for -1.  LiteRT computes it from the dimensions other than 0."""
    for requested in ([0, -1], [-1, 0], [-1, 6], [2, -1], [0, 4, -1], [0, 9, -1], [0, -1, 2], [0, 5]):
        x = np.zeros((2, 0, 3), np.float32)
        check(Reshape(var(x), ints(requested)), x)
    unknown = Value("x", f32, (None, 0))
    assert Reshape(unknown, ints([0, -1])).output.shape == (0, None)


def test_reshape_of_an_unknown_batch() -> None:
    x = Value("x", f32, (None, 4, 4, 8))
    assert Reshape(x, ints([-1, 128])).output.shape == (None, 128)
    assert Reshape(x, ints([2, 128])).output.shape == (2, 128)
    assert Reshape(Value("x", f32, None), ints([2, -1])).output.shape == (2, None)
    assert Reshape(Value("x", f32, (None, 0)), ints([2, 0])).output.shape == (2, 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [None, [], [0], [-3], [0, 2], [2, 2]])
def test_squeeze(dtype: str, dims: list[int] | None) -> None:
    x = data(dtype, 1, 3, 1, 4) if dims != [-3] else data(dtype, 3, 1, 4, 2)
    check(Squeeze(var(x), squeeze_dims=dims), x)


def test_squeeze_of_unknown_dimensions() -> None:
    x = Value("x", f32, (1, None, 1))
    assert Squeeze(x).output.shape is None
    assert Squeeze(x, squeeze_dims=[0, -1]).output.shape == (None,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3, [1]])
def test_expand_dims(dtype: str, dim: Any) -> None:
    x = data(dtype, 2, 3)
    check(ExpandDims(var(x), ints(dim)), x)


@pytest.mark.parametrize("out_type", [i32, i64])
@pytest.mark.parametrize("shape", [(3,), (2, 0, 4), (1, 2, 3, 4, 5)])
def test_shape_and_rank(out_type: DType, shape: tuple[int, ...]) -> None:
    x = data("f4", *shape)
    check(Shape(var(x), out_type=out_type), x)
    check(Rank(var(x)), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("perm", [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0], [-1, 0, -2]])
def test_transpose(dtype: str, perm: list[int]) -> None:
    x = data(dtype, 2, 3, 4)
    check(Transpose(var(x), ints(perm)), x)


@pytest.mark.parametrize(
    "perm",
    [*itertools.islice(itertools.permutations(range(4)), 1, 24, 5), (4, 2, 0, 3, 1), (5, 0, 4, 1, 3, 2)],
)
def test_transpose_of_high_rank(perm: tuple[int, ...]) -> None:
    x = data("f4", *range(2, 2 + len(perm)))
    check(Transpose(var(x), ints(perm)), x)


def test_transpose_of_unknown_dimensions() -> None:
    assert Transpose(Value("x", f32, (None, 2, 3)), ints([2, 0, 1])).output.shape == (3, None, 2)
    assert Transpose(Value("x", f32, None), ints([1, 0])).output.shape == (None, None)
    assert Transpose(Value("x", f32, (1, 2)), Value("p", i32, (2,))).output.shape == (None, None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [[2, 3, 4], [5, 2, 3, 4], [1, 2, 3, 4]])
def test_broadcast_to(dtype: str, shape: list[int]) -> None:
    x = data(dtype, 2, 1, 4)
    check(BroadcastTo(var(x), ints(shape)), x)


def test_broadcast_of_an_unknown_dimension() -> None:
    """The unknown dimension may be 1, which broadcasts to any size; known dimensions must fit."""
    x = Value("x", f32, (None, 3))
    assert BroadcastTo(x, ints([1, 3])).output.shape == (1, 3)
    assert BroadcastTo(x, ints([2, 1, 3])).output.shape == (2, 1, 3)
    with pytest.raises(ShapeError, match="do not broadcast"):
        BroadcastTo(x, ints([1, 4]))
    with pytest.raises(ShapeError, match="does not broadcast to"):
        BroadcastTo(x, ints([3]))
    with pytest.raises(ShapeError, match="does not broadcast to"):
        BroadcastTo(x, ints([2, 1]))


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "u1", "?"])
@pytest.mark.parametrize("multiples", [[1, 1, 1], [2, 1, 3], [1, 0, 1]])
def test_tile(dtype: str, multiples: list[int]) -> None:
    x = data(dtype, 2, 1, 4)
    check(Tile(var(x), ints(multiples)), x)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "?"])
@pytest.mark.parametrize("dims", [[], [3], [2, 0], [2, 3, 1]])
def test_fill(dtype: str, dims: list[int]) -> None:
    x = data(dtype)
    check(Fill(ints(dims), var(x)), x)


@pytest.mark.parametrize(
    "case", [(0, 10, 3), (0, 9, 3), (10, 0, -3), (-4, 4, 1), (0.1, 1, 0.07), (1, 0, -0.3), (0, 1000, 0.1)]
)
@pytest.mark.parametrize("dtype", ["f4", "i4", "i8"])
def test_range(case: tuple[float, float, float], dtype: str) -> None:
    if dtype != "f4" and any(isinstance(c, float) for c in case):
        case = (3, 20, 4)
    op = Range(*[const(c, dtype) for c in case])
    (got,) = check(op)
    assert op.output.shape == got.shape


def test_a_range_reaches_its_limit_and_has_scalar_operands() -> None:
    with pytest.raises(ShapeError, match="a range from 0 to 5 by -1 never reaches its limit"):
        Range(ints(0), ints(5), ints(-1))
    for limit in (0, 5):  # LiteRT refuses also the empty range from 0 to 0
        with pytest.raises(ShapeError, match="delta: expected a number other than 0, got 0"):
            Range(ints(0), ints(limit), ints(0))
    assert Range(ints(5), ints(5), ints(-1)).output.shape == (0,)
    with pytest.raises(ShapeError, match=r"expected limit of rank 0, got shape \[1\]"):
        Range(ints(0), ints([5]), ints(1))
    assert Range(Value("a", i32, ()), ints(5), ints(-1)).output.shape == (None,)


def test_movement_keeps_per_tensor_quantization() -> None:
    per_tensor = Quantization.per_tensor(0.5, 3)
    per_axis = Quantization(np.array([0.5, 1], np.float32), np.array([3, 4]), 0)
    x = Value("x", DType.INT8, (2, 3), None, per_tensor)
    assert Transpose(x, ints([1, 0])).output.quantization is per_tensor
    x.quantization = per_axis
    assert Transpose(x, ints([1, 0])).output.quantization is None


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: Reshape(x, ints([4, 2])), r"shape: expected 6 elements, as \[2,3\] has, got \[4, 2\]"),
        (lambda x: Reshape(x, ints([-1, -1])), "at most one -1"),
        (lambda x: Reshape(x, ints([-1, 4])), r"expected 6 elements, as \[2,3\] has, got \[-1, 4\]"),
        (lambda x: Reshape(x), "RESHAPE: expected a shape operand or the attribute new_shape, got neither"),
        (
            lambda x: Squeeze(x, squeeze_dims=[0]),
            r"squeeze_dims: expected dimensions of 1, got 2 at axis 0 of \[2,3\]",
        ),
        (lambda x: ExpandDims(x, ints(3)), "axis 3 is out of range for rank 3"),
        (lambda x: ExpandDims(x, ints([1, 2])), "expected 1 element in dim, got 2"),
        (lambda x: Shape(x), "out_type: expected i32 or i64, got f32"),
        (lambda x: Transpose(x, ints([0, 0])), r"perm: expected each axis of rank 2 once, got \[0, 0\]"),
        (lambda x: Transpose(x, Value("p", i32, (3,))), r"expected perm of shape \[2\], got \[3\]"),
        (lambda x: Transpose(x, ints([0])), r"perm: expected each axis of rank 2 once, got \[0\]"),
        (lambda x: BroadcastTo(x, ints([2, 4])), "do not broadcast"),
        (lambda x: BroadcastTo(x, ints([3])), "does not broadcast to"),
        (lambda x: Tile(x, ints([1])), "multiples: expected 2 elements, got 1"),
        (lambda x: Fill(ints([2]), x), r"value: expected a scalar, got shape \[2,3\]"),
    ],
)
def test_operands_that_do_not_fit_are_shape_errors(make: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        make(var(np.zeros((2, 3), np.float32)))


def test_versions() -> None:
    assert Transpose(var(data("f4", 2, 3)), ints([1, 0])).required_version() == 1
    assert Transpose(var(data("i1", 1, 1, 1, 1, 1)), ints([0, 1, 2, 3, 4])).required_version() == 4
    assert Transpose(var(data("f4", 1, 1, 1, 1, 1, 1)), ints([0, 1, 2, 3, 4, 5])).required_version() == 6
    assert BroadcastTo(var(data("f4", 1)), ints([2])).required_version() == 2
    assert Fill(ints([1]), var(data("?"))).required_version() == 2
