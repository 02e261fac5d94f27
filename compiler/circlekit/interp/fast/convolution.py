# SPDX-License-Identifier: Apache-2.0
"""Convolutions as matrix products of blocks of patches that stay in the cache (im2col)."""

from __future__ import annotations

import numpy as np

from circlekit.interp.fast.layer import FastLayer
from circlekit.ir.value import Array
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer
from circlekit.ops.convolution.correlation import Geometry

CACHE_BLOCK_BYTES = 1 << 18
"""Scratch of one block of results."""


class FastConvolution(FastLayer):
    """A convolution; ``depth``: channels of its input."""

    def __init__(self, op: ConvolutionLayer, depth: int) -> None:
        super().__init__(
            op, op.filter, op.channel_axis, op.exact_filter, lambda f, b: op.output_stage(depth, f, b)
        )

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
        """The results of the windows: blocks of patches [R, KH * KW * I] times the ``matrix`` [K, O] of weights."""
        depth, channels = matrix.shape
        rows, columns = geometry.windows
        out = np.empty((len(input), rows, columns, channels), self.result_dtype)
        if out.size == 0:
            return out
        step = min(rows, max(1, CACHE_BLOCK_BYTES // (columns * (depth + 2 * channels) * matrix.itemsize)))
        results = self.results(out.reshape(-1, channels), columns)
        for index, image in enumerate(input):
            patches = window_view(self.padded(image, geometry), geometry)
            for top in range(0, rows, step):
                sums = np.matmul(patches[top : top + step].reshape(-1, depth), matrix)
                results.write(sums, (index * rows + top) * columns)
        results.close()
        return out


class FastConv2D(FastConvolution):
    """Ungrouped CONV_2D."""

    op: Conv2D

    def __call__(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        matrix = self.weights(filter).reshape(len(filter), -1).T
        return self.convolved(input, matrix, self.op.geometry(input.shape, filter.shape))


class FastIntegerSums(FastConvolution):
    """The sums of the plain kernel, on integers, with prepared weights and a fast output stage.

    For depthwise, grouped and transposed convolutions: on floats, nothing is faster than their plain kernels.
    """

    def __call__(
        self, input: Array, filter: Array, bias: Array | None = None, output_shape: Array | None = None
    ) -> Array:
        return self.finished(self.op.sums(self.centered(input), self.weights(filter), output_shape))


def window_view(image: Array, geometry: Geometry) -> Array:
    """View of a padded image [H, W, C] without gaps as what each window reads: [OH, OW, KH, KW, C]."""
    high, wide, channel = image.strides
    strides, dilations = geometry.strides, geometry.dilations
    steps = (high * strides[0], wide * strides[1], high * dilations[0], wide * dilations[1], channel)
    shape = (*geometry.windows, *geometry.taps, image.shape[2])
    return np.ndarray(shape, image.dtype, image, 0, steps)
