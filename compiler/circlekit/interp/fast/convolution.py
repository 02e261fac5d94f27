# SPDX-License-Identifier: Apache-2.0
"""Convolutions in blocks of results that stay in the cache: as matrix products (im2col)."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from circlekit.interp.fast.layer import FastLayer
from circlekit.ir.value import Array
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.convolution.correlation import Geometry

CACHE_BLOCK_BYTES = 1 << 18
"""Scratch of one block of results."""


class FastConv2D(FastLayer):
    """Each block of results is the product of its patches [R, KH * KW * I] and the weights."""

    op: Conv2D

    def __call__(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        geometry = self.op.geometry(input.shape, filter.shape)
        matrix = self.weights(filter).reshape(len(filter), -1).T
        depth, channels = matrix.shape
        rows, columns = geometry.windows
        out = np.empty((len(input), rows, columns, channels), self.result_dtype)
        if out.size == 0:
            return out
        step = block_rows(geometry, (depth + 2 * channels) * matrix.itemsize)
        results = self.results(out.reshape(-1, channels), step * columns)
        for index, image in enumerate(input):
            patches = window_view(self.padded(image, geometry), geometry)
            for top in range(0, rows, step):
                sums = np.matmul(patches[top : top + step].reshape(-1, depth), matrix)
                results.write(sums, (index * rows + top) * columns)
        results.close()
        return out


class FastIntegerConvolution(FastLayer):
    """The sums of the plain kernel, on integers, with a fast output stage."""

    def __call__(
        self, input: Array, filter: Array, bias: Array | None = None, output_shape: Array | None = None
    ) -> Array:
        data = input.astype(self.dtype)
        data -= self.zero_point
        sums = self.op.sums(data, self.weights(filter), output_shape)
        out = np.empty(sums.shape, self.result_dtype)
        if out.size == 0:
            return out
        rows = sums.reshape(-1, sums.shape[-1])
        step = min(len(rows), max(1, CACHE_BLOCK_BYTES // (2 * rows[:1].nbytes)))
        results = self.results(out.reshape(rows.shape), step)
        for top in range(0, len(rows), step):
            results.write(rows[top : top + step], top)
        results.close()
        return out


def block_rows(geometry: Geometry, result_bytes: int) -> int:
    """How many rows of results, of which each takes ``result_bytes`` of scratch, are a block."""
    rows, columns = geometry.windows
    return min(rows, max(1, CACHE_BLOCK_BYTES // (columns * result_bytes)))


def window_view(image: Array, geometry: Geometry) -> Array:
    """View of a padded image [H, W, C] as what each window reads: [OH, OW, KH, KW, C]."""
    high, wide, channel = image.strides
    strides, dilations = geometry.strides, geometry.dilations
    steps = (high * strides[0], wide * strides[1], high * dilations[0], wide * dilations[1], channel)
    return as_strided(image, (*geometry.windows, *geometry.taps, image.shape[2]), steps, writeable=False)
