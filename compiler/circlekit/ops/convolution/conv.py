# SPDX-License-Identifier: Apache-2.0
"""Convolutions over NHWC and NDHWC data.

Source: TFLite conv, depthwise_conv, transpose_conv, conv3d, conv3d_transpose.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import require_bias, require_float, require_rank, require_same_float
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.correlation import (
    ConvolutionLayer,
    Geometry,
    activated,
    correlate,
    correlate_depthwise,
    correlate_transposed,
    has_different_scales,
)
from circlekit.ops.dimensions import Dim, dims_differ, element_count, merge_dims, product, window_size
from circlekit.ops.numerics.output_stage import in_eights
from circlekit.ops.operand_dtypes import BIAS, REAL
from circlekit.ops.quantization import is_hybrid, is_per_channel

WEIGHTS = (*REAL, DType.INT4)


class GatheringConvolution(ConvolutionLayer):
    """CONV_2D and DEPTHWISE_CONV_2D, whose results gather the elements of a window."""

    input = operand(*REAL)
    filter = operand(*WEIGHTS)
    bias = optional_operand(*BIAS)

    dilation_w: int
    dilation_h: int

    def result_type(self, taps_h: Dim, taps_w: Dim, out_depth: Dim) -> TensorType:
        """Return the type of the result for a filter of ``taps_h`` by ``taps_w`` elements."""
        n, h, w, _ = self.input.shape or (None,) * 4
        high = window_size(h, taps_h, self.stride_h, self.dilation_h, self.padding)
        wide = window_size(w, taps_w, self.stride_w, self.dilation_w, self.padding)
        return TensorType(self.input.dtype, (n, high, wide, out_depth))

    def geometry(self, data: tuple[int, ...], filter: tuple[int, ...]) -> Geometry:
        """Return the windows for data and a filter of the given shapes."""
        strides, dilations = (self.stride_h, self.stride_w), (self.dilation_h, self.dilation_w)
        return Geometry.of(data[1:3], filter[1:3], strides, dilations, self.padding)

    def kernel(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        return self.convolve(input, filter, bias)


class Conv2D(GatheringConvolution, code="CONV_2D", fuses_activation=True):
    """Correlation with a filter [O,KH,KW,I / groups]; the number of groups follows from I."""

    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    dilation_w: int = attribute(1, "dilation_w_factor")
    dilation_h: int = attribute(1, "dilation_h_factor")
    quantized_bias_type: DType = attribute(f32, quantized_only=True)

    def infer(self) -> TensorType:
        *_, depth = require_rank(self.input, "input", 4) or (None,) * 4
        out_depth, taps_h, taps_w, per_group = require_rank(self.filter, "filter", 4) or (None,) * 4
        require_same_float(self)
        _check_groups(depth, out_depth, per_group)
        require_bias(self.bias, out_depth)
        return self.result_type(taps_h, taps_w, out_depth)

    def sums(self, data: Array, filter: Array, output_shape: Array | None = None) -> Array:
        return correlate(data, filter, self.geometry(data.shape, filter.shape))

    def quantizes_asymmetrically(self, depth: int, filter: Array) -> bool:
        return depth != filter.shape[3] or has_different_scales(self.filter)

    def optimized_rounding(self, depth: int, filter: Array) -> bool:
        return bool(depth == filter.shape[3])  # grouped convolutions have only the reference kernel

    def macs(self) -> int:
        return element_count(self.output.shape) * element_count(self.filter.shape and self.filter.shape[1:])

    def required_version(self) -> int:
        data, weights = self.input.dtype, self.filter.dtype
        if (data, weights) == (i16, i8) and self.quantized_bias_type is not f32:
            return 8
        shape, taps = self.input.shape, self.filter.shape
        if shape and taps and dims_differ(shape[-1], taps[-1]):
            return 6
        if is_hybrid(self.input, self.filter):
            return 5 if is_per_channel(self.filter) else 2
        return {(i16, i16): 4, (i8, i8): 3, (i8, DType.INT4): 7}.get((data, weights), 1)


def _check_groups(depth: Dim, out_depth: Dim, per_group: Dim) -> None:
    if not depth or per_group is None:  # zero channels can be divided into any number of groups
        return
    if per_group == 0 or depth % per_group:
        raise ShapeError(f"input has {depth} channels, expected a multiple of the filter's {per_group}")
    if out_depth is not None and out_depth % (depth // per_group):
        groups = depth // per_group
        raise ShapeError(f"filter has {out_depth} output channels, expected a multiple of {groups} groups")


class DepthwiseConv2D(
    GatheringConvolution, code="DEPTHWISE_CONV_2D", reference_version=6, fuses_activation=True
):
    """Correlation of each input channel with its own filters; filter [1,KH,KW,I * multiplier].

    The multiplier is the number of filter channels divided by I; the attribute ``depth_multiplier`` is
    ignored, as in TFLite (depthwise_conv).  LiteRT has no reference kernel for int4 weights; they are
    computed like int8 weights with the same values.
    """

    depth_multiplier: int = attribute(1)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    dilation_w: int = attribute(1, "dilation_w_factor")
    dilation_h: int = attribute(1, "dilation_h_factor")

    channel_axis = 3

    def infer(self) -> TensorType:
        *_, depth = require_rank(self.input, "input", 4) or (None,) * 4
        one, taps_h, taps_w, out_depth = require_rank(self.filter, "filter", 4) or (None,) * 4
        require_same_float(self)
        if dims_differ(one, 1):
            raise ShapeError(f"filter has shape {format_shape(self.filter.shape)}, expected [1,KH,KW,C]")
        if depth is not None and out_depth is not None and (depth == 0 or out_depth % depth):
            raise ShapeError(f"filter has {out_depth} channels, expected a multiple of the input's {depth}")
        require_bias(self.bias, out_depth)
        return self.result_type(taps_h, taps_w, out_depth)

    def sums(self, data: Array, filter: Array, output_shape: Array | None = None) -> Array:
        return correlate_depthwise(data, filter, self.geometry(data.shape, filter.shape))

    def optimized_rounding(self, depth: int, filter: Array) -> bool | NDArray[np.bool_]:
        return self.input.dtype is not u8 and in_eights(filter.shape[3])

    def macs(self) -> int:
        return element_count(self.output.shape) * element_count(self.filter.shape and self.filter.shape[1:3])

    def required_version(self) -> int:
        data, weights = self.input.dtype, self.filter.dtype
        if is_hybrid(self.input, self.filter):
            return 6 if is_per_channel(self.filter) else 4
        by_type = {(i16, i16): 5, (i16, i8): 5, (i8, i8): 3, (i8, DType.INT4): 7}.get((data, weights))
        return by_type or (2 if (self.dilation_w, self.dilation_h) != (1, 1) else 1)


class TransposeConv(ConvolutionLayer, code="TRANSPOSE_CONV", versions={i8: 2}, typed_by=1):
    """Gradient of Conv2D with respect to its input.  OHWI filter.

    The product of input element y and filter tap k is added to output element y * stride - before + k, where
    ``before`` is the padding of a convolution of the *output*.  Products outside of ``output_shape`` are
    dropped.  LiteRT 2 refuses an ``output_shape`` if that convolution would not give the size of the input.
    """

    output_shape = operand(i32)
    filter = operand(*WEIGHTS)
    input = operand(*REAL)
    bias = optional_operand(*BIAS)

    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    fuses_activation = True
    quantized_bias_type: DType = attribute(f32, quantized_only=True)

    def infer(self) -> TensorType:
        n, _, _, depth = require_rank(self.input, "input", 4) or (None,) * 4
        out_depth, _, _, taps_depth = require_rank(self.filter, "filter", 4) or (None,) * 4
        require_same_float(self)
        if dims_differ(depth, taps_depth):
            raise ShapeError(f"input has {depth} channels, expected {taps_depth}, as the filter has")
        require_bias(self.bias, out_depth)
        if self.stride_h < 1 or self.stride_w < 1:
            raise ShapeError(f"strides {self.stride_h} and {self.stride_w} must be at least 1")
        shape = static_output_shape(self.output_shape, 4)
        return TensorType(self.input.dtype, merged_shape(shape, (n, None, None, out_depth)))

    def kernel(self, output_shape: Array, filter: Array, input: Array, bias: Array | None = None) -> Array:
        return self.convolve(input, filter, bias, output_shape)

    def sums(self, data: Array, filter: Array, output_shape: Array | None = None) -> Array:
        assert output_shape is not None
        shape = run_time_shape(output_shape, (len(data), None, None, len(filter)))
        return correlate_transposed(data, filter, self.geometry(data.shape, filter.shape, shape))

    def geometry(self, data: tuple[int, ...], filter: tuple[int, ...], output: tuple[int, ...]) -> Geometry:
        """Return the windows for data, a filter and a result of the given shapes."""
        strides = (self.stride_h, self.stride_w)
        return Geometry.transposed(data[1:3], output[1:3], filter[1:3], strides, (1, 1), self.padding)

    def optimized_rounding(self, depth: int, filter: Array) -> bool | NDArray[np.bool_]:
        return self.input.dtype is u8 or in_eights(filter.shape[0])

    def macs(self) -> int:
        return element_count(self.input.shape) * element_count(self.filter.shape and self.filter.shape[:3])

    def required_version(self) -> int:
        if (self.input.dtype, self.filter.dtype) == (i16, i8) and self.quantized_bias_type is not f32:
            return 5
        if self.act is not Activation.NONE:
            return 4
        if self.bias is not None:
            return 3
        return super().required_version()


def static_output_shape(operand: Value, rank: int) -> Shape:
    """Return the dimensions in a constant shape operand; ``rank`` unknown ones if it is not constant."""
    numbers = static_int_vector(operand)
    if numbers is None:
        count = product(operand.shape) if operand.shape is not None else None
        if dims_differ(count, rank):
            raise ShapeError(f"output_shape has {count} elements, expected {rank}")
        return (None,) * rank
    if len(numbers) != rank or min(numbers) < 0:
        raise ShapeError(f"output_shape is {numbers}, expected {rank} dimensions")
    return tuple(numbers)


def run_time_shape(output_shape: Array, known: Shape) -> tuple[int, ...]:
    """Return the dimensions in a shape operand; ShapeError unless they agree with the ``known`` ones."""
    if output_shape.size != len(known):
        raise ShapeError(f"output_shape has {output_shape.size} elements, expected {len(known)}")
    shape = tuple(output_shape.reshape(-1).tolist())
    merged_shape(shape, known)
    return shape


def merged_shape(shape: Shape, inferred: Shape) -> Shape:
    """Return ``shape`` with its unknown dimensions taken from ``inferred``; ShapeError if they disagree."""
    try:
        return tuple(merge_dims(a, b) for a, b in zip(shape, inferred, strict=True))
    except ShapeError:
        found, expected = format_shape(shape), format_shape(inferred)
        raise ShapeError(f"output_shape is {found}, expected {expected} from input and filter") from None


class _Spatial3D(Op):
    """The attributes that both directions share, as triples along depth, height and width."""

    padding: Padding = attribute(Padding.SAME)
    stride_d: int = attribute(1)
    stride_w: int = attribute(1)
    stride_h: int = attribute(1)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    dilation_d: int = attribute(1, "dilation_d_factor")
    dilation_w: int = attribute(1, "dilation_w_factor")
    dilation_h: int = attribute(1, "dilation_h_factor")

    @property
    def strides(self) -> tuple[int, int, int]:
        return (self.stride_d, self.stride_h, self.stride_w)

    @property
    def dilations(self) -> tuple[int, int, int]:
        return (self.dilation_d, self.dilation_h, self.dilation_w)


class Conv3D(_Spatial3D, code="CONV_3D"):
    """Correlation with a filter [KD,KH,KW,I,O]."""

    input = operand(f32)
    filter = operand(f32)
    bias = optional_operand(f32)

    def infer(self) -> TensorType:
        shape = require_rank(self.input, "input", 5) or (None,) * 5
        taps = require_rank(self.filter, "filter", 5) or (None,) * 5
        if dims_differ(shape[4], taps[3]):
            raise ShapeError(f"input has {shape[4]} channels, expected {taps[3]}, as the filter has")
        require_bias(self.bias, taps[4])
        size = (
            window_size(shape[1 + a], taps[a], self.strides[a], self.dilations[a], self.padding)
            for a in range(3)
        )
        return TensorType(self.input.dtype, (shape[0], *size, taps[4]))

    def kernel(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        require_float(self, input, filter, bias)
        size = input.shape[1:4]
        geometry = Geometry.of(size, filter.shape[:3], self.strides, self.dilations, self.padding)
        return activated(correlate(input, filter.transpose(4, 0, 1, 2, 3), geometry), bias, self.act)

    def macs(self) -> int:
        return element_count(self.output.shape) * element_count(self.filter.shape and self.filter.shape[:4])


class Conv3DTranspose(_Spatial3D, code="CONV_3D_TRANSPOSE", options="Conv3DOptions"):
    """Gradient of Conv3D with respect to its input; filter [KD,KH,KW,O,I]."""

    output_shape = operand(i32)
    filter = operand(f32)
    input = operand(f32)
    bias = optional_operand(f32)

    def infer(self) -> TensorType:
        n, *_, depth = require_rank(self.input, "input", 5) or (None,) * 5
        *_, out_depth, taps_depth = require_rank(self.filter, "filter", 5) or (None,) * 5
        if dims_differ(depth, taps_depth):
            raise ShapeError(f"input has {depth} channels, expected {taps_depth}, as the filter has")
        require_bias(self.bias, out_depth)
        inferred = (n, None, None, None, out_depth)
        return TensorType(self.input.dtype, merged_shape(static_output_shape(self.output_shape, 5), inferred))

    def kernel(self, output_shape: Array, filter: Array, input: Array, bias: Array | None = None) -> Array:
        require_float(self, input, filter, bias)
        shape = run_time_shape(output_shape, (len(input), None, None, None, filter.shape[3]))
        windows, taps = input.shape[1:4], filter.shape[:3]
        geometry = Geometry.transposed(windows, shape[1:4], taps, self.strides, self.dilations, self.padding)
        weights = filter.transpose(3, 0, 1, 2, 4)
        return activated(correlate_transposed(input, weights, geometry), bias, self.act)

    def macs(self) -> int:
        return element_count(self.input.shape) * element_count(self.filter.shape and self.filter.shape[:4])
