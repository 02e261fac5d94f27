# SPDX-License-Identifier: Apache-2.0
"""Pooling over NHWC data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import i8, i16, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_float, require_rank
from circlekit.ops.convolution.correlation import Geometry
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.fixed_point import quantized_activation_range
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.versions import version_by_dtype
from circlekit.ops.windows import window_size

INTEGERS = (i8, u8, i16)


class _Pool2D(Op):
    """Attributes, shape rule and windows of all pools."""

    input = operand(*REAL)

    padding: Padding = attribute(Padding.SAME)
    stride_w: int = attribute(1)
    stride_h: int = attribute(1)
    filter_width: int = attribute(1)
    filter_height: int = attribute(1)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    fuses_activation = True

    def infer(self) -> TensorType:
        n, h, w, depth = require_rank(self.input, "input", 4) or (None,) * 4
        if self.filter_height < 1 or self.filter_width < 1:
            raise ShapeError(f"filter is {self.filter_height} x {self.filter_width}, expected at least 1 x 1")
        high = window_size(h, self.filter_height, self.stride_h, 1, self.padding)
        wide = window_size(w, self.filter_width, self.stride_w, 1, self.padding)
        return TensorType(self.input.dtype, (n, high, wide, depth))

    def _axes(self, size: Sequence[int]) -> list[Geometry]:
        """The windows along the height and along the width of images of ``size``."""
        taps, strides = (self.filter_height, self.filter_width), (self.stride_h, self.stride_w)
        axes = zip(size, taps, strides, strict=True)
        return [Geometry.of((n,), (k,), (stride,), (1,), self.padding) for n, k, stride in axes]

    def _reduce(self, input: Array, combine: np.ufunc, start: float) -> Array:
        """``combine`` of ``start`` and the elements of each window that lie inside of the image.

        The windows are reduced along the height, then along the width.
        """
        images, high, wide, depth = input.shape
        rows, columns = self._axes((high, wide))
        lines = _slide(input.reshape(images, high, wide * depth), rows, combine, start)
        lines = lines.reshape(images * rows.windows[0], wide, depth)
        out = _slide(lines, columns, combine, start)
        return out.reshape(images, rows.windows[0], columns.windows[0], depth)

    def _sum_and_count(self, input: Array) -> tuple[Array, Array]:
        """The sum over each window, and how many elements it has inside of the image: [OH, OW, 1]."""
        total = self._reduce(input, np.add, 0)
        ones = np.ones((1, *input.shape[1:3], 1), total.dtype)
        return total, self._reduce(ones, np.add, 0)[0]

    def required_version(self) -> int:
        return version_by_dtype(self.input, {i16: 3, i8: 2})


def _slide(x: Array, geometry: Geometry, combine: np.ufunc, start: float) -> Array:
    """Combine ``start`` and the elements of each window along axis 1 of x [N, S, C]: [N, W, C]."""
    if geometry.windows == (1,) and geometry.before == (0,):
        return np.asarray(combine.reduce(x[:, : geometry.taps[0]], axis=1, keepdims=True, initial=start))
    out = np.full((len(x), *geometry.windows, x.shape[2]), start, x.dtype)
    for _, windows, elements in geometry.overlaps():
        combine(out[windows], x[elements], out=out[windows])
    return out


class AveragePool2D(_Pool2D, code="AVERAGE_POOL_2D", options="Pool2DOptions"):
    """Mean over each window; padding does not count.  Integers: rounded, halves away from zero.

    Source: TFLite pooling.
    """

    def kernel(self, input: Array) -> Array:
        if self.input.dtype not in INTEGERS:
            require_float(self, input)
            total, count = self._sum_and_count(input)
            return apply_fused_activation(total / count, self.act)
        total, count = self._sum_and_count(input.astype(np.int64))
        mean = np.sign(total) * ((np.abs(total) + count // 2) // count)
        limits = quantized_activation_range(self.act, self.output)
        return np.asarray(np.clip(mean, *limits), input.dtype)


class MaxPool2D(_Pool2D, code="MAX_POOL_2D", options="Pool2DOptions"):
    """Largest element of each window; NaN counts as none, as in LiteRT.  Source: TFLite pooling."""

    def kernel(self, input: Array) -> Array:
        if self.input.dtype in INTEGERS:
            out = self._reduce(input, np.maximum, np.iinfo(input.dtype).min)
            limits = quantized_activation_range(self.act, self.output)
            return np.asarray(np.clip(out, *limits), input.dtype)
        require_float(self, input)
        return apply_fused_activation(self._reduce(input, np.fmax, np.finfo(input.dtype).min), self.act)


class L2Pool2D(_Pool2D, code="L2_POOL_2D", options="Pool2DOptions"):
    """Root of the mean square over each window; padding does not count.  Source: TFLite pooling."""

    def kernel(self, input: Array) -> Array:
        require_float(self, input)
        total, count = self._sum_and_count(np.square(input))
        return apply_fused_activation(np.sqrt(total / count), self.act)

    def required_version(self) -> int:
        return 1
