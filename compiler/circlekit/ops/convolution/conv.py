# SPDX-License-Identifier: Apache-2.0
"""Convolutions over NHWC and NDHWC data.

Methods without a docstring are described in the base class ``ConvolutionLayer`` or in ``Op``.  In a
``quantization_rule``, ``weights={"filter": 0}`` says that axis 0 of the filter is the axis of the output
channels, each of which may have its own scale.  ``quantized_only``: the attribute has no effect on floats.
Source: TFLite conv, depthwise_conv, transpose_conv, conv3d, conv3d_transpose.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from circlekit.errors import ShapeError, counted
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, format_shape
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer
from circlekit.ops.convolution.correlation import correlate_depthwise
from circlekit.ops.dimensions import Dim, dims_differ
from circlekit.ops.numerics.output_stage import follows_optimized_kernels, in_full_group
from circlekit.ops.operand_dtypes import BIAS, REAL
from circlekit.ops.quantized_values import is_hybrid, is_per_channel

WEIGHTS = (*REAL, DType.INT4)  # the dtypes of filters


class Convolution2D(ConvolutionLayer):
    """Base class of convolutions with two spatial axes, with their common attributes."""

    padding: Padding = attribute(Padding.SAME)
    stride_w: int = attribute(1)
    stride_h: int = attribute(1)


class ForwardConvolution2D(Convolution2D):
    """Base class of CONV_2D and DEPTHWISE_CONV_2D, whose results are sums over windows of the input."""

    input = operand(*REAL)
    filter = operand(*WEIGHTS)
    bias = optional_operand(*BIAS)

    dilation_w: int  # a subclass declares these attributes, at their places in the schema
    dilation_h: int

    def kernel(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        return self.convolve(input, filter, bias)


class Conv2D(ForwardConvolution2D, code="CONV_2D", fuses_activation=True):
    """Correlation of [N,H,W,I] with a filter [O,KH,KW,I / groups].

    No attribute gives the number of groups: it follows from the shapes.
    """

    quantization_rule = QuantizationRule(
        weights={"filter": 0}, bias="bias", attributes={"quantized_bias_type": f32}
    )

    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    dilation_w: int = attribute(1, "dilation_w_factor")
    dilation_h: int = attribute(1, "dilation_h_factor")
    quantized_bias_type: DType = attribute(f32, quantized_only=True)

    def check_channels(self, depth: Dim, filter: Mapping[str, Dim]) -> None:
        out_depth, per_group = filter["O"], filter["I"]
        if not depth or per_group is None:  # zero channels fit any number of groups
            return
        if per_group == 0 or depth % per_group:
            raise ShapeError(
                f"input has {counted(depth, 'channel')}, expected a multiple of the filter's {per_group}"
            )
        if out_depth is not None and out_depth % (depth // per_group):
            found = counted(out_depth, "output channel")
            groups = f"{depth // per_group}, the number of groups"
            raise ShapeError(f"filter has {found}, expected a multiple of {groups}")

    def quantizes_asymmetrically(self, depth: int, filter: Array) -> bool:
        # LiteRT does so if there are several groups, or if output channels have different scales
        scales = [] if self.filter.quantization is None else self.filter.quantization.scale.tolist()
        return depth != filter.shape[3] or len(set(scales)) > 1

    def scaled(self, sums: Array, data: Array, weights: Array, depth: int, filter: Array) -> Array:
        is_grouped = depth != filter.shape[3]
        if is_grouped or (self.quantizes_asymmetrically(depth, filter) and not follows_optimized_kernels()):
            return sums * weights * data
        return super().scaled(sums, data, weights, depth, filter)

    def optimized_rounds_up(self, depth: int, filter: Array) -> bool:
        return bool(depth == filter.shape[3])  # grouped convolutions have only the reference kernel

    def required_version(self) -> int:
        data, weights = self.input.dtype, self.filter.dtype
        if (data, weights) == (i16, i8) and self.quantized_bias_type is not f32:
            return 8
        shape, filter = self.input.shape, self.filter.shape
        if shape and filter and dims_differ(shape[-1], filter[-1]):
            return 6
        if is_hybrid(self.input, self.filter):
            return 5 if is_per_channel(self.filter) else 2
        return {(i16, i16): 4, (i8, i8): 3, (i8, DType.INT4): 7}.get((data, weights), 1)


class DepthwiseConv2D(
    ForwardConvolution2D,
    code="DEPTHWISE_CONV_2D",
    reference_version=6,
    fuses_activation=True,
    filter_layout="1HWO",  # the axes of the filter; O: output channels
):
    """Correlation of each channel of [N,H,W,I] with ``multiplier`` filters of its own.

    The operand ``filter`` is [1,KH,KW,I * multiplier], from which the multiplier follows; the attribute
    ``depth_multiplier`` is ignored, as in TFLite.  int4 weights are computed like int8 weights.  LiteRT's
    reference kernel would do the same, but LiteRT never calls it for int4 weights: they need operator version
    7, and LiteRT registers the reference kernel up to version 6 only.
    """

    quantization_rule = QuantizationRule(weights={"filter": 3}, bias="bias")

    depth_multiplier: int = attribute(1)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    dilation_w: int = attribute(1, "dilation_w_factor")
    dilation_h: int = attribute(1, "dilation_h_factor")

    def check_channels(self, depth: Dim, filter: Mapping[str, Dim]) -> None:
        out_depth = filter["O"]
        if dims_differ(filter["1"], 1):
            raise ShapeError(f"filter has shape {format_shape((*filter.values(),))}, expected [1,KH,KW,C]")
        if depth is not None and out_depth is not None and (depth == 0 or out_depth % depth):
            raise ShapeError(
                f"filter has {counted(out_depth, 'channel')}, expected a multiple of the input's {depth}"
            )

    def sums(self, data: Array, filter: Array, output_shape: Array | None = None) -> Array:
        return correlate_depthwise(data, filter, self.geometry(data.shape, filter.shape))

    def scaled(self, sums: Array, data: Array, weights: Array, depth: int, filter: Array) -> Array:
        if not follows_optimized_kernels():
            return super().scaled(sums, data, weights, depth, filter)
        return np.where(in_full_group(sums.shape[3], 4), sums * weights * data, sums * data * weights)

    def optimized_rounds_up(self, depth: int, filter: Array) -> bool | NDArray[np.bool_]:
        # one bool per output channel: True in each full group of 8, which the kernel computes at once
        return self.input.dtype is not u8 and in_full_group(filter.shape[3])

    def required_version(self) -> int:
        data, weights = self.input.dtype, self.filter.dtype
        if is_hybrid(self.input, self.filter):
            return 6 if is_per_channel(self.filter) else 4
        by_type = {(i16, i16): 5, (i16, i8): 5, (i8, i8): 3, (i8, DType.INT4): 7}.get((data, weights))
        return by_type or (2 if (self.dilation_w, self.dilation_h) != (1, 1) else 1)


class TransposeConv(
    Convolution2D,
    code="TRANSPOSE_CONV",
    versions={i8: 2},
    version_operand=1,  # ``versions`` is by the dtype of the filter
    is_transposed=True,
    fuses_activation=True,
):
    """Gradient of Conv2D with respect to its input; filter [O,KH,KW,I].

    Along each spatial axis, the product of input element i and filter tap k is added to the output element at
    i * stride - before + k.  ``before`` is the padding at the start of a convolution over the *output*.
    Products outside of ``output_shape`` are dropped.  LiteRT 2 requires that a convolution over the output
    gives the spatial size of the input; this kernel does not require that.
    """

    quantization_rule = QuantizationRule(
        weights={"filter": 0}, bias="bias", attributes={"quantized_bias_type": f32}
    )

    output_shape = operand(i32)
    filter = operand(*WEIGHTS)
    input = operand(*REAL)
    bias = optional_operand(*BIAS)

    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    quantized_bias_type: DType = attribute(f32, quantized_only=True)

    def for_new_shapes(self, old: Mapping[str, Shape | None], outer: bool) -> dict[str, list[int]]:
        """Return {"output_shape": its elements for the new shape of the input}; ``outer`` does not matter.

        If the batch of the input grows by n, the batch of the output grows by n.  If a spatial dimension of
        the input grows by n, the same dimension of the output grows by n * stride.  A dimension stays if it
        was unknown in the old input.  Return {} if ``output_shape`` is not constant, or if a rank is unknown
        or not 4.  Raise ShapeError if the batch or a spatial dimension of the new input is unknown.
        """
        dims, before, after = static_int_vector(self.output_shape), old["input"], self.input.shape
        if dims is None or before is None or after is None:
            return {}
        if not len(dims) == len(before) == len(after) == 4:
            return {}
        for axis, factor in ((0, 1), (1, self.stride_h), (2, self.stride_w)):
            a, b = before[axis], after[axis]
            if b is None:
                raise ShapeError("output_shape: a constant cannot hold an unknown dimension")
            dims[axis] = dims[axis] if a is None else dims[axis] + factor * (b - a)
        return {"output_shape": dims}

    def kernel(self, output_shape: Array, filter: Array, input: Array, bias: Array | None = None) -> Array:
        return self.convolve(input, filter, bias, output_shape)

    def optimized_rounds_up(self, depth: int, filter: Array) -> bool | NDArray[np.bool_]:
        return self.input.dtype is u8 or in_full_group(filter.shape[0])

    def required_version(self) -> int:
        if (self.input.dtype, self.filter.dtype) == (i16, i8) and self.quantized_bias_type is not f32:
            return 5
        if self.act is not Activation.NONE:
            return 4
        if self.bias is not None:
            return 3
        return super().required_version()


class Convolution3D(ConvolutionLayer):
    """Base class of convolutions with three spatial axes, with their common attributes."""

    padding: Padding = attribute(Padding.SAME)
    stride_d: int = attribute(1)
    stride_w: int = attribute(1)
    stride_h: int = attribute(1)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    dilation_d: int = attribute(1, "dilation_d_factor")
    dilation_w: int = attribute(1, "dilation_w_factor")
    dilation_h: int = attribute(1, "dilation_h_factor")


class Conv3D(Convolution3D, code="CONV_3D", filter_layout="DHWIO"):
    """Correlation of [N,D,H,W,I] with a filter [KD,KH,KW,I,O]."""

    input = operand(f32)
    filter = operand(f32)
    bias = optional_operand(f32)

    def kernel(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        return self.convolve(input, filter, bias)


class Conv3DTranspose(
    Convolution3D,
    code="CONV_3D_TRANSPOSE",
    options="Conv3DOptions",
    filter_layout="DHWOI",
    is_transposed=True,
):
    """Gradient of Conv3D with respect to its input; filter [KD,KH,KW,O,I]."""

    output_shape = operand(i32)
    filter = operand(f32)
    input = operand(f32)
    bias = optional_operand(f32)

    def kernel(self, output_shape: Array, filter: Array, input: Array, bias: Array | None = None) -> Array:
        return self.convolve(input, filter, bias, output_shape)
