# SPDX-License-Identifier: Apache-2.0
"""Convolutions over NDHWC data."""

from __future__ import annotations

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_bias, require_float, require_rank
from circlekit.ops.convolution.conv import merged_shape, run_time_shape, static_output_shape
from circlekit.ops.convolution.correlation import Geometry, activated, correlate, correlate_transposed
from circlekit.ops.dimensions import dims_differ, element_count, window_size


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
    """Correlation with a filter [KD,KH,KW,I,O].  Source: TFLite conv3d."""

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
    """Gradient of Conv3D with respect to its input; filter [KD,KH,KW,O,I].

    Source: TFLite conv3d_transpose.
    """

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
