# SPDX-License-Identifier: Apache-2.0
"""What convolutions of all kinds compute around their sums of products: bias, activation, quantization.

Source: TFLite conv.cc, depthwise_conv.cc, transpose_conv.cc and their reference kernels; ONE's interpreter
for int16 weights and for uint8 weights with a scale per channel.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from circlekit.ir.dtypes import i16, u8
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.checks import require_float
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


class ConvolutionLayer(Op):
    """A convolution with operands ``input``, ``filter`` and ``bias``, on floats or integers.

    ``channel_axis``: that of the filter's output channels.  ``depth``, in the methods: channels of the input.
    """

    input: Any
    filter: Any
    bias: Any
    act: Any
    channel_axis: ClassVar[int] = 0

    def quantizes_asymmetrically(self, depth: int, filter: Array) -> bool:
        """Whether float data that meets integer weights is quantized with a zero point."""
        return True

    def optimized_rounding(self, depth: int, filter: Array) -> bool | NDArray[np.bool_]:
        """For which output channels LiteRT's optimized kernel rounds otherwise than the reference."""
        return True

    def sums(self, data: Array, filter: Array, output_shape: Array | None = None) -> Array:
        """The sums of products of float data and filter; a transposed convolution has an ``output_shape``."""
        raise NotImplementedError

    def convolve(
        self, data: Array, filter: Array, bias: Array | None, output_shape: Array | None = None
    ) -> Array:
        """The result of the layer."""
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
        """The integer filter without its zero points, as floats whose sums of products are exact."""
        zero_points = weight_zero_points(self.filter, filter.shape[self.channel_axis])
        magnitude = greatest_magnitude(self.input, zero_point_of(self.input))
        return centered_weights(filter, zero_points, self.channel_axis, magnitude)

    def output_stage(self, depth: int, filter: Array, bias: Array | None) -> OutputStage:
        """What makes the result of the exact sums of an integer layer.

        The product of the scales is rounded to float32 for uint8 data and for int16 weights.  Only circle has
        int16 weights, and ONE's interpreter never gives the least int16 for them.
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
        """Float data is quantized to 8 bits image by image; the sums are scaled back to floats.

        LiteRT's symmetric kernel on x86 is wrong for weights of -128, which its converter never makes.
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
    """Whether channels of ``weights`` have different scales."""
    return weights.quantization is not None and len(set(weights.quantization.scale.tolist())) > 1


def activated(sums: Array, bias: Array | None, act: Activation) -> Array:
    """Float sums with the bias added and the activation applied, in place."""
    if bias is not None:
        sums += bias.reshape(-1)
    return apply_fused_activation(sums, act)
