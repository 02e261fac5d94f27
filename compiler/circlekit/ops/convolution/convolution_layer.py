# SPDX-License-Identifier: Apache-2.0
"""Base class of convolutions: shape rule, sums of products, bias, activation and quantization.

Source: TFLite conv.cc, depthwise_conv.cc, transpose_conv.cc and their reference kernels; ONE's interpreter
for int16 weights and for uint8 weights with a scale per channel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from circlekit.errors import ShapeError, counted
from circlekit.ir.dtypes import i16, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import require_bias, require_float, require_rank, require_same_float
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.correlation import Geometry, correlate, correlate_transposed
from circlekit.ops.dimensions import Dim, dims_differ, element_count, merge_dims, padded_window_count, product
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.fixed_point import quantized_activation_range
from circlekit.ops.numerics.output_stage import Arithmetic, OutputStage, follows_optimized_kernels
from circlekit.ops.numerics.quantized_layers import (
    LARGEST_HYBRID_PRODUCT,
    centered_weights,
    channel_scales,
    effective_scale,
    exact_float_dtype,
    greatest_magnitude,
    has_int64_sums,
    integer_bias,
    is_dynamically_quantized,
    quantize_rows,
    weight_zero_points,
)
from circlekit.ops.quantized_values import zero_point_of


class ConvolutionLayer(Op):
    """A convolution of channels-last data with 2 or 3 spatial axes.

    ``filter_layout``: one letter per axis of the filter.  O and I are output and input channels; D, H and W
    are spatial axes; 1 is an axis of dimension 1.  ``is_transposed``: the layer is the gradient of a
    convolution with respect to its input, and has an operand ``output_shape``.  In all methods, ``depth`` is
    the number of input channels.
    """

    # operands and attributes that the subclasses declare
    input: Any
    filter: Any
    bias: Any
    output_shape: Any
    padding: Padding
    act: Any

    filter_layout: ClassVar[str] = "OHWI"
    is_transposed: ClassVar[bool] = False

    @property
    def channel_axis(self) -> int:
        """The axis of the output channels in the filter."""
        return self.filter_layout.index("O")

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides along the spatial axes."""
        return tuple(getattr(self, f"stride_{a.lower()}") for a in "DHW" if a in self.filter_layout)

    @property
    def dilations(self) -> tuple[int, ...]:
        """The dilations along the spatial axes: the distances between the taps of the filter."""
        return tuple(getattr(self, f"dilation_{a.lower()}", 1) for a in "DHW" if a in self.filter_layout)

    def taps(self, filter: Shape) -> Shape:
        """Return the spatial dimensions of a filter of shape ``filter``; its elements are called taps."""
        return tuple(n for n, axis in zip(filter, self.filter_layout, strict=True) if axis in "DHW")

    # -- shapes --------------------------------------------------------------------------------

    def infer(self) -> TensorType:
        rank = len(self.filter_layout)
        shape = require_rank(self.input, "input", rank) or (None,) * rank
        filter = require_rank(self.filter, "filter", rank) or (None,) * rank
        require_same_float(self)
        self.check_channels(shape[-1], dict(zip(self.filter_layout, filter, strict=True)))
        out_depth = filter[self.channel_axis]
        require_bias(self.bias, out_depth)
        if self.is_transposed:
            if min(self.strides) < 1:
                raise ShapeError(f"expected strides of at least 1, got {self.strides}")
            if min(self.dilations) < 1:
                raise ShapeError(f"expected dilations of at least 1, got {self.dilations}")
            inferred = (shape[0], *[None] * (rank - 2), out_depth)  # the operand gives the spatial dimensions
            result = merged_shape(static_output_shape(self.output_shape, rank), inferred)
            return TensorType(self.input.dtype, result)
        axes = zip(shape[1:-1], self.taps(filter), self.strides, self.dilations, strict=True)
        return TensorType(self.input.dtype, (shape[0], *(self._window_count(*a) for a in axes), out_depth))

    def _window_count(self, size: Dim, taps: Dim, stride: int, dilation: int) -> Dim:
        """Return the number of windows along one axis; None if unknown.

        Raise ShapeError if LiteRT would compute a negative number of windows; for other errors see
        ``padded_window_count``.
        """
        count = padded_window_count(size, taps, stride, dilation, self.padding)
        if size is not None and taps is not None and self.padding is Padding.VALID:
            span, limit = (taps - 1) * dilation + 1, size + 2 * stride - 1
            if span > limit:
                data = f"{counted(size, 'element')} with VALID padding"
                raise ShapeError(f"expected a window of at most {limit} over {data}, got {span}")
        return count

    def check_channels(self, depth: Dim, filter: Mapping[str, Dim]) -> None:
        """Raise ShapeError if ``depth`` does not fit the filter.

        ``filter``: the dimensions of the filter by their letter in ``filter_layout``.
        """
        if dims_differ(depth, filter["I"]):
            raise ShapeError(
                f"input has {counted(depth, 'channel')}, expected {filter['I']}, as the filter has"
            )

    def geometry(
        self, data: tuple[int, ...], filter: tuple[int, ...], output: tuple[int, ...] = ()
    ) -> Geometry:
        """Return the sliding windows of the layer for the shapes of data, filter and result.

        ``output``: the shape of the result; only a transposed layer needs it.
        """
        taps: Any = self.taps(filter)
        numbers = taps, self.strides, self.dilations, self.padding
        if self.is_transposed:
            return Geometry.transposed(data[1:-1], output[1:-1], *numbers)
        return Geometry.of(data[1:-1], *numbers)

    def macs(self) -> int:
        # for each output element one product per tap and input channel of the filter; if transposed, for each
        # input element one product per tap and output channel
        value, own_axis = (self.input, "I") if self.is_transposed else (self.output, "O")
        filter = self.filter.shape
        if filter is None or len(filter) != len(self.filter_layout):
            return 0
        products = [n for n, a in zip(filter, self.filter_layout, strict=True) if a != own_axis]
        return element_count(value.shape) * element_count(products)

    # -- kernels -------------------------------------------------------------------------------

    def quantizes_asymmetrically(self, depth: int, filter: Array) -> bool:
        """Return whether the kernel for float data and integer weights quantizes data with zero points."""
        return True

    def optimized_rounds_up(self, depth: int, filter: Array) -> bool | NDArray[np.bool_]:
        """Return whether LiteRT's optimized kernel rounds a half up: one bool, or one per output channel."""
        return True

    def scaled(self, sums: Array, data: Array, weights: Array, depth: int, filter: Array) -> Array:
        """Return float32 ``sums`` times the scales of quantized ``data`` and ``weights``.

        ``sums``: [N,H,W,C].  ``data``: the scales of the images, [N,1,1,1].  ``weights``: the scales of the
        filter, [1] or [C].  ``depth``: the number of input channels.  The order of the two products, on which
        the last bit depends, is that of LiteRT's kernels.
        """
        return np.asarray(sums * (weights * data))

    def sums(self, data: Array, filter: Array, output_shape: Array | None = None) -> Array:
        """Return the convolution of float arrays, without bias.

        ``output_shape``: the operand; only a transposed layer has it.
        """
        weights = filter.transpose([self.filter_layout.index(a) for a in "ODHWI" if a in self.filter_layout])
        if output_shape is None:
            return correlate(data, weights, self.geometry(data.shape, filter.shape))
        shape = run_time_shape(output_shape, (len(data), *[None] * (data.ndim - 2), len(weights)))
        return correlate_transposed(data, weights, self.geometry(data.shape, filter.shape, shape))

    def convolve(
        self, data: Array, filter: Array, bias: Array | None, output_shape: Array | None = None
    ) -> Array:
        """Return the result of the layer.

        Data and weights are both float, both quantized, or the data are float and the weights quantized.
        Layers with three spatial axes are always float.
        """
        self.check_channels(data.shape[-1], dict(zip(self.filter_layout, filter.shape, strict=True)))
        if filter.dtype.kind == "f" or data.ndim == 5:
            require_float(self, data, filter, bias)
            return activated(self.sums(data, filter, output_shape), bias, self.act)
        if is_dynamically_quantized(self, self.input, self.filter):
            return self._dynamically_quantized(data, filter, bias, output_shape)
        stage = self.output_stage(data.shape[-1], filter, bias)
        weights = self.exact_filter(filter)
        centered = data.astype(weights.dtype)
        centered -= zero_point_of(self.input)
        return stage(self.sums(centered, weights, output_shape))

    def exact_filter(self, filter: Array) -> Array:
        """Return the filter minus its zero points, in a float dtype in which sums of products are exact."""
        zero_points = weight_zero_points(self.filter, filter.shape[self.channel_axis])
        magnitude = greatest_magnitude(self.input, zero_point_of(self.input))
        return centered_weights(filter, zero_points, self.channel_axis, magnitude)

    def output_stage(self, depth: int, filter: Array, bias: Array | None) -> OutputStage:
        """Return the function that converts the exact sums of an integer layer to its result.

        The product of the scales of data and weights is rounded to float32 if the data are uint8 or the
        weights int16.  Only circle has int16 weights; with them, ONE's interpreter gives no result below
        -32767.
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
            self.optimized_rounds_up(depth, filter) if follows_optimized_kernels() else False,
        )

    def _dynamically_quantized(
        self, data: Array, filter: Array, bias: Array | None, output_shape: Array | None
    ) -> Array:
        """Return the result for float data and integer weights; raise UnsupportedError for an integer bias.

        Each image is quantized to 8 bits on its own; the integer sums are then scaled back to floats.  uint8
        weights are read as int8, as in LiteRT.  For weights of -128, LiteRT's x86 kernel without zero points
        gives other numbers.  LiteRT's converter never makes such weights.
        """
        asymmetric = self.quantizes_asymmetrically(data.shape[-1], filter)
        images = quantize_rows(data.reshape(len(data), math.prod(data.shape[1:])), asymmetric)
        channels = filter.shape[self.channel_axis]
        products = filter.size / max(channels, 1)  # the number of products in a sum
        dtype = exact_float_dtype(products * LARGEST_HYBRID_PRODUCT)
        numbers = (images.data - images.offset).reshape(data.shape).astype(dtype)
        sums = self.sums(numbers, filter.view(np.int8).astype(dtype), output_shape).astype(np.float32)
        scales = channel_scales(self.filter, channels)
        scaled = self.scaled(sums, images.scale.reshape(-1, 1, 1, 1), scales, data.shape[-1], filter)
        require_float(self, scaled, bias)  # LiteRT has no kernel for an integer bias
        return activated(scaled, bias, self.act)


def activated(sums: Array, bias: Array | None, act: Activation) -> Array:
    """Add the bias to float ``sums`` in place, apply the activation, and return the results."""
    if bias is not None:
        sums += bias.reshape(-1)
    return apply_fused_activation(sums, act)


def static_output_shape(operand: Value, rank: int) -> Shape:
    """Return the shape that ``operand`` holds.

    If it is not constant, every one of the ``rank`` dimensions is unknown.  Raise ShapeError if the operand
    does not have ``rank`` elements, or one of them is negative.
    """
    numbers = static_int_vector(operand)
    if numbers is None:
        count = product(operand.shape) if operand.shape is not None else None
        if dims_differ(count, rank):
            raise ShapeError(f"output_shape has {counted(count, 'element')}, expected {rank}")
        return (None,) * rank
    if len(numbers) != rank or min(numbers) < 0:
        raise ShapeError(f"output_shape is {numbers}, expected {counted(rank, 'dimension')} >= 0")
    return tuple(numbers)


def run_time_shape(output_shape: Array, known: Shape) -> tuple[int, ...]:
    """Return the elements of ``output_shape`` as a shape; raise ShapeError if it contradicts ``known``."""
    if output_shape.size != len(known):
        raise ShapeError(f"output_shape has {counted(output_shape.size, 'element')}, expected {len(known)}")
    shape = tuple(output_shape.reshape(-1).tolist())
    merged_shape(shape, known)
    return shape


def merged_shape(shape: Shape, inferred: Shape) -> Shape:
    """Return ``shape`` with unknown dimensions taken from ``inferred``; raise ShapeError if they disagree."""
    try:
        return tuple(merge_dims(a, b) for a, b in zip(shape, inferred, strict=True))
    except ShapeError:
        found, expected = format_shape(shape), format_shape(inferred)
        raise ShapeError(f"output_shape is {found}, expected {expected} from input and filter") from None
