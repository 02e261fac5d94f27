# SPDX-License-Identifier: Apache-2.0
"""Operators that resize NHWC images: to the nearest pixel, or bilinear.

Source: TFLite resize_bilinear, resize_nearest_neighbor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import i8, i16, i32
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import require_length, require_rank
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.dimensions import Dim
from circlekit.ops.numerics.fixed_point import round_half_away
from circlekit.ops.numerics.output_stage import follows_optimized_kernels
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.quantized_values import rearranged_type


class Resize(Op, versions={i8: 2, i16: 4}):
    """Base class of operators that resize images [N,H,W,C] to the height and width in ``size``.

    ``align_corners``: the centers of the corner pixels of input and result coincide.
    ``half_pixel_centers``: the edges of input and result coincide.  If both are false, output pixel i is at
    the position i * scale of the input.  LiteRT refuses RESIZE_BILINEAR if both are true.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*REAL)
    size = operand(i32)

    align_corners: bool = attribute(False)
    half_pixel_centers: bool = attribute(False)

    smallest_size: ClassVar[int] = 0
    """The smallest height and width to which LiteRT resizes."""

    def infer(self) -> TensorType:
        shape, size = require_rank(self.input, "input", 4), static_int_vector(self.size)
        require_length(self.size.shape, 2, "size")
        n, *image, c = shape or (None,) * 4
        height, width = size or (None, None)
        if size is not None:
            self.check_size(image, size)
        return rearranged_type(self.input, (n, height, width, c))

    def for_new_shapes(self, old: Mapping[str, Shape | None], outer: bool) -> dict[str, list[int]]:
        """Return {"size": the size that scales images of the new shape by the same factor as before}.

        Return {} if the size is unknown, or a rank is unknown or not 4.  A height or width keeps its number
        if there is no factor, because a dimension is unknown or 0, or if the scaled number would not be an
        integer.  ``old``: the shapes before, by operand.  ``outer`` is not used.
        """
        size, before, after = static_int_vector(self.size), old["input"], self.input.shape
        if size is None or before is None or after is None or len(size) != 2:
            return {}
        if not len(before) == len(after) == 4:
            return {}
        for axis, (a, b) in enumerate(zip(before[1:3], after[1:3], strict=True)):
            if a and b and a != b and size[axis] * b % a == 0:
                size[axis] = size[axis] * b // a
        return {"size": size}

    def required_version(self) -> int:
        return max(super().required_version(), 3 if self.half_pixel_centers else 1)

    def check_size(self, image: Sequence[Dim], size: Sequence[int]) -> None:
        """Raise ShapeError if images of height and width ``image`` cannot be resized to ``size``."""
        if min(size) < self.smallest_size:
            raise ShapeError(f"size: expected at least {self.smallest_size} for height and width, got {size}")
        if any(before == 0 < after for before, after in zip(image, size, strict=True)):
            got = format_shape(tuple(image))
            raise ShapeError(f"input: expected a height and width above 0 to resize to {size}, got {got}")

    def height_and_width(self, input: Array, size: Array) -> list[int]:
        """Return the two elements of ``size``; raise ShapeError if ``input`` cannot be resized to them."""
        numbers = int_list(size)
        self.check_size(input.shape[1:3], numbers)
        return numbers

    def scale(self, in_size: int, out_size: int) -> np.float32:
        """Return the number of input pixels per output pixel along one axis, in float32 as in LiteRT.

        Return 0 if there is no output pixel.
        """
        if self.align_corners and out_size > 1:
            in_size, out_size = in_size - 1, out_size - 1
        scale: np.float32 = np.float32(in_size) / np.float32(out_size) if out_size else np.float32(0)
        return scale


class ResizeNearestNeighbor(Resize, code="RESIZE_NEAREST_NEIGHBOR", data_movement=True):
    """Resized images: each output pixel is a copy of an input pixel.

    If one of ``align_corners`` and ``half_pixel_centers`` is true, this is the nearest input pixel.  If both
    are false, it is the last input pixel at or before the position of the output pixel.
    """

    def kernel(self, input: Array, size: Array) -> Array:
        rows, columns = map(self.nearest, input.shape[1:3], self.height_and_width(input, size))
        return np.asarray(input[:, rows[:, None], columns])

    def nearest(self, in_size: int, out_size: int) -> Array:
        """Return the index of the input pixel for each output pixel along one axis."""
        center = np.float32(0.5 if self.half_pixel_centers else 0)
        position = (np.arange(out_size, dtype=np.float32) + center) * self.scale(in_size, out_size)
        position = round_half_away(position) if self.align_corners else np.floor(position)
        return np.asarray(np.clip(position, 0, in_size - 1), np.int64)

    def required_version(self) -> int:
        return max(super().required_version(), 3 if self.align_corners else 1)


class Neighbors(NamedTuple):
    """For each output pixel along one axis: the two input pixels around it, and their weights."""

    low: Array
    high: Array
    low_weight: Array
    high_weight: Array

    @staticmethod
    def of(position: Array, unit: np.number[Any], in_size: int) -> Neighbors:
        """Return the neighbors of each position.  Positions and weights are in units of 1/``unit`` pixel.

        A position before the first or after the last pixel has this pixel as ``low`` and ``high``.  One of
        the weights may be negative there, but they add up to ``unit``.
        """
        low = np.clip(position // unit, 0, in_size - 1)
        high = np.minimum(-(-position // unit), in_size - 1)  # rounded up
        fraction = position - low * unit
        return Neighbors(low.astype(np.int64), high.astype(np.int64), unit - fraction, fraction)


class ResizeBilinear(Resize, code="RESIZE_BILINEAR"):
    """Resized images: each output pixel is a mean of four input pixels, weighted by their distances.

    As in LiteRT, int8 and int16 are computed in fixed point with 10 fraction bits per axis, and a half is
    rounded away from zero.  uint8 is computed in float32, and a half is rounded up.
    """

    quantization_rule = QuantizationRule(results_follow="input", averages=True)
    smallest_size = 1

    def kernel(self, input: Array, size: Array) -> Array:
        axes = list(zip(input.shape[1:3], self.height_and_width(input, size), strict=True))
        if input.dtype.kind == "f" or input.dtype == np.uint8:
            rows, columns = (self.neighbors(*sizes) for sizes in axes)
            if input.dtype.kind == "f":
                return np.asarray(weighted_sums(input, rows, columns), input.dtype)
            total = weighted_sums_in_order(input, rows, columns)
            return np.asarray(total + np.float32(0.5), np.uint8)
        if input.dtype.name not in ("int8", "int16"):
            raise UnsupportedError(f"RESIZE_BILINEAR on {input.dtype} has no kernel")
        unit = np.int64(1024)  # 10 fraction bits
        rows, columns = (Neighbors.of(self.fixed_positions(*sizes), unit, sizes[0]) for sizes in axes)
        total = weighted_sums(input, rows, columns)
        magnitude = (np.abs(total) + (1 << 19)) >> 20  # 10 fraction bits per axis
        return np.asarray(np.sign(total) * magnitude, input.dtype)

    def neighbors(self, in_size: int, out_size: int) -> Neighbors:
        """Return the neighbors along one axis, with float32 weights."""
        position = np.arange(out_size, dtype=np.float32)
        if self.half_pixel_centers:
            position = (position + np.float32(0.5)) * self.scale(in_size, out_size) - np.float32(0.5)
        else:
            position = position * self.scale(in_size, out_size)
        return Neighbors.of(position, np.float32(1), in_size)

    def fixed_positions(self, in_size: int, out_size: int) -> Array:
        """Return the positions of output pixels along one axis, as integers in units of 1/1024 input pixel.

        The scale is rounded, so a position may be beyond the last pixel.  LiteRT then reads memory after the
        row; here, the last pixel counts.
        """
        if self.align_corners and out_size > 1:
            scale = (1024 * (in_size - 1) + (out_size - 1) // 2) // (out_size - 1)
        else:
            scale = (1024 * in_size + out_size // 2) // out_size
        position = np.arange(out_size, dtype=np.int64) * scale
        if self.half_pixel_centers:
            position = position + scale // 2 - 512
        return position


def weighted_sums(x: Array, rows: Neighbors, columns: Neighbors) -> Array:
    """Return weighted sums of four neighbors in NHWC data: first along the height, then the width."""
    tall = x[:, rows.low] * rows.low_weight[:, None, None] + x[:, rows.high] * rows.high_weight[:, None, None]
    return np.asarray(
        tall[:, :, columns.low] * columns.low_weight[:, None]
        + tall[:, :, columns.high] * columns.high_weight[:, None]
    )


def sum_of_corners(x: Array, rows: Neighbors, columns: Neighbors) -> Array:
    """Return the same sums as ``weighted_sums`` in the order of LiteRT's optimized kernel.

    Each of the four pixels is multiplied by the product of its weights.
    """
    terms = (
        x[:, row[:, None], column] * (row_weight[:, None, None] * column_weight[:, None])
        for row, row_weight in (rows[::2], rows[1::2])  # ``low`` and its weight, ``high`` and its weight
        for column, column_weight in (columns[::2], columns[1::2])
    )
    return np.asarray(sum(terms))


def weighted_sums_in_order(x: Array, rows: Neighbors, columns: Neighbors) -> Array:
    """Return the same sums as ``weighted_sums``, but add the four terms in the order of LiteRT's kernels.

    The order changes the last bit of a float sum, which may decide how a uint8 result is rounded.
    """
    if follows_optimized_kernels():
        return sum_of_corners(x, rows, columns)
    terms = (
        x[:, row[:, None], column] * row_weight[:, None, None] * column_weight[:, None]
        for column, column_weight in (columns[::2], columns[1::2])
        for row, row_weight in (rows[::2], rows[1::2])  # ``low`` and its weight, ``high`` and its weight
    )
    return np.asarray(sum(terms))
