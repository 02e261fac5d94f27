# SPDX-License-Identifier: Apache-2.0
"""Bits, buckets, diagonals and distinct elements against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit as ck
from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8, u16, u32
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Shape, Value
from circlekit.ops.arithmetic.bits import (
    Bitcast,
    BitwiseXor,
    BroadcastArgs,
    Bucketize,
    MatrixDiag,
    MatrixSetDiag,
    RightShift,
    Unique,
)
from tests.ops.litert import assert_close, check, graph_of, kernel_results, run_litert, var


def data(dtype: str, *shape: int) -> Array:
    numbers = np.random.default_rng(sum(shape)).uniform(-9, 9, shape)
    return (np.abs(numbers) if dtype == "u1" else numbers).astype(dtype)


@pytest.mark.parametrize(
    ("before", "shape", "after", "wanted"),
    [
        (f32, (2, 3), i32, (2, 3)),
        (i64, (2, 3), i16, (2, 3, 4)),
        (u8, (2, 4), u32, (2,)),
        (i8, (3,), u8, (3,)),
    ],
)
def test_bitcast(before: DType, shape: Any, after: DType, wanted: Any) -> None:
    x = np.random.default_rng(1).integers(0, 100, shape).astype(before.numpy)
    op = Bitcast(var(x), results=[Value("y", after, wanted)])
    assert op.infer() == op.output.type
    check(op, x)


def test_bitcast_that_does_not_fit() -> None:
    with pytest.raises(ModelError, match="BITCAST: expected a declared result"):
        Bitcast(Value("x", u8, (2, 3)))
    op = Bitcast(Value("x", u8, (2, 3)), results=[Value("y", u16, (2,))])
    with pytest.raises(ShapeError, match=r"BITCAST to u16: expected a last dimension of 2, got \[2,3\]"):
        op.infer()


@pytest.mark.parametrize(("before", "after"), [("i4", "i8"), ("i4", "i4"), ("i8", "i4")])
def test_bitcast_of_packed_integers_has_no_kernel(before: str, after: str) -> None:
    """An array has one element of int4 in each byte, a file two."""
    model = ck.parse(f"graph main(%x: {before}[4]) -> %y {{ %y = Bitcast(%x) : {after}[4] }}")
    with pytest.raises(UnsupportedError, match=f"BITCAST from {before} to {after} has no kernel"):
        ck.run(model, [np.zeros(4, np.int8)])


@pytest.mark.parametrize("kind", [BitwiseXor, RightShift])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (4,)])
def test_xor_and_shift(kind: type[Op], dtype: str, shape: tuple[int, ...]) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(2)
    x = rng.integers(info.min, info.max, (2, 3, 4), dtype=dtype, endpoint=True)
    # some shifts are negative, some exceed the bits of the dtype
    y = rng.integers(max(info.min, -9), 40, shape).astype(dtype)
    check(kind(var(x), var(y)), x, y)


def test_bucketize_refuses_boundaries_that_descend() -> None:
    with pytest.raises(ShapeError, match=r"expected ascending boundaries, got \[2.0, 1.0\]"):
        Bucketize(Value("x", f32, (2,)), boundaries=(2.0, 1.0))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_bucketize(dtype: str) -> None:
    x = np.array([[-5, 0, 2 - 1e-12, 2], [3, 10, 11, 200]]).astype(dtype)  # only float64 holds 2 - 1e-12
    op = Bucketize(var(x), boundaries=(0.0, 2.0, 2.0, 10.5))
    check(op, x)


@pytest.mark.parametrize("dtype", ["f4", "i1", "i2", "i4", "i8", "u1"])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_matrix_diag(dtype: str, shape: tuple[int, ...]) -> None:
    x = data(dtype, *shape)
    check(MatrixDiag(var(x)), x)


@pytest.mark.parametrize("dtype", ["f4", "i1", "i2", "i4", "i8", "u1"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 4), (2, 4, 2)])
def test_matrix_set_diag(dtype: str, shape: tuple[int, ...]) -> None:
    x, diagonal = data(dtype, *shape), data(dtype, *shape[:-2], min(shape[-2:]))
    check(MatrixSetDiag(var(x), var(diagonal)), x, diagonal)


@pytest.mark.parametrize(
    ("shape", "diagonal", "expected"),
    [
        ((3, 4), (4,), r"\[3\], got \[4\]"),
        ((2, 3, 3), (3,), r"\[2,3\], got \[3\]"),
        ((None, 3, None), (2, 2, 3), r"\[\?,\?\], got \[2,2,3\]"),
    ],
)
def test_matrix_set_diag_checks_the_diagonal_before_a_run(
    shape: Shape, diagonal: Shape, expected: str
) -> None:
    with pytest.raises(ShapeError, match=f"diagonal: expected shape {expected}"):
        MatrixSetDiag(Value("x", f32, shape), Value("d", f32, diagonal))


def test_matrix_set_diag_takes_any_diagonal_of_an_unknown_size() -> None:
    assert MatrixSetDiag(Value("x", f32, (None, 3)), Value("d", f32, (3,))).output.shape == (None, 3)


@pytest.mark.parametrize("dtype", ["f4", "i1", "i2", "i4", "i8", "u1"])
@pytest.mark.parametrize("index", [i32, i64])
def test_unique(dtype: str, index: DType) -> None:
    x = np.array([4, 9, 4, 1, 9, 9, 0, 4], dtype)
    op = Unique(var(x), idx_out_type=index)
    assert [v.shape for v in op.results] == [(None,), (8,)]
    # without ``check``, which requires that the rule knows the shapes of all results
    for got, wanted in zip(kernel_results(op, [x.copy()]), run_litert(graph_of(op), [x]), strict=True):
        assert_close(got, wanted)


@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize(("a", "b"), [([2, 1, 3], [5, 1]), ([1], [4, 3]), ([2, 3], [2, 3])])
def test_broadcast_args(dtype: str, a: list[int], b: list[int]) -> None:
    x, y = np.array(a, dtype), np.array(b, dtype)
    check(BroadcastArgs(var(x), var(y)), x, y)
    # now all sizes are above 1, and the last ones differ
    with pytest.raises(ShapeError, match="do not broadcast"):
        kernel_results(BroadcastArgs(var(x), var(y)), [x + 7, y + 10])
