# SPDX-License-Identifier: Apache-2.0
"""Blocks moved between space, depth and batch, and resizing, against LiteRT."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import DType, f32, i8, i32
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.movement.space import (
    BatchToSpaceND,
    DepthToSpace,
    Resize,
    ResizeBilinear,
    ResizeNearestNeighbor,
    SpaceToBatchND,
    SpaceToDepth,
)
from tests.ops.litert import check, const, kernel_results, var

SIZES = [[7, 9], [2, 2], [1, 1], [3, 4], [12, 5], [6, 8]]
CENTRES = [(False, False), (True, False), (False, True)]


def data(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 120, shape).astype(dtype)


def ints(numbers: Any) -> Value:
    return const(numbers, np.int32)


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


def test_zero_of_a_quantized_border_is_the_zero_point() -> None:
    x = data("i1", 1, 3, 3, 1)
    value = Value("x", i8, x.shape, None, Quantization(np.array([0.5], np.float32), np.array([-9])))
    check(SpaceToBatchND(value, ints([2, 2]), ints([[1, 0], [0, 1]])), x)


@pytest.mark.parametrize("dtype", ["f4", "i1", "i2", "u1"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("align_corners", "half_pixel_centers"), CENTRES)
def test_resize(dtype: str, size: list[int], align_corners: bool, half_pixel_centers: bool) -> None:
    x = data(dtype, 2, 3, 4, 2)
    attributes: dict[str, Any] = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
    check(ResizeBilinear(var(x), ints(size), **attributes), x)
    check(ResizeNearestNeighbor(var(x), ints(size), **attributes), x)


def test_resize_of_negative_integers_rounds_away_from_zero() -> None:
    x = -data("i1", 1, 2, 2, 3)
    check(ResizeBilinear(var(x), ints([5, 3])), x)


@pytest.mark.parametrize("dtype", ["i1", "i2"])
def test_a_position_beyond_the_last_pixel_takes_the_last_pixel(dtype: str) -> None:
    """From 7 to 300 pixels, the scale is rounded up to 24/1024; LiteRT reads beyond the last pixel."""
    x = data(dtype, 1, 7, 7, 2)
    op = ResizeBilinear(var(x), ints([300, 300]))
    (y,) = kernel_results(op, [x])
    np.testing.assert_array_equal(y[0, -1, -1], x[0, -1, -1])
    np.testing.assert_array_equal(y[0, -1, 0], x[0, -1, 0])
    np.testing.assert_array_equal(y[0, 0, -1], x[0, 0, -1])


def test_unknown_dimensions() -> None:
    x = Value("x", f32, (None, 3, None, 4))
    assert DepthToSpace(x, block_size=2).output.shape == (None, 6, None, 1)
    assert ResizeBilinear(x, ints([5, 6])).output.shape == (None, 5, 6, 4)
    assert ResizeBilinear(x, Value("s", i32, (2,))).output.shape == (None, None, None, 4)
    assert ResizeBilinear(Value("x", f32, None), ints([5, 6])).output.shape == (None, 5, 6, None)
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
            r"input: expected 1 spatial axes, got shape \[4\]",
        ),
        (lambda x: ResizeBilinear(x, ints([1, 2, 3])), r"expected size of shape \[2\], got \[3\]"),
        (
            lambda x: DepthToSpace(var(np.zeros(3)), block_size=1),
            r"expected input of rank 4, got shape \[3\]",
        ),
    ],
)
def test_operands_that_do_not_fit_are_shape_errors(make: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        make(var(np.zeros((2, 3, 4, 4), np.float32)))


def test_versions() -> None:
    x, q = var(data("f4", 1, 2, 2, 1)), var(data("i1", 1, 2, 2, 1))
    size = ints([2, 2])
    assert [ResizeBilinear(v, size).required_version() for v in (x, q)] == [1, 2]
    assert ResizeBilinear(x, size, half_pixel_centers=True).required_version() == 3
    assert ResizeNearestNeighbor(x, size, align_corners=True).required_version() == 3
    assert SpaceToBatchND(var(data("f4", 1, 2, 1)), ints([2]), ints([[0, 0]])).required_version() == 3


@pytest.mark.parametrize(
    ("kind", "shape", "size", "message"),
    [
        (ResizeNearestNeighbor, (1, 2, 2, 1), [2**31 - 1, -1], "at least 0 for height and width, got [2147"),
        (
            ResizeNearestNeighbor,
            (1, 0, 2, 1),
            [3, 0],
            "a height and width above 0 to resize to [3, 0], got [0,2]",
        ),
        (ResizeBilinear, (1, 2, 2, 1), [-1, 2], "at least 1 for height and width, got [-1, 2]"),
        (ResizeBilinear, (1, 2, 2, 1), [2, 0], "at least 1 for height and width, got [2, 0]"),
        (ResizeBilinear, (1, 2, 0, 1), [2, 2], "a height and width above 0 to resize to [2, 2], got [2,0]"),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "i1"])
def test_sizes_without_a_result_are_refused_before_anything_is_computed(
    kind: type[Resize], shape: tuple[int, ...], size: list[int], message: str, dtype: str
) -> None:
    """LiteRT refuses such a size too, or crashes if there is no pixel to copy."""
    x = np.zeros(shape, dtype)
    with pytest.raises(ShapeError, match=re.escape(f"expected {message}")):
        kind(var(x), ints(size))
    op = kind(Value("x", DType.of(x.dtype), (None,) * 4), Value("size", i32, (2,)))
    with pytest.raises(ShapeError, match=re.escape(f"expected {message}")):
        evaluate(op, [x, np.array(size, np.int32)])


@pytest.mark.parametrize("dtype", ["f4", "i1"])
def test_the_nearest_neighbors_of_no_pixels(dtype: str) -> None:
    x = data(dtype, 1, 3, 4, 2)
    check(ResizeNearestNeighbor(var(x), ints([0, 3])), x)
    check(ResizeNearestNeighbor(var(x[:, :0]), ints([0, 3])), x[:, :0])


def test_a_nearest_neighbor_is_a_pixel_of_the_image() -> None:
    """In float32, the last of 2^23 positions is rounded up to the end of the image."""
    size = Value.constant("size", np.array([1, 1], np.int32))
    op = ResizeNearestNeighbor(Value("x", f32, (1, 1, 1, 1)), size, half_pixel_centers=True)
    assert op.nearest(1, 1 << 23)[-1] == 0
