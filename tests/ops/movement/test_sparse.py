# SPDX-License-Identifier: Apache-2.0
"""Sparse data and lookups by key against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import LimitError, ModelError, ShapeError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.enums import CombinerType
from circlekit.ir.graph import Model
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.value import Array, Shape, Value
from circlekit.ops.constant_operands import dense
from circlekit.ops.movement.sparse import Densify, EmbeddingLookupSparse, HashtableLookup, SparseToDense
from tests.ops.litert import check, const, graph_of, ints, kernel_results, var


def data(dtype: str, *shape: int) -> Array:
    return (np.random.default_rng(sum(shape)).uniform(-3, 3, shape) * 3).astype(dtype)


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
    op = SparseToDense(ints([[3, 0]]), ints([3, 4]), Value("v", f32, (1,)), const(0, np.float32))
    with pytest.raises(ModelError, match="SPARSE_TO_DENSE: index 3 is out of range for 3 entries"):
        kernel_results(op, [np.zeros(1, np.float32)])


def test_sparse_to_dense_takes_one_value_for_each_index() -> None:
    op = SparseToDense(ints([0, 2]), ints([4]), Value("v", f32, None), const(0, np.float32))
    with pytest.raises(ShapeError, match="values: expected 2 elements, one per index, got 1"):
        kernel_results(op, [np.zeros(1, np.float32)])


@pytest.mark.parametrize(
    ("indices", "shape", "values", "default", "message"),
    [
        ((2, 3), [3, 4], (2,), (), "expected indices of 2 coordinates, .*, got 3"),
        ((2, None), [3, 4], (3,), (), "values: expected 2 elements, one per index, got 3"),
        ((), [3, 4], (), (), "expected indices of 2 coordinates, .*, got 1"),
        ((2,), [3], (3,), (), "values: expected 2 elements"),
        ((2,), [3], (2,), (0,), "default_value: expected 1 element"),
    ],
)
def test_sparse_to_dense_checks_shapes_before_a_run(
    indices: Shape, shape: list[int], values: Shape, default: Shape, message: str
) -> None:
    operands = Value("i", i32, indices), ints(shape), Value("v", f32, values), Value("d", f32, default)
    with pytest.raises(ShapeError, match=message):
        SparseToDense(*operands)


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
    """Row block 1 has two blocks of 2 x 2, in column blocks 0 and 1: TFLite's own example."""
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
    with pytest.raises(ModelError, match="the sparsity has traversal order"):
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


def test_embedding_lookup_sparse_of_unsorted_buckets() -> None:
    """LiteRT accepts unsorted buckets with SUM.  With MEAN or SQRTN, LiteRT would divide a bucket twice."""
    table, weights = data("f4", 5, 2), np.array([1, 2, -4, 0.5], np.float32)
    operands = (
        ints([1, 3, 0, 1]),
        ints([[2, 0], [0, 0], [2, 1], [1, 0]]),
        ints([4, 2]),
        var(weights),
        var(table),
    )
    check(EmbeddingLookupSparse(*operands, combiner=CombinerType.SUM), weights, table)
    with pytest.raises(ModelError, match="expected indices sorted by bucket, got unsorted ones"):
        kernel_results(EmbeddingLookupSparse(*operands, combiner=CombinerType.MEAN), [weights, table])


@pytest.mark.parametrize(
    ("ids", "indices", "shape", "weights", "value", "message"),
    [
        ((4,), (3, 2), [4, 2], (4,), (5, 3), r"expected indices of shape \[4,2\], got \[3,2\]"),
        ((4,), (4, 3), [4, 2], (4,), (5, 3), r"expected indices of shape \[4,2\], got \[4,3\]"),
        ((4,), (4, 2), [4, 2], (3,), (5, 3), r"expected weights of shape \[4\], got \[3\]"),
        ((4, 1), (4, 2), [4, 2], (4,), (5, 3), r"expected ids of shape \[n\], got \[4,1\]"),
        ((4,), (4, 2), [4, 2], (4,), (), "expected value of rank 2 or more, got shape"),
        ((4,), (4, 0), [], (4,), (5, 3), "dense_shape: expected 1 element or more"),
    ],
)
def test_embedding_lookup_sparse_checks_shapes_before_a_run(
    ids: Shape, indices: Shape, shape: list[int], weights: Shape, value: Shape, message: str
) -> None:
    places = Value("i", i32, ids), Value("j", i32, indices), ints(shape)
    with pytest.raises(ShapeError, match=message):
        EmbeddingLookupSparse(*places, Value("w", f32, weights), Value("t", f32, value))


@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_hashtable_lookup(dtype: str) -> None:
    lookup, keys = np.array([1234, -292, -11, 0], np.int32), np.array([-11, 0, 1234], np.int32)
    table = data(dtype, 3, 2)
    check(HashtableLookup(var(lookup), var(keys), var(table)), lookup, keys, table)


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_hashtable_lookup_of_few_entries(count: int, words: bool) -> None:
    keys, lookup = np.array([3, 5], np.int32)[:count], np.array([5, 4, 3, 6], np.int32)
    table = np.array([b"three", b"five"], object) if words else np.array([30, 50], np.int32)
    value = Value("t", DType.STRING if words else i32, (count,))
    out, hits = kernel_results(HashtableLookup(var(lookup), var(keys), value), [lookup, keys, table[:count]])
    entries, nothing = dict(zip(keys.tolist(), table.tolist(), strict=False)), b"" if words else 0
    assert out.tolist() == [entries.get(key, nothing) for key in lookup.tolist()]
    assert hits.tolist() == [key in entries for key in lookup.tolist()]


def test_hashtable_lookup_in_unsorted_keys() -> None:
    """LiteRT finds 1 alone, because it bisects ``key``."""
    keys, table = np.array([3, 1, 2, 3], np.int32), np.array([30, 10, 20, 31], np.int32)
    out, hits = kernel_results(HashtableLookup(var(keys), var(keys), var(table)), [keys, keys, table])
    assert (out.tolist(), hits.tolist()) == ([30, 10, 20, 30], [1, 1, 1, 1])


def test_a_sparse_scalar_is_its_only_element() -> None:
    out = dense(np.array([7.0]), (), {"traversal_order": [], "dim_metadata": []})
    assert (out.shape, out.item()) == ((), 7.0)


def test_the_dense_form_of_a_sparse_constant_counts_against_the_memory_limit() -> None:
    levels = [{"dense_size": 2}, {"dense_size": 3}]
    sparsity = {"traversal_order": [0, 1], "dim_metadata": levels}
    stored = np.ones(6)
    with limited(48):
        assert dense(stored, (2, 3), sparsity).tolist() == [[1.0] * 3] * 2
    with (
        limited(47),
        pytest.raises(LimitError, match="the dense form of a sparse constant would take 48 bytes"),
    ):
        dense(stored, (2, 3), sparsity)
