# SPDX-License-Identifier: Apache-2.0
"""Segments, sparse data, bits and diagonals, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8, u16, u32
from circlekit.ir.enums import CombinerType
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
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
from circlekit.ops.constant_storage import dense
from circlekit.ops.movement.sparse import Densify, EmbeddingLookupSparse, HashtableLookup, SparseToDense
from circlekit.ops.reduction.segments import (
    SegmentSum,
    UnsortedSegmentMax,
    UnsortedSegmentMin,
    UnsortedSegmentProd,
    UnsortedSegmentSum,
)
from tests.ops.litert import assert_close, check, const, graph_of, kernel_results, run_litert, var

UNSORTED: list[Any] = [UnsortedSegmentSum, UnsortedSegmentProd, UnsortedSegmentMax, UnsortedSegmentMin]


def data(dtype: str, *shape: int) -> Array:
    return (np.random.default_rng(sum(shape)).uniform(-3, 3, shape) * 3).astype(dtype)


def ints(numbers: Any) -> Value:
    return const(numbers, np.int32)


@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("shape", [(6,), (6, 3, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_segment_sum(dtype: str, shape: tuple[int, ...], known: bool) -> None:
    x, ids = data(dtype, *shape), np.array([0, 0, 1, 2, 2, 2], np.int32)
    op = SegmentSum(var(x), const(ids) if known else var(ids))
    assert op.output.shape == (3 if known else None, *shape[1:])
    check(op, x, *([] if known else [ids]))


@pytest.mark.parametrize("ids", [[1, 1], [0, 2], [1, 0]])
def test_segments_are_sorted(ids: list[int]) -> None:
    with pytest.raises(ModelError, match="expected segment_ids that start at 0 and grow by 0 or 1"):
        kernel_results(SegmentSum(Value("x", f32, (2,)), ints(ids)), [np.zeros(2, np.float32)])


@pytest.mark.parametrize("kind", UNSORTED)
@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("ids", [[3, 0, 3, -1, 0, 1], [[3, 0], [1, -1], [0, 0]], [5, 5, 5, 5, 5, 5]])
def test_unsorted_segments(kind: Any, dtype: str, ids: Any) -> None:
    index = np.array(ids, np.int32)
    x = data(dtype, *index.shape, 4)
    check(kind(var(x), const(index), ints(7)), x)
    check(kind(var(x), var(index), ints([7])), x, index)
    check(kind(var(x[..., :0]), const(index), ints(7)), x[..., :0])


def test_ids_beyond_the_segments() -> None:
    x = Value("x", f32, (2, 3))
    with pytest.raises(ModelError, match="expected segment_ids below 4, got 4"):
        kernel_results(UnsortedSegmentSum(x, ints([0, 4]), ints(4)), [np.zeros((2, 3), np.float32)])
    with pytest.raises(
        ShapeError, match=r"expected the shape of segment_ids to be a prefix of \[2,3\], got \[3\]"
    ):
        UnsortedSegmentSum(x, ints([0, 1, 2]), ints(4))


# -- sparse data -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i1", "u1"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_to_dense(dtype: str, index: Any) -> None:
    values, default = data(dtype, 3), np.array(7, dtype)
    places = const([[0, 1], [1, 2], [2, 0]], index)
    op = SparseToDense(places, const([3, 4], index), var(values), var(default))
    assert op.required_version() == {"i8": 2, "i1": 3, "u1": 3}.get(dtype, 1)
    check(op, values, default)
    single = np.array(5, dtype)
    check(SparseToDense(places, const([3, 4], index), var(single), const(default)), single)
    check(SparseToDense(const([1, 3, 4], index), const([6], index), var(values), const(default)), values)
    check(SparseToDense(const(4, index), const([6], index), var(single), const(default)), single)


def test_sparse_to_dense_of_bad_places() -> None:
    op = SparseToDense(ints([[0, 5]]), ints([3, 4]), Value("v", f32, (1,)), const(0, np.float32))
    with pytest.raises(ModelError, match=r"SPARSE_TO_DENSE: index 5 is out of range for \[3, 4\] entries"):
        kernel_results(op, [np.zeros(1, np.float32)])


def sparse_value() -> Value:
    """[[1 0 2 3], [0 4 0 0], [0 0 5 0]] with dense rows and compressed columns."""
    value = Value("w", f32, (3, 4), np.array([1, 2, 3, 4, 5], np.float32).view(np.uint8))
    segments, indices = np.array([0, 3, 4, 5], np.int32), np.array([0, 2, 3, 1, 2], np.int32)
    value.extra["sparsity"] = {
        "traversal_order": np.array([0, 1], np.int32),
        "dim_metadata": [
            {"format": "DENSE", "dense_size": 3},
            {
                "format": "SPARSE_CSR",
                "array_segments": {"": "Int32Vector", "values": segments},
                "array_indices": {"": "Int32Vector", "values": indices},
            },
        ],
    }
    return value


def test_densify_of_a_constant() -> None:
    graph = graph_of(Densify(sparse_value()))
    (out,) = Interpreter(Model([graph])).run([])
    np.testing.assert_array_equal(out, [[1, 0, 2, 3], [0, 4, 0, 0], [0, 0, 5, 0]])


def test_blocks_of_sparse_data() -> None:
    """A block of 2 x 2 at row block 1, column block 0, and one at 1, 1: TFLite's own example."""
    levels = [
        {"format": "DENSE", "dense_size": 2},
        {
            "format": "SPARSE_CSR",
            "array_segments": {"values": [0, 0, 2]},
            "array_indices": {"values": [0, 1]},
        },
        {"dense_size": 2},
        {"dense_size": 2},
    ]
    sparsity = {"traversal_order": [0, 1, 2, 3], "block_map": [0, 1], "dim_metadata": levels}
    out = dense(np.arange(1, 9, dtype=np.int8), (4, 4), sparsity)
    np.testing.assert_array_equal(out, [[0] * 4, [0] * 4, [1, 2, 5, 6], [3, 4, 7, 8]])
    with pytest.raises(ModelError, match="the sparsity has levels"):
        dense(np.zeros(1), (4,), sparsity)


@pytest.mark.parametrize("combiner", list(CombinerType))
@pytest.mark.parametrize("rank", [2, 3])
def test_embedding_lookup_sparse(combiner: CombinerType, rank: int) -> None:
    table, weights = data("f4", 5, 2, 3), np.array([1, 2, -4, 0.5], np.float32)
    places = [[0, 0], [2, 0], [2, 1], [3, 0]] if rank == 2 else [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 2, 0]]
    shape = [4, 2] if rank == 2 else [2, 3, 2]
    op = EmbeddingLookupSparse(
        ints([1, 3, 0, 1]), ints(places), ints(shape), var(weights), var(table), combiner=combiner
    )
    check(op, weights, table)


@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_hashtable_lookup(dtype: str) -> None:
    lookup, keys = np.array([1234, -292, -11, 0], np.int32), np.array([-11, 0, 1234], np.int32)
    table = data(dtype, 3, 2)
    check(HashtableLookup(var(lookup), var(keys), var(table)), lookup, keys, table)


# -- bits --------------------------------------------------------------------------------------


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
    op = Bitcast(Value("x", u8, (2, 3)), results=[Value("y", u16, (2,))])
    with pytest.raises(ShapeError, match=r"BITCAST to u16: expected a last dimension of 2, got \[2,3\]"):
        op.infer()


@pytest.mark.parametrize("kind", [BitwiseXor, RightShift])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (4,)])
def test_bits(kind: type[Op], dtype: str, shape: tuple[int, ...]) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(2)
    x = rng.integers(info.min, info.max, (2, 3, 4), dtype=dtype, endpoint=True)
    y = rng.integers(max(info.min, -9), 40, shape).astype(dtype)
    check(kind(var(x), var(y)), x, y)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_bucketize(dtype: str) -> None:
    x = np.array([[-5, 0, 1, 2], [3, 10, 11, 200]], dtype)
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


@pytest.mark.parametrize("dtype", ["f4", "i1", "i2", "i4", "i8", "u1"])
@pytest.mark.parametrize("index", [i32, i64])
def test_unique(dtype: str, index: DType) -> None:
    x = np.array([4, 9, 4, 1, 9, 9, 0, 4], dtype)
    op = Unique(var(x), idx_out_type=index)
    assert [v.shape for v in op.results] == [(None,), (8,)]
    for got, wanted in zip(kernel_results(op, [x.copy()]), run_litert(graph_of(op), [x]), strict=True):
        assert_close(got, wanted)


@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize(("a", "b"), [([2, 1, 3], [5, 1]), ([1], [4, 3]), ([2, 3], [2, 3])])
def test_broadcast_args(dtype: str, a: list[int], b: list[int]) -> None:
    x, y = np.array(a, dtype), np.array(b, dtype)
    check(BroadcastArgs(var(x), var(y)), x, y)
    with pytest.raises(ShapeError, match="do not broadcast"):
        kernel_results(BroadcastArgs(var(x), var(y)), [x + 7, y + 9])
