# SPDX-License-Identifier: Apache-2.0
"""Blocks moved between space, depth and batch, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, f32, i8, i32, i64
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.movement.space import BatchToSpaceND, DepthToSpace, SpaceToBatchND, SpaceToDepth
from tests.ops.litert import check, ints, kernel_results, var


def data(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 120, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i1", "u1"])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_and_space(dtype: str, block: int) -> None:
    deep = data(dtype, 2, 3, 2, 2 * block * block)
    check(DepthToSpace(var(deep), block_size=block), deep)
    wide = data(dtype, 2, 3 * block, 2 * block, 3)
    check(SpaceToDepth(var(wide), block_size=block), wide)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i1", "u1"])
@pytest.mark.parametrize(
    ("blocks", "pairs"), [([2, 3], [[1, 2], [0, 2]]), ([1, 1], [[0, 0], [1, 1]]), ([3, 2], [[0, 0], [2, 0]])]
)
def test_space_to_batch(dtype: str, blocks: list[int], pairs: list[list[int]]) -> None:
    x = data(dtype, 2, 3, 4, 2)
    check(SpaceToBatchND(var(x), ints(blocks), ints(pairs)), x)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "i1", "u1"])
@pytest.mark.parametrize(
    ("blocks", "crops"), [([2, 3], [[1, 2], [0, 4]]), ([1, 1], [[0, 0], [1, 1]]), ([3, 2], [[0, 0], [2, 0]])]
)
def test_batch_to_space(dtype: str, blocks: list[int], crops: list[list[int]]) -> None:
    x = data(dtype, 12, 3, 4, 2)
    check(BatchToSpaceND(var(x), ints(blocks), ints(crops)), x)


def test_one_axis_of_space() -> None:
    x = data("f4", 4, 6, 3)
    check(SpaceToBatchND(var(x), ints([2]), ints([[1, 1]])), x)
    check(BatchToSpaceND(var(x), ints([4]), ints([[1, 2]])), x)


def test_crops_may_remove_everything() -> None:
    x = data("f4", 1, 3, 4, 2)
    assert BatchToSpaceND(var(x), ints([1, 1]), ints([[1, 2], [0, 0]])).output.shape == (1, 0, 4, 2)


@pytest.mark.parametrize("dtype", [i8, i32, i64])
def test_zero_of_a_quantized_border_is_the_zero_point(dtype: DType) -> None:
    """LiteRT ignores the zero point of data of 32 and 64 bits."""
    x = data(f"i{dtype.bits // 8}", 1, 3, 3, 1)
    value = Value("x", dtype, x.shape, None, Quantization.per_tensor(0.5, -9))
    check(SpaceToBatchND(value, ints([2, 2]), ints([[1, 0], [0, 1]])), x)


def test_unknown_dimensions() -> None:
    x = Value("x", f32, (None, 3, None, 4))
    assert DepthToSpace(x, block_size=2).output.shape == (None, 6, None, 1)
    assert SpaceToBatchND(x, ints([2, 2]), ints([[0, 1], [0, 0]])).output.shape == (None, 2, None, 4)
    assert SpaceToBatchND(x, Value("b", i32, (2,)), ints([[0, 1], [0, 0]])).output.shape == (None,) * 4


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: DepthToSpace(x), "block_size: expected at least 1, got 0"),
        (lambda x: DepthToSpace(x, block_size=3), "depth: expected a multiple of 9, got 4"),
        (lambda x: SpaceToDepth(x, block_size=2), "height: expected a multiple of 2, got 3"),
        (
            lambda x: SpaceToBatchND(x, ints([2, 2]), ints([[0, 0], [0, 0]])),
            "padded dimension: expected a multiple of 2, got 3",
        ),
        (
            lambda x: SpaceToBatchND(x, ints([2, 0]), ints([[0, 0], [0, 0]])),
            "expected block sizes of 1 or more",
        ),
        (
            lambda x: BatchToSpaceND(x, ints([2, 2]), ints([[0, 0], [0, 0]])),
            "batch: expected a multiple of 4, got 2",
        ),
        (
            lambda x: BatchToSpaceND(x, ints([1, 1]), ints([[2, 2], [0, 0]])),
            "crops 2 and 2 exceed a dimension of 3",
        ),
        (
            lambda x: SpaceToBatchND(var(np.zeros(4)), ints([2]), ints([[0, 0]])),
            r"input: expected a batch axis and 1 spatial axis, got shape \[4\]",
        ),
        (
            lambda x: BatchToSpaceND(x, ints([1, 2]), ints([0, 0, 0, 0])),
            r"expected crops of shape \[2,2\], got \[4\]",
        ),
        (
            lambda x: SpaceToBatchND(x, ints([[1, 2]]), ints([[0, 0], [0, 0]])),
            r"expected block_shape of shape \[blocks\], got \[1,2\]",
        ),
        (
            lambda x: SpaceToBatchND(x, ints([1, 1, 1]), ints([[0, 0, 0], [0, 0, 1]])),
            r"expected paddings of shape \[3,2\], got \[2,3\]",
        ),
        (
            lambda x: DepthToSpace(var(np.zeros(3)), block_size=1),
            r"expected input of rank 4, got shape \[3\]",
        ),
    ],
)
def test_operands_that_do_not_fit_are_shape_errors(make: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        make(var(np.zeros((2, 3, 4, 4), np.float32)))


@pytest.mark.parametrize("kind", [SpaceToBatchND, BatchToSpaceND])
@pytest.mark.parametrize(
    ("blocks", "pairs", "sentence"),
    [([1, 1], [[-1, 1], [0, 0]], "crops of 0 or more for each, got"), ([0, 1], [[0, 0]] * 2, "of 1 or more")],
)
def test_operands_computed_in_the_run_are_checked(
    kind: Any, blocks: list[int], pairs: list[list[int]], sentence: str
) -> None:
    arrays = data("f4", 1, 3, 4, 1), np.array(blocks, np.int32), np.array(pairs, np.int32)
    with pytest.raises(ShapeError, match=sentence):
        kernel_results(kind(*map(var, arrays)), arrays)


def test_crops_computed_in_the_run_must_fit() -> None:
    arrays = data("f4", 1, 3, 4, 1), np.array([1, 1], np.int32), np.array([[2, 2], [0, 0]], np.int32)
    with pytest.raises(ShapeError, match="crops 2 and 2 exceed a dimension of 3"):
        kernel_results(BatchToSpaceND(*map(var, arrays)), arrays)


def test_versions() -> None:
    assert SpaceToBatchND(var(data("f4", 1, 2, 1)), ints([2]), ints([[0, 0]])).required_version() == 3
