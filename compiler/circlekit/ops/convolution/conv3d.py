# SPDX-License-Identifier: Apache-2.0
"""Convolutions over NDHWC data, as sums of convolutions of their frames."""

from __future__ import annotations

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.resource_limits import need_memory
from circlekit.ir.tape import NOW
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_bias, require_float, require_rank
from circlekit.ops.convolution.conv import (
    finish,
    merged_shape,
    output_dims,
    static_output_shape,
    transposed_padding,
)
from circlekit.ops.convolution.im2col import convolve, convolve_transposed
from circlekit.ops.dimensions import dims_differ, element_count
from circlekit.ops.windows import Window, conv_padding, window_size


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
            raise ShapeError(f"input has {shape[4]} channels, the filter reads {taps[3]}")
        require_bias(self.bias, taps[4])
        size = (
            window_size(shape[1 + a], taps[a], self.strides[a], self.dilations[a], self.padding)
            for a in range(3)
        )
        return TensorType(self.input.dtype, (shape[0], *size, taps[4]))

    def kernel(self, input: Array, filter: Array, bias: Array | None = None) -> Array:
        require_float(self, input, filter, bias)
        strides, dilations = self.strides, self.dilations
        frames, rows, cols = (
            conv_padding(input.shape[1 + a], filter.shape[a], strides[a], dilations[a], self.padding)
            for a in range(3)
        )
        weights = np.ascontiguousarray(filter.transpose(0, 4, 1, 2, 3))
        out = np.zeros((input.shape[0], frames.size, rows.size, cols.size, filter.shape[4]), input.dtype)
        for target, source, tap in _frame_pairs(frames, input.shape[1], filter.shape[0], self):
            frame = np.ascontiguousarray(input[:, source])
            out[:, target] += convolve(NOW, frame, weights[tap], strides[1:], dilations[1:], (rows, cols))
        return finish(NOW, out, bias, self.act)

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
            raise ShapeError(f"input has {depth} channels, the filter reads {taps_depth}")
        require_bias(self.bias, out_depth)
        wanted = (n, None, None, None, out_depth)
        return TensorType(self.input.dtype, merged_shape(static_output_shape(self.output_shape, 5), wanted))

    def kernel(self, output_shape: Array, filter: Array, input: Array, bias: Array | None = None) -> Array:
        require_float(self, input, filter, bias)
        strides = self.strides
        out = np.zeros(output_dims(output_shape, 5), input.dtype)
        weights = _spread_taps(filter.transpose(0, 3, 1, 2, 4), self.dilations[1:])
        spans = [(filter.shape[a] - 1) * self.dilations[a] + 1 for a in range(3)]
        before = [transposed_padding(out.shape[1 + a], spans[a], strides[a], self.padding) for a in range(3)]
        window = Window(input.shape[1], before[0], 0)
        for source, target, tap in _frame_pairs(window, out.shape[1], filter.shape[0], self):
            frame = np.ascontiguousarray(input[:, source])
            part = np.empty_like(out[:, target])
            convolve_transposed(NOW, frame, weights[tap], strides[1:], (before[1], before[2]), part)
            out[:, target] += part
        return finish(NOW, out, bias, self.act)

    def macs(self) -> int:
        return element_count(self.input.shape) * element_count(self.filter.shape and self.filter.shape[:4])


def _frame_pairs(window: Window, size: int, taps: int, op: _Spatial3D) -> list[tuple[int, int, int]]:
    """(window, frame of 0..size, tap) of every tap of every window that falls onto a frame."""
    return [
        (index, frame, tap)
        for index in range(window.size)
        for tap in range(taps)
        if 0 <= (frame := index * op.stride_d - window.before + tap * op.dilation_d) < size
    ]


def _spread_taps(filter: Array, dilations: tuple[int, int]) -> Array:
    """The filter [KD,O,KH,KW,I] with zeros between the taps, so that the dilation is 1."""
    taps_d, depth, taps_h, taps_w, channels = filter.shape
    high, wide = (taps_h - 1) * dilations[0] + 1, (taps_w - 1) * dilations[1] + 1
    size = taps_d * depth * high * wide * channels
    need_memory(size * filter.itemsize, "the filter with its dilation")
    out = np.zeros((taps_d, depth, high, wide, channels), filter.dtype)
    out[:, :, :: dilations[0], :: dilations[1]] = filter
    return out
