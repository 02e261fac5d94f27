# SPDX-License-Identifier: Apache-2.0
"""Elements by index, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.value import Array, Shape, Value
from circlekit.ops.movement.gather import (
    EmbeddingLookup,
    Gather,
    GatherNd,
    OneHot,
    ReverseSequence,
    ReverseV2,
    TopKV2,
)
from circlekit.ops.movement.scatter import DynamicUpdateSlice, ScatterNd
from tests.ops.litert import check, const, ints, kernel_results, var

DTYPES = ["f4", "i4", "i8", "i2", "i1", "u1", "?"]


def data(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 50, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [0, [1], [1, 0, 1, 1], [[0, 1], [1, 0]]])
def test_gather(dtype: str, axis: int, indices: Any) -> None:
    x = data(dtype, 2, 3, 4)
    check(Gather(var(x), ints(indices), axis=axis), x)
    check(Gather(var(x), const(indices, np.int64), axis=axis), x)


@pytest.mark.parametrize(("axis", "batch_dims"), [(1, 1), (2, 1), (2, 2), (3, 2), (-1, -1), (1, 0)])
def test_gather_batches(axis: int, batch_dims: int) -> None:
    x = data("f4", 2, 3, 4, 5)
    indices = np.random.default_rng(1).integers(0, 3, (2, 3, 2)).astype(np.int32)
    check(Gather(var(x), const(indices), axis=axis, batch_dims=batch_dims), x)


@pytest.mark.parametrize("shape", [(2, 3, 4, 0), (2, 0, 4, 5), (0, 3, 4, 5)])
def test_gather_of_nothing(shape: tuple[int, ...]) -> None:
    x, indices = data("f4", *shape), np.zeros((shape[0], 2), np.int32)
    (out,) = kernel_results(Gather(var(x), const(indices), axis=2, batch_dims=1), [x])
    assert out.shape == (*shape[:2], 2, shape[3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("indices", [[[0], [1]], [[0, 1], [1, 2]], [[[1, 0, 3]], [[0, 2, 1]]], [1, 1]])
def test_gather_nd(dtype: str, indices: Any) -> None:
    x = data(dtype, 2, 3, 4)
    check(GatherNd(var(x), ints(indices)), x)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i1", "u1", "?"])
@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
def test_one_hot(dtype: str, axis: int) -> None:
    on, off = np.array(1, dtype), np.array(0, dtype)
    for depth in (3, 0):
        check(OneHot(ints([[0, 2], [-1, 5]]), ints(depth), var(on), var(off), axis=axis), on, off)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i1", "u1"])
def test_embedding_lookup(dtype: str) -> None:
    x = data(dtype, 4, 2, 3)
    check(EmbeddingLookup(ints([3, 0, 0]), var(x)), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", [[0], [-1], [0, 1], [2, 1]])
def test_reverse(dtype: str, axes: list[int]) -> None:
    x = data(dtype, 2, 3, 4)
    check(ReverseV2(var(x), ints(axes)), x)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i2", "u1"])
@pytest.mark.parametrize(("seq", "batch", "lengths"), [(1, 0, [0, 3]), (2, 1, [4, 1, 2]), (0, 1, [1, 2, 0])])
def test_reverse_sequence(dtype: str, seq: int, batch: int, lengths: list[int]) -> None:
    x = data(dtype, 2, 3, 4)
    check(ReverseSequence(var(x), ints(lengths), seq_dim=seq, batch_dim=batch), x)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i1", "u1"])
@pytest.mark.parametrize(("indices", "rest"), [([[0], [2], [2]], (2,)), ([[0, 1], [0, 1], [2, 0]], ())])
def test_scatter_nd(dtype: str, indices: list[list[int]], rest: tuple[int, ...]) -> None:
    updates = data(dtype, 3, *rest)
    check(ScatterNd(ints(indices), var(updates), ints([4, 2])), updates)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i2", "i1", "u1"])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_top_k(dtype: str, k: int) -> None:
    x = (data("i4", 3, 2, 6) % 4).astype(dtype)  # 4 different numbers: the first of equal elements wins
    check(TopKV2(var(x), ints(k)), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("start", [[0, 0, 0], [1, 1, 2], [-3, 9, 1]])
def test_dynamic_update_slice(dtype: str, start: list[int]) -> None:
    x, update = data(dtype, 2, 3, 4), data(dtype, 1, 2, 2)
    check(DynamicUpdateSlice(var(x), var(update), ints(start)), x, update)
    check(DynamicUpdateSlice(var(x), var(update), const(start, np.int64)), x, update)


def test_unknown_dimensions() -> None:
    x = Value("x", f32, (None, 3, 4))
    assert Gather(x, ints([0, 1]), axis=1).output.shape == (None, 2, 4)
    assert Gather(x, Value("i", i32, (5, 2)), axis=1, batch_dims=1).output.shape == (5, 2, 4)
    assert GatherNd(x, Value("i", i32, (7, None))).output.shape is None
    assert GatherNd(x, Value("i", i32, (None, 2))).output.shape == (None, 4)
    depth = Value("depth", i32, ())
    assert OneHot(ints([1]), depth, const(1.0), const(0.0), axis=-1).output.shape == (1, None)
    assert [v.shape for v in TopKV2(x, Value("k", i32, ())).results] == [(None, 3, None)] * 2


@pytest.mark.parametrize("index", [2, -1])
def test_an_index_outside_is_an_error(index: int) -> None:
    x = data("f4", 2, 3)
    for op in (
        Gather(var(x), ints([index])),
        GatherNd(var(x), ints([[index]])),
        EmbeddingLookup(ints([index]), var(x)),
    ):
        with pytest.raises(ModelError, match=f"{op.code}: index {index} is out of range"):
            kernel_results(op, [x])
    with pytest.raises(ModelError, match="SCATTER_ND: index"):
        kernel_results(ScatterNd(ints([[index]]), const([[1.0, 2, 3]]), ints([2, 3])), [])


def test_indices_that_are_floats_are_an_error() -> None:
    x = data("f4", 2, 3)
    with pytest.raises(ModelError, match="GATHER: expected integers as indices, got float32"):
        kernel_results(Gather(var(x), var(x)), [x, x])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda x: Gather(x, ints([0]), axis=0, batch_dims=1),
            "batch_dims: expected from 0 to the lower of axis 0 and index rank 1, got 1",
        ),
        (
            lambda x: Gather(x, ints([0]), axis=0, batch_dims=-2),
            "batch_dims: expected from 0 to the lower of axis 0 and index rank 1, got -1",
        ),
        (lambda x: Gather(x, ints([0]), axis=2), "axis 2 is out of range for rank"),
        (lambda x: GatherNd(x, ints([[0, 0, 0]])), "indices: expected at most 2 coordinates, got 3"),
        (lambda x: EmbeddingLookup(ints([[0]]), x), r"expected lookup of rank 1, got shape \[1,1\]"),
        (lambda x: ReverseV2(x, ints([2])), "axis 2 is out of range for rank"),
        (
            lambda x: Gather(x, ints([[0]]), axis=1, batch_dims=1),
            "expected dimension 2 along batch axis 0, got 1",
        ),
        (lambda x: ReverseSequence(x, ints([1]), seq_dim=1), "seq_lengths: expected 2 elements, .*, got 1"),
        (lambda x: ReverseSequence(x, ints([1, 1])), "different axes seq_dim and batch_dim, got 0 for both"),
        (lambda x: TopKV2(x, ints(4)), r"k: expected from 0 to the last dimension of \[2,3\], got 4"),
        (lambda x: TopKV2(var(np.array(1.0)), ints(1)), "expected input of rank 1 or more, got a scalar"),
        (lambda x: DynamicUpdateSlice(x, var(data("f4", 3, 3)), ints([0, 0])), "does not fit into"),
        (lambda x: DynamicUpdateSlice(x, x, ints([0])), r"expected start_indices of shape \[2\], got \[1\]"),
        (
            lambda x: OneHot(ints([0]), ints(2), const(1.0), ints(0)),
            "expected on_value and off_value of one dtype, got f64 and i32",
        ),
        (
            lambda x: OneHot(ints([0]), ints(2), x, const(0.0, np.float32)),
            r"on_value: expected 1 element, got",
        ),
        (lambda x: OneHot(ints([0]), ints(2), const(0.0, np.float32), x), r"off_value: expected 1 element, "),
        (lambda x: ScatterNd(ints([[0, 0, 0]]), x, ints([2, 2])), "vectors of at most 2 numbers, got 3"),
    ],
)
def test_operands_that_do_not_fit_are_shape_errors(make: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        make(var(np.zeros((2, 3), np.float32)))


def test_top_k_takes_nan_last() -> None:
    x = np.array([[np.nan, -np.inf, 2, np.nan, 1, 2], [0, -0.0, 3, np.nan, np.inf, 0]], np.float32)
    check(TopKV2(var(x), ints(6)), x)


def test_top_k_of_the_lowest_integers() -> None:
    x = np.array([[0, -(2**31), 2**31 - 1, -1]], np.int32)
    check(TopKV2(var(x), ints(4)), x)


def test_one_hot_refuses_a_negative_depth_at_run_time() -> None:
    depth = np.array(-2, np.int32)
    with pytest.raises(ShapeError, match="depth: expected at least 0, got -2"):
        kernel_results(OneHot(ints([0]), var(depth), const(1.0), const(0.0), axis=-1), [depth])


def test_scatter_refuses_long_vectors_of_indices_at_run_time() -> None:
    shape = np.array([2, 2], np.int32)
    op = ScatterNd(ints([[0, 0, 0]]), const([1.0]), Value("", i32, (None,)))
    with pytest.raises(ShapeError, match="indices: expected vectors of at most 2 numbers, got 3"):
        kernel_results(op, [shape])


@pytest.mark.parametrize(
    ("indices", "updates", "message"),
    [
        ((4, 1), (3, 5), r"updates: expected shape \[4,5\], got \[3,5\]"),
        ((4, 1), (4,), r"updates: expected shape \[4,5\], got \[4\]"),
        ((4, None, 2), (4, 7, 1), r"updates: expected shape \[4,\?\], got \[4,7,1\]"),
        ((), (3, 5), "expected indices of rank 1 or more, got a scalar"),
    ],
)
def test_scatter_checks_updates_before_a_run(indices: Shape, updates: Shape, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        ScatterNd(Value("i", i32, indices), Value("u", f32, updates), ints([3, 5]))


def test_vectors_of_no_indices_stand_for_the_whole_tensor() -> None:
    x, indices = data("f4", 3, 2), const(np.zeros((3, 0)), np.int32)
    check(ScatterNd(indices, var(x), ints([2])), x)
    (slices,) = check(GatherNd(var(x), indices), x)
    np.testing.assert_array_equal(slices, [x, x, x])


def test_topk_refuses_a_negative_number_at_run_time() -> None:
    x, k = data("f4", 2, 3), np.array(-1, np.int32)
    with pytest.raises(ShapeError, match=r"k: expected from 0 to the last dimension of \[2,3\], got -1"):
        kernel_results(TopKV2(var(x), var(k)), [x, k])
