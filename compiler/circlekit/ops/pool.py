# SPDX-License-Identifier: Apache-2.0
"""Sliding windows without weights, over NHWC data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import bf16, f16, f32, f64, i8, i16, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.common import (
    Window,
    conv_padding,
    fused,
    need_float,
    need_rank,
    version_by_dtype,
    window_size,
)
from circlekit.ops.fixed_point import activation_limits
from circlekit.ops.im2col import padded

INTEGERS = (i8, u8, i16)
DATA = (f32, i8, u8, i16, f16, bf16, f64)
Combine = Callable[..., Array]


class _Pool2D(Op):
    """What the pools share: their attributes and their shape rule."""

    input = operand(*DATA)

    padding: Padding = attribute(Padding.SAME)
    stride_w: int = attribute(1)
    stride_h: int = attribute(1)
    filter_width: int = attribute(1)
    filter_height: int = attribute(1)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    fuses_activation = True

    def infer(self) -> TensorType:
        n, h, w, depth = need_rank(self.input, "input", 4) or (None,) * 4
        if self.filter_height < 1 or self.filter_width < 1:
            raise ShapeError(
                f"filter is {self.filter_height} x {self.filter_width}, at least 1 x 1 is wanted"
            )
        high = window_size(h, self.filter_height, self.stride_h, 1, self.padding)
        wide = window_size(w, self.filter_width, self.stride_w, 1, self.padding)
        return TensorType(self.input.dtype, (n, high, wide, depth))

    def _windows(self, input: Array) -> tuple[Window, Window]:
        return (
            conv_padding(input.shape[1], self.filter_height, self.stride_h, 1, self.padding),
            conv_padding(input.shape[2], self.filter_width, self.stride_w, 1, self.padding),
        )

    def _reduce(self, input: Array, combine: Combine, fill: float) -> Array:
        """``combine`` over each window of every image, ``fill`` where it leaves the image."""
        rows, cols = self._windows(input)
        out = np.empty((input.shape[0], rows.size, cols.size, input.shape[3]), input.dtype)
        size = (
            (rows.size - 1) * self.stride_h + self.filter_height,
            (cols.size - 1) * self.stride_w + self.filter_width,
        )
        for image, result in zip(input, out, strict=True):
            part = padded(image, (-rows.before, -cols.before), size, fill)
            lines = _slide(part, 0, self.filter_height, self.stride_h, combine)
            result[...] = _slide(lines, 1, self.filter_width, self.stride_w, combine)
        return out

    def _mean(self, input: Array) -> Array:
        """The mean over each window, of the elements inside of the image."""
        total = self._reduce(input, np.add, 0)
        total /= self._counts(input).astype(total.dtype)
        return total

    def _counts(self, input: Array) -> Array:
        """How many elements of each window lie inside of the image: [OH,OW,1]."""
        rows, cols = self._windows(input)
        high = _inside(rows, input.shape[1], self.filter_height, self.stride_h)
        wide = _inside(cols, input.shape[2], self.filter_width, self.stride_w)
        counts: Array = (high[:, None] * wide)[..., None]
        return counts

    def required_version(self) -> int:
        return version_by_dtype(self.input, {i16: 3, i8: 2})


def _slide(x: Array, axis: int, taps: int, stride: int, combine: Combine) -> Array:
    """``combine`` of ``taps`` elements along ``axis`` of x, every ``stride`` elements."""
    last = x.shape[axis] - taps + 1

    def tap(index: int) -> Array:
        part: Array = x[(slice(None),) * axis + (slice(index, index + last, stride),)]
        return part

    out: Array = tap(0).copy()
    for index in range(1, taps):
        combine(out, tap(index), out=out)
    return out


def _inside(window: Window, size: int, taps: int, stride: int) -> Array:
    """How many elements of each window lie in 0..size."""
    first = np.arange(window.size) * stride - window.before
    return np.minimum(first + taps, size) - np.maximum(first, 0)


class AveragePool2D(_Pool2D, code="AVERAGE_POOL_2D", options="Pool2DOptions"):
    """Mean over each window; padding does not count.  Integers: rounded, halves away from zero.

    Source: TFLite pooling.
    """

    def kernel(self, input: Array) -> Array:
        if self.input.dtype in INTEGERS:
            total = self._reduce(input.astype(np.int32), np.add, 0)
            counts = self._counts(input).astype(np.int32)
            magnitude = (np.abs(total) + counts // 2) // counts
            mean = np.where(total > 0, magnitude, -magnitude)
            return np.clip(mean, *activation_limits(self.act, self.output)).astype(input.dtype)
        need_float(self, input)
        out = self._mean(input)
        return fused(out, self.act)


class MaxPool2D(_Pool2D, code="MAX_POOL_2D", options="Pool2DOptions"):
    """Largest element of each window; NaN counts as none, as in LiteRT.  Source: TFLite pooling."""

    def kernel(self, input: Array) -> Array:
        if self.input.dtype in INTEGERS:
            out = self._reduce(input, np.maximum, np.iinfo(input.dtype).min)
            return np.clip(out, *activation_limits(self.act, self.output), out=out)
        need_float(self, input)
        least = np.finfo(input.dtype).min
        out = self._reduce(input, np.maximum, least)
        if np.isnan(out).any():
            out = self._reduce(input, np.fmax, least)
            out[np.isnan(out)] = least
        return fused(out, self.act)


class L2Pool2D(_Pool2D, code="L2_POOL_2D", options="Pool2DOptions"):
    """Root of the mean square over each window; padding does not count.  Source: TFLite pooling."""

    def kernel(self, input: Array) -> Array:
        need_float(self, input)
        out = self._mean(np.square(input))
        np.sqrt(out, out=out)
        return fused(out, self.act)

    def required_version(self) -> int:
        return 1
