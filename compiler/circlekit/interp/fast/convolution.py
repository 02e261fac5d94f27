# SPDX-License-Identifier: Apache-2.0
"""Fast paths of convolutions.

CONV_2D multiplies blocks of patches (im2col), small enough for the cache, by the filter.  TRANSPOSE_CONV is
one matrix product for all taps.  DEPTHWISE_CONV_2D is an einsum.

A tap is one of the KH x KW positions of the filter.  A window is the part of the input that the taps read for
one position of the result.  A patch is a window as one row of a matrix.  ``Geometry`` describes the windows.
In shapes, N is the number of images, and I and O are the input and output channels.  The sizes are H x W for
the input, OH x OW for the result, and KH x KW for the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.interp.fast.requantization import ChannelVector, FastOutputStage, repeats
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.value import Array
from circlekit.ops.checks import require_float
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer, run_time_shape
from circlekit.ops.convolution.correlation import Geometry
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.quantized_layers import greatest_magnitude, is_dynamically_quantized
from circlekit.ops.quantized_values import zero_point_of

CACHE_BLOCK_BYTES = 1 << 20
"""A block of rows takes at most this much scratch memory, which fits the cache; one row may take more."""

LARGEST_SCRATCH_RATIO = 8
"""The plain kernel of TRANSPOSE_CONV runs if the fast one needs too much scratch memory.

That is if the result before cropping, or the products of one input row, have more than this many times the
elements of the result.
"""

KEPT_WEIGHT_BYTES = 1 << 20
"""Prepared weights of up to this size are kept; larger weights are prepared again in every run."""


class FastConvolution:
    """Base class of convolutions on floats or quantized integers, with constant filter and bias.

    ``dtype``: the float dtype of sums.  ``result_dtype``: the dtype of results.  ``stage``: converts sums of
    quantized products to results; None for floats.  ``bias``: the bias of a float layer; for quantized
    integers, ``stage`` has the bias.  ``prepared``: the weights as ``arranged`` returns them, or None if they
    are too large to keep.

    An instance is called like the kernel of the operator.  The constant bias was prepared before.  So the
    argument ``bias`` is not read, unless the instance calls the plain kernel.
    """

    def __init__(self, op: ConvolutionLayer, depth: int, filter: Array, bias: Array | None) -> None:
        """Prepare ``op`` for inputs of ``depth`` channels, with the elements of its filter and bias.

        Raise UnsupportedError for a float input with an integer filter (dynamic quantization).
        """
        self.op, self.zero_point = op, 0
        self.bias: ChannelVector | None = None
        self.stage: FastOutputStage | None = None
        self.is_float = filter.dtype.kind == "f"
        exact = filter  # of quantized integers: minus its zero points, in a float dtype whose sums are exact
        if self.is_float:
            require_float(op, np.empty(0, op.input.dtype.numpy), filter, bias)
            self.bias = None if bias is None else ChannelVector(bias)
        elif is_dynamically_quantized(op, op.input, op.filter):
            raise UnsupportedError(f"{op.code} with dynamic quantization has no fast kernel")
        else:
            self.zero_point, exact = zero_point_of(op.input), op.exact_filter(filter)
            summed_axes = tuple(axis for axis in range(4) if axis != op.channel_axis)
            largest_sum = float(np.abs(exact).sum(axis=summed_axes).max())
            bound = greatest_magnitude(op.input, self.zero_point) * largest_sum
            self.stage = FastOutputStage(op.output_stage(depth, filter, bias), bound)
        weights = self.arranged(exact)
        self.prepared = weights if weights.nbytes <= KEPT_WEIGHT_BYTES else None
        self.dtype, self.result_dtype = exact.dtype, np.dtype(op.input.dtype.numpy)

    def weights(self, filter: Array) -> Array:
        """Return the kept weights; if they were too large to keep, prepare them again from ``filter``."""
        if self.prepared is not None:
            return self.prepared
        return self.arranged(filter if self.is_float else self.op.exact_filter(filter))

    def arranged(self, filter: Array) -> Array:
        """Return a float filter in the layout that the subclass needs for its products; here unchanged."""
        return filter

    def centered(self, data: Array) -> Array:
        """Return input data as floats, with the zero point subtracted."""
        if self.stage is None:
            return data
        floats = data.astype(self.dtype)
        floats -= self.zero_point
        return floats

    def finish_floats(self, sums: Array) -> Array:
        """Add the bias to float sums [..., columns, O] and apply the activation, in place."""
        if self.bias is not None:
            bias = self.bias.of(*sums.shape[-2:])
            rows = sums.reshape(-1, bias.size)
            rows += bias
        return apply_fused_activation(sums, self.op.act)

    def padded(self, image: Array, geometry: Geometry) -> Array:
        """Return the part of an image [H, W, I] that the windows cover, as floats minus the zero point.

        Rows and columns behind the last window are cut off.  Elements of padding are 0.
        """
        taps, strides, dilations, before, windows, _ = geometry  # ``before``: the padding before the image
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
        """Return results [N, OH, OW, O]: the patches of ``input`` times ``matrix`` [KH * KW * I, O].

        The product is computed in blocks of rows of the result.
        """
        patch_size, channels = matrix.shape
        rows, columns = geometry.windows
        out = np.empty((len(input), rows, columns, channels), self.result_dtype)
        if out.size == 0:
            return out
        # one row of scratch memory: the patches, their sums, and a copy of the sums for the output stage
        row_bytes = columns * (patch_size + 2 * channels) * matrix.itemsize
        step = min(rows, max(1, CACHE_BLOCK_BYTES // row_bytes))
        for image, result in zip(input, out, strict=True):
            patches = window_view(self.padded(image, geometry), geometry)
            for top in range(0, rows, step):
                block, part = patches[top : top + step].reshape(-1, patch_size), result[top : top + step]
                if self.stage is None:
                    np.matmul(block, matrix, out=part.reshape(-1, channels))
                    self.finish_floats(part)
                else:
                    self.stage.write(np.matmul(block, matrix).reshape(part.shape), part)
        return out

    def finished(self, sums: Array) -> Array:
        """Return the results of the layer for its sums [N, OH, OW, O]; the sums are overwritten."""
        if self.stage is None:
            return self.finish_floats(sums)
        out = np.empty(sums.shape, self.result_dtype)
        step = max(1, CACHE_BLOCK_BYTES // (8 * sums[0, 0].size))  # the stage computes a row in float64
        for image, result in zip(sums, out, strict=True):
            for top in range(0, len(image), step):
                self.stage.write(image[top : top + step], result[top : top + step])
        return out


class FastConv2D(FastConvolution):
    """CONV_2D with one group."""

    op: Conv2D

    def __call__(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        return self.convolved(input, self.weights(filter), self.op.geometry(input.shape, filter.shape))

    def arranged(self, filter: Array) -> Array:
        """Return the filter as a matrix [KH * KW * I, O]."""
        return np.asarray(filter.reshape(len(filter), -1).T)


class FastTransposeConv(FastConvolution):
    """TRANSPOSE_CONV: one matrix product for all taps of the filter, then additions into the result.

    The taps are divided into groups of stride_h x stride_w taps.  The products of one input element and a
    group belong to adjacent elements of the result, so there is one addition per group instead of one per
    tap.  The filter is padded with zeros to a whole number of groups: with stride 2, a 3x3 filter is padded
    to 4x4, which makes 2x2 groups of 2x2 taps.
    """

    op: TransposeConv

    def __call__(self, output_shape: Array, filter: Array, input: Array, bias: Array | None = None) -> Array:
        shape = run_time_shape(output_shape, (len(input), None, None, len(filter)))
        # infinity or NaN times a zero that pads the filter would be NaN: the plain kernel has no such zeros
        if not input.size or (self.is_float and not np.isfinite(input).all()):
            return np.asarray(self.op.kernel(output_shape, filter, input, bias))
        geometry = self.op.geometry(input.shape, filter.shape, shape)
        (stride_h, stride_w), (rows, columns) = geometry.strides, input.shape[1:3]
        groups_h, groups_w = self._groups(filter.shape)
        matrix = self.weights(filter)
        # the result before it is cropped: its rows as (rows + groups_h - 1) x stride_h, its columns likewise
        extent = len(input), rows + groups_h - 1, stride_h, columns + groups_w - 1, stride_w, shape[3]
        products_per_row = columns * matrix.shape[1]
        if max(prod(extent), products_per_row) > LARGEST_SCRATCH_RATIO * prod(shape):
            return np.asarray(self.op.kernel(output_shape, filter, input, bias))
        full = np.zeros(extent, self.dtype)
        data, step = self.centered(input), max(1, CACHE_BLOCK_BYTES // max(1, columns * matrix[0].nbytes))
        for image, sums in zip(data, full, strict=True):
            for top in range(0, rows, step):
                block = image[top : top + step]
                products = np.matmul(block.reshape(-1, block.shape[2]), matrix).reshape(
                    len(block), columns, groups_h, groups_w, stride_h, stride_w, shape[3]
                )
                for i, j in np.ndindex(groups_h, groups_w):
                    part = sums[top + i : top + i + len(block), :, j : j + columns]
                    part += products[:, :, i, j].swapaxes(1, 2)
        whole = full.reshape(len(input), (rows + groups_h - 1) * stride_h, -1, shape[3])
        return self.finished(cropped(whole, geometry.before, shape))

    def _groups(self, filter: tuple[int, ...]) -> tuple[int, int]:
        """Return the numbers of groups of taps along height and width; ``filter``: the filter's shape."""
        return -(-filter[1] // self.op.stride_h), -(-filter[2] // self.op.stride_w)

    def arranged(self, filter: Array) -> Array:
        """Return the filter as a matrix [I, groups_h * groups_w * stride_h * stride_w * O]."""
        outputs, taps_h, taps_w, depth = filter.shape
        stride_h, stride_w = self.op.stride_h, self.op.stride_w
        shape = (depth, *self._groups(filter.shape), stride_h, stride_w, outputs)
        need_memory(prod(shape) * filter.itemsize, "a filter padded to whole strides")
        matrix = np.zeros(shape, filter.dtype)
        y, x = np.ix_(range(taps_h), range(taps_w))
        matrix[:, y // stride_h, x // stride_w, y % stride_h, x % stride_w] = filter.transpose(3, 1, 2, 0)
        return matrix.reshape(depth, -1)


class FastDepthwiseConv2D(FastConvolution):
    """DEPTHWISE_CONV_2D: one einsum over all windows of an image.

    numpy is slow on short axes.  So if the stride along the width is 1, the channels of several adjacent
    columns are joined into one axis.
    """

    op: DepthwiseConv2D

    def __call__(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        geometry = self.op.geometry(input.shape, filter.shape)
        (rows, columns), channels = geometry.windows, filter.shape[3]
        sums = np.empty((len(input), rows, columns, channels), self.dtype)
        if sums.size == 0:
            return sums.astype(self.result_dtype)
        multiplier = channels // input.shape[3]  # the result channels that read one input channel
        count = repeats(columns, channels) if geometry.strides[1] == 1 else 1
        taps = np.tile(self.weights(filter)[0], count)  # [KH, KW, count * channels]
        for image, image_sums in zip(input, sums, strict=True):
            repeated = image if multiplier == 1 else image.repeat(multiplier, axis=2)
            windows = window_view(self.padded(repeated, geometry), geometry, count)
            # h, w: a window; y, x: a tap; c: a channel of one of the joined columns
            np.einsum("hwyxc,yxc->hwc", windows, taps, out=image_sums.reshape(rows, -1, count * channels))
        return self.finished(sums)


def cropped(array: Array, before: Sequence[int], shape: Sequence[int]) -> Array:
    """Return ``array`` [N, H, W, O] without its first rows and columns, cut or padded with 0 to ``shape``.

    ``before``: the numbers of rows and columns to leave out.
    """
    part = array[:, before[0] : before[0] + shape[1], before[1] : before[1] + shape[2]]
    if part.shape == tuple(shape):
        return np.ascontiguousarray(part)
    out = np.zeros(shape, array.dtype)
    out[:, : part.shape[1], : part.shape[2]] = part
    return out


def window_view(image: Array, geometry: Geometry, count: int = 1) -> Array:
    """Return a view [OH, OW, KH, KW, I] of the windows of a contiguous padded image [H, W, I].

    ``count``: how many columns of windows to join; 1, or with stride 1 along the width any divisor of OW.
    The shape is then [OH, OW / count, KH, KW, count * I].
    """
    # computed, because ``image.strides`` is arbitrary for an axis of one element
    channel = image.itemsize
    column = image.shape[2] * channel
    row = image.shape[1] * column
    (stride_h, stride_w), (dilation_h, dilation_w) = geometry.strides, geometry.dilations
    steps = (row * stride_h, column * stride_w * count, row * dilation_h, column * dilation_w, channel)
    rows, columns = geometry.windows
    shape = (rows, columns // count, *geometry.taps, image.shape[2] * count)
    view: Array = np.ndarray(shape, image.dtype, image, 0, steps)
    return view
