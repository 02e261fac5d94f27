# SPDX-License-Identifier: Apache-2.0
"""Correlation of channels-last data with a filter, and the base class of 2-D convolutions.

Along each spatial axis, tap ``k`` of window ``w`` reads element ``w * stride + k * dilation - before``.  A
convolution gathers elements into windows, a transposed convolution scatters windows onto elements.  Both loop
over the taps and make no padded copy of the data.  The base class adds bias, activation and quantization.

Source: TFLite conv.cc, depthwise_conv.cc, transpose_conv.cc and their reference kernels; ONE's interpreter
for int16 weights and for uint8 weights with a scale per channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circlekit.ir.dtypes import i16, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op, attribute
from circlekit.ir.value import Array, Value
from circlekit.ops.checks import require_float
from circlekit.ops.dimensions import conv_padding
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.fixed_point import quantized_activation_range
from circlekit.ops.numerics.output_stage import Arithmetic, OutputStage, rounds_up
from circlekit.ops.numerics.quantized_layers import (
    centered_weights,
    channel_scales,
    effective_scale,
    greatest_magnitude,
    has_int64_sums,
    integer_bias,
    is_dynamically_quantized,
    quantize_rows,
    weight_zero_points,
)
from circlekit.ops.quantization import zero_point_of

Ints = tuple[int, ...]
Index = tuple[int | slice, ...]


class Geometry(NamedTuple):
    """Sliding windows over spatial axes; every field has one number per axis.

    ``taps``: elements in a window; ``before``: padding in front of the first element; ``windows``: number of
    windows; ``size``: number of elements of the data.
    """

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    windows: tuple[int, ...]
    size: tuple[int, ...]

    @staticmethod
    @lru_cache(maxsize=1024)  # the layers of a model are the same in every run
    def of(size: Ints, taps: Ints, strides: Ints, dilations: Ints, padding: Padding) -> Geometry:
        """Return the windows of a convolution over data of ``size``."""
        axes = [conv_padding(*axis, padding) for axis in zip(size, taps, strides, dilations, strict=True)]
        before, windows = [w.before for w in axes], [w.size for w in axes]
        return Geometry(*(tuple(numbers) for numbers in (taps, strides, dilations, before, windows, size)))

    @staticmethod
    def transposed(
        windows: Ints, size: Ints, taps: Ints, strides: Ints, dilations: Ints, padding: Padding
    ) -> Geometry:
        """Return the windows of a transposed convolution from data [*windows] to a result [*size].

        ``before`` is the padding of a convolution over the result, even if it would have another number of
        windows.
        """
        before = [0] * len(size)
        if padding is Padding.SAME:
            axes = zip(size, taps, strides, dilations, strict=True)
            before = [conv_padding(*axis, padding).before for axis in axes]
        return Geometry(*(tuple(numbers) for numbers in (taps, strides, dilations, before, windows, size)))

    def overlaps(self) -> Iterable[tuple[Index, Index, Index]]:
        """Return, for each tap that reads data and not only padding, the tap, its windows and its elements.

        They are indices of arrays [O, *K, I], [N, *W, C] and [N, *S, C].
        """
        return _cached_overlaps(self) if prod(self.taps) <= MAX_CACHED_TAPS else _joined_overlaps(self)


MAX_CACHED_TAPS = 64
"""The overlaps of windows with at most this many taps are cached from run to run."""


@lru_cache(maxsize=512)
def _cached_overlaps(geometry: Geometry) -> tuple[tuple[Index, Index, Index], ...]:
    return tuple(_joined_overlaps(geometry))


def _joined_overlaps(geometry: Geometry) -> Iterator[tuple[Index, Index, Index]]:
    per_axis = [list(_overlaps(*axis)) for axis in zip(*geometry, strict=True)]
    for chosen in product(*per_axis):
        tap, windows, elements = ((slice(None), *indices) for indices in zip(*chosen, strict=True))
        yield tap, windows, elements


def _overlaps(
    taps: int, stride: int, dilation: int, before: int, windows: int, size: int
) -> Iterator[tuple[int, slice, slice]]:
    """Yield (tap, its windows, its elements) along one axis for each tap that reads data in any window."""
    least = max(0, -(-(before - (windows - 1) * stride) // dilation))
    for tap in range(least, min(taps, -(-(before + size) // dilation))):
        offset = tap * dilation - before
        first = max(0, -(offset // stride))
        last = min(windows - 1, (size - 1 - offset) // stride)
        if first <= last:
            elements = slice(first * stride + offset, last * stride + offset + 1, stride)
            yield tap, slice(first, last + 1), elements


def correlate(x: Array, filter: Array, geometry: Geometry) -> Array:
    """Correlate x [N, *S, I] with filter [O, *K, I / groups]: [N, *W, O]; padding is 0."""
    out = np.zeros((len(x), *geometry.windows, len(filter)), x.dtype)
    for tap, windows, elements in geometry.overlaps():
        out[windows] += channel_product(x[elements], filter[tap])
    return out


def correlate_transposed(x: Array, filter: Array, geometry: Geometry) -> Array:
    """Scatter x [N, *W, I] through filter [O, *K, I] onto elements: [N, *S, O].

    The gradient of ``correlate`` with respect to its data.  Products outside of ``size`` are dropped.
    """
    out = np.zeros((len(x), *geometry.size, len(filter)), x.dtype)
    for tap, windows, elements in geometry.overlaps():
        out[elements] += channel_product(x[windows], filter[tap])
    return out


def correlate_depthwise(x: Array, filter: Array, geometry: Geometry) -> Array:
    """Correlate each channel of x [N, *S, C] with its own M filters in [1, *K, C * M]: [N, *W, C * M]."""
    multiplier = filter.shape[-1] // x.shape[-1]
    data = x if multiplier == 1 else x.repeat(multiplier, axis=-1)
    out = np.zeros((len(x), *geometry.windows, filter.shape[-1]), x.dtype)
    for tap, windows, elements in geometry.overlaps():
        out[windows] += data[elements] * filter[tap]
    return out


def channel_product(x: Array, weights: Array) -> Array:
    """Multiply the channels of x [.., I] by weights [O, I / groups], each group by its own: [.., O]."""
    outputs, depth = weights.shape
    if x.size == 0 or weights.size == 0:
        return np.zeros((*x.shape[:-1], outputs), x.dtype)
    groups = x.shape[-1] // depth
    rows = x.reshape(-1, groups, depth).swapaxes(0, 1)
    matrices = weights.reshape(groups, outputs // groups, depth).swapaxes(1, 2)
    products: Array = np.matmul(rows, matrices).swapaxes(0, 1).reshape(*x.shape[:-1], outputs)
    return products


class ConvolutionLayer(Op):
    """Base class of convolutions with operands ``input``, ``filter`` and ``bias``, on floats or integers.

    ``channel_axis``: axis of the filter with the output channels.  The parameter ``depth`` of the methods is
    the number of input channels.
    """

    padding: Padding = attribute(Padding.SAME)
    stride_w: int = attribute(1)
    stride_h: int = attribute(1)

    input: Any
    filter: Any
    bias: Any
    act: Any
    channel_axis: ClassVar[int] = 0

    def quantizes_asymmetrically(self, depth: int, filter: Array) -> bool:
        """Return whether float data is quantized with a zero point before it meets integer weights."""
        return True

    def optimized_rounding(self, depth: int, filter: Array) -> bool | NDArray[np.bool_]:
        """Return for which output channels LiteRT's optimized kernel rounds unlike its reference kernel."""
        return True

    def sums(self, data: Array, filter: Array, output_shape: Array | None = None) -> Array:
        """Return the sums of products of float arrays; transposed convolutions need ``output_shape``."""
        raise NotImplementedError

    def convolve(
        self, data: Array, filter: Array, bias: Array | None, output_shape: Array | None = None
    ) -> Array:
        """Return the result of the layer for float, quantized or float data with integer weights."""
        if filter.dtype.kind == "f":
            require_float(self, data, filter, bias)
            return activated(self.sums(data, filter, output_shape), bias, self.act)
        if is_dynamically_quantized(self, self.input, self.filter):
            return self._dynamically_quantized(data, filter, bias, output_shape)
        stage = self.output_stage(data.shape[3], filter, bias)
        weights = self.exact_filter(filter)
        centered = data.astype(weights.dtype)
        centered -= zero_point_of(self.input)
        return stage(self.sums(centered, weights, output_shape))

    def exact_filter(self, filter: Array) -> Array:
        """Return the filter minus its zero points, in a float dtype with exact sums of products."""
        zero_points = weight_zero_points(self.filter, filter.shape[self.channel_axis])
        magnitude = greatest_magnitude(self.input, zero_point_of(self.input))
        return centered_weights(filter, zero_points, self.channel_axis, magnitude)

    def output_stage(self, depth: int, filter: Array, bias: Array | None) -> OutputStage:
        """Return the function that turns the exact sums of an integer layer into its result.

        The product of the scales is rounded to float32 for uint8 data and for int16 weights.  Only circle has
        int16 weights; for them, ONE's interpreter clamps results to -32767 or more.
        """
        low, high = quantized_activation_range(self.act, self.output)
        if self.filter.dtype is i16:
            low = max(low, 1 - (1 << 15))
        rounded = self.input.dtype is u8 or self.filter.dtype is i16
        channels = filter.shape[self.channel_axis]
        return OutputStage(
            integer_bias(self, self.input, bias),
            effective_scale(self.input, self.filter, self.output, channels, rounded),
            zero_point_of(self.output),
            (low, high),
            self.input.dtype.numpy,
            Arithmetic.WIDE_FIXED_POINT if has_int64_sums(self, self.input) else Arithmetic.FIXED_POINT,
            self.optimized_rounding(depth, filter) if rounds_up() else False,
        )

    def _dynamically_quantized(
        self, data: Array, filter: Array, bias: Array | None, output_shape: Array | None
    ) -> Array:
        """Quantize float data to 8 bits, each image separately; multiply; scale the sums back to floats.

        LiteRT's symmetric kernel on x86 is wrong for weights of -128, which its converter never produces.
        """
        images = quantize_rows(
            data.reshape(len(data), -1), self.quantizes_asymmetrically(data.shape[3], filter)
        )
        signed = filter.view(np.int8)
        weights = centered_weights(signed, np.zeros((), np.int64), self.channel_axis, 255)
        numbers = (images.data - images.offset).reshape(data.shape).astype(weights.dtype, copy=False)
        out = self.sums(numbers, weights, output_shape).astype(np.float32, copy=False)
        out *= channel_scales(self.filter, filter.shape[self.channel_axis])
        out *= images.scale.reshape(-1, 1, 1, 1)
        return activated(out, bias, self.act)


def has_different_scales(weights: Value) -> bool:
    """Return whether channels of ``weights`` have different scales."""
    return weights.quantization is not None and len(set(weights.quantization.scale.tolist())) > 1


def activated(sums: Array, bias: Array | None, act: Activation) -> Array:
    """Add the bias to float sums, in place, and return them with the activation applied."""
    if bias is not None:
        sums += bias.reshape(-1)
    return apply_fused_activation(sums, act)
