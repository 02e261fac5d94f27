# SPDX-License-Identifier: Apache-2.0
"""Resized images, against LiteRT."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.resize_images import Resize, ResizeBilinear, ResizeNearestNeighbor
from tests.ops.litert import check, ints, kernel_results, var

SIZES = [[7, 9], [2, 2], [1, 1], [3, 4], [12, 5], [6, 8]]
CENTERS = [(False, False), (True, False), (False, True)]


def data(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 120, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "i1", "i2", "u1"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("align_corners", "half_pixel_centers"), CENTERS)
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
    assert ResizeBilinear(x, ints([5, 6])).output.shape == (None, 5, 6, 4)
    assert ResizeBilinear(x, Value("s", i32, (2,))).output.shape == (None, None, None, 4)
    assert ResizeBilinear(Value("x", f32, None), ints([5, 6])).output.shape == (None, 5, 6, None)


def test_a_size_has_two_elements() -> None:
    with pytest.raises(ShapeError, match=r"expected size of shape \[2\], got \[3\]"):
        ResizeBilinear(var(np.zeros((2, 3, 4, 4), np.float32)), ints([1, 2, 3]))


def test_versions() -> None:
    x, q = var(data("f4", 1, 2, 2, 1)), var(data("i1", 1, 2, 2, 1))
    size = ints([2, 2])
    assert [ResizeBilinear(v, size).required_version() for v in (x, q)] == [1, 2]
    assert ResizeBilinear(x, size, half_pixel_centers=True).required_version() == 3
    assert ResizeNearestNeighbor(x, size, align_corners=True).required_version() == 3


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
    """LiteRT refuses such a size too, crashes if there is no pixel to copy, or gives an empty result."""
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
    assert ResizeNearestNeighbor(var(x[:, :0]), ints([0, 3])).nearest(0, 0).size == 0


@pytest.mark.parametrize("width", [82, 83, 84])
def test_a_position_just_below_one_half_is_nearest_to_the_first_pixel(width: int) -> None:
    """With a width of 83, pixel 41 is at 0.49999997; in float32, 0.5 more would be 1."""
    x = data("f4", 1, 1, 2, 1)
    check(ResizeNearestNeighbor(var(x), ints([1, width]), align_corners=True), x)


def test_a_nearest_neighbor_is_a_pixel_of_the_image() -> None:
    """In float32, the last of 2^24 positions is rounded up to the end of the image."""
    size = Value.constant("size", np.array([1, 1], np.int32))
    op = ResizeNearestNeighbor(Value("x", f32, (1, 1, 1, 1)), size, half_pixel_centers=True)
    assert op.nearest(1, 1 << 24)[-1] == 0
