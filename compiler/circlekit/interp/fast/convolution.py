# SPDX-License-Identifier: Apache-2.0
"""Convolutions: products of blocks of patches that stay in the cache (im2col), or sums over windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlekit.interp.fast.layer import FastLayer
from circlekit.interp.fast.requantization import repeats
from circlekit.ir.value import Array
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv, run_time_shape
from circlekit.ops.convolution.correlation import Geometry

CACHE_BLOCK_BYTES = 1 << 20
"""Scratch of one block of results: smaller ones cost more calls than they save cache misses."""

LARGEST_SCRATCH_RATIO = 8
"""A transposed convolution that needs more scratch than so many results is left to the plain kernel."""


class FastConvolution(FastLayer):
    """A convolution over images."""

    def padded(self, image: Array, geometry: Geometry) -> Array:
        """An image [H, W, C] as floats without zero point, with the padding that its windows read."""
        taps, strides, dilations, before, windows, _ = geometry
        size = [(windows[a] - 1) * strides[a] + (taps[a] - 1) * dilations[a] + 1 for a in (0, 1)]
        part = image[: size[0] - before[0], : size[1] - before[1]]
        if self.stage is None and part.shape[:2] == tuple(size) and part.flags.c_contiguous:
            return part
        out = np.zeros((*size, image.shape[2]), self.dtype)
        middle = out[before[0] :, before[1] :][: part.shape[0], : part.shape[1]]
        middle[...] = part
        if self.zero_point:
            middle -= self.zero_point
        return out

    def convolved(self, input: Array, matrix: Array, geometry: Geometry) -> Array:
        """The results of the windows: patches [R, KH * KW * I] times a ``matrix`` of weights, in blocks."""
        depth, channels = matrix.shape
        rows, columns = geometry.windows
        out = np.empty((len(input), rows, columns, channels), self.result_dtype)
        if out.size == 0:
            return out
        step = min(rows, max(1, CACHE_BLOCK_BYTES // (columns * (depth + 2 * channels) * matrix.itemsize)))
        for image, result in zip(input, out, strict=True):
            patches = window_view(self.padded(image, geometry), geometry)
            for top in range(0, rows, step):
                block, place = patches[top : top + step].reshape(-1, depth), result[top : top + step]
                if self.stage is None:
                    np.matmul(block, matrix, out=place.reshape(-1, channels))
                    self.finish(place)
                else:
                    self.stage.write(np.matmul(block, matrix).reshape(place.shape), place)
        return out

    def finished(self, sums: Array) -> Array:
        """The results of sums [N, OH, OW, O], which are overwritten."""
        if self.stage is None:
            return self.finish(sums)
        out = np.empty(sums.shape, self.result_dtype)
        step = max(1, CACHE_BLOCK_BYTES // max(1, 8 * sums[0, :1].size))
        for image, result in zip(sums, out, strict=True):
            for top in range(0, len(image), step):
                self.stage.write(image[top : top + step], result[top : top + step])
        return out


class FastConv2D(FastConvolution):
    """Ungrouped CONV_2D."""

    op: Conv2D

    def __call__(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        return self.convolved(input, self.weights(filter), self.op.geometry(input.shape, filter.shape))

    def arranged(self, filter: Array) -> Array:
        """A matrix [KH * KW * I, O]."""
        return np.asarray(filter.reshape(len(filter), -1).T)


class FastTransposeConv(FastConvolution):
    """TRANSPOSE_CONV: products of all taps at once, which are then added onto the result.

    Taps are in groups of stride x stride, of which each fills adjacent places of the result in one addition.
    The filter is extended by zeros to a multiple of the strides.
    """

    op: TransposeConv

    def __call__(self, output_shape: Array, filter: Array, input: Array, bias: Array | None = None) -> Array:
        shape = run_time_shape(output_shape, (len(input), None, None, len(filter)))
        if self.is_extended and not np.isfinite(input).all():  # zeros times these are no zeros
            return np.asarray(self.op.kernel(output_shape, filter, input, bias))
        geometry = self.op.geometry(input.shape, filter.shape, shape)
        (stride_h, stride_w), (rows, columns) = geometry.strides, input.shape[1:3]
        groups_h, groups_w = self._groups(filter.shape)
        matrix = self.weights(filter)
        extent = len(input), rows + groups_h - 1, stride_h, columns + groups_w - 1, stride_w, shape[3]
        if max(prod(extent), columns * matrix.shape[1]) > LARGEST_SCRATCH_RATIO * prod(shape):
            return np.asarray(self.op.kernel(output_shape, filter, input, bias))
        full = np.zeros(extent, self.dtype)
        data, step = self.centered(input), max(1, CACHE_BLOCK_BYTES // max(1, columns * matrix[0].nbytes))
        for image, place in zip(data, full, strict=True):
            for top in range(0, rows, step):
                block = image[top : top + step]
                products = np.matmul(block.reshape(-1, block.shape[2]), matrix).reshape(
                    len(block), columns, groups_h, groups_w, stride_h, stride_w, shape[3]
                )
                for i, j in np.ndindex(groups_h, groups_w):
                    target = place[top + i : top + i + len(block), :, j : j + columns]
                    target += products[:, :, i, j].swapaxes(1, 2)
        whole = full.reshape(len(input), (rows + groups_h - 1) * stride_h, -1, shape[3])
        return self.finished(cropped(whole, geometry.before, shape))

    @property
    def is_extended(self) -> bool:
        """Whether there are zeros behind a float filter."""
        _, high, wide, _ = self.op.filter.static_shape
        return self.stage is None and bool(high % self.op.stride_h or wide % self.op.stride_w)

    def _groups(self, filter: tuple[int, ...]) -> tuple[int, int]:
        """How many groups of taps there are along the height and the width."""
        return -(-filter[1] // self.op.stride_h), -(-filter[2] // self.op.stride_w)

    def arranged(self, filter: Array) -> Array:
        """A matrix [I, groups * stride * stride * O]."""
        outputs, taps_h, taps_w, depth = filter.shape
        (groups_h, groups_w), (stride_h, stride_w) = (
            self._groups(filter.shape),
            (self.op.stride_h, self.op.stride_w),
        )
        padded = np.zeros((outputs, groups_h * stride_h, groups_w * stride_w, depth), filter.dtype)
        padded[:, :taps_h, :taps_w] = filter
        split = padded.reshape(outputs, groups_h, stride_h, groups_w, stride_w, depth)
        return np.asarray(split.transpose(5, 1, 3, 2, 4, 0).reshape(depth, -1))


class FastDepthwiseConv2D(FastConvolution):
    """DEPTHWISE_CONV_2D: one sum of products over all windows of an image.

    With stride 1, the channels of several columns are taken together, as numpy is slow with few of them.
    """

    op: DepthwiseConv2D

    def __call__(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        geometry = self.op.geometry(input.shape, filter.shape)
        (rows, columns), channels = geometry.windows, filter.shape[3]
        sums = np.empty((len(input), rows, columns, channels), self.dtype)
        if sums.size == 0:
            return sums.astype(self.result_dtype)
        multiplier = channels // input.shape[3]
        count = repeats(columns, channels) if geometry.strides[1] == 1 else 1
        taps = np.tile(self.weights(filter)[0], count)
        for image, total in zip(input, sums, strict=True):
            repeated = image if multiplier == 1 else image.repeat(multiplier, axis=2)
            windows = window_view(self.padded(repeated, geometry), geometry, count)
            np.einsum("hwyxc,yxc->hwc", windows, taps, out=total.reshape(rows, -1, count * channels))
        return self.finished(sums)


def cropped(array: Array, before: Sequence[int], shape: Sequence[int]) -> Array:
    """What of an array [N, H, W, C] is at ``before``, in ``shape``; 0 beyond its ends."""
    part = array[:, before[0] : before[0] + shape[1], before[1] : before[1] + shape[2]]
    if part.shape == tuple(shape):
        return np.ascontiguousarray(part)
    out = np.zeros(shape, array.dtype)
    out[:, : part.shape[1], : part.shape[2]] = part
    return out


def window_view(image: Array, geometry: Geometry, count: int = 1) -> Array:
    """View of a padded image [H, W, C] without gaps as what each window reads: [OH, OW, KH, KW, C].

    ``count``: columns that are taken together if the stride is 1: [OH, OW / count, KH, KW, count * C].
    """
    high, wide, channel = image.strides
    strides, dilations = geometry.strides, geometry.dilations
    steps = (high * strides[0], wide * strides[1] * count, high * dilations[0], wide * dilations[1], channel)
    rows, columns = geometry.windows
    shape = (rows, columns // count, *geometry.taps, image.shape[2] * count)
    view: Array = np.ndarray(shape, image.dtype, image, 0, steps)
    return view
