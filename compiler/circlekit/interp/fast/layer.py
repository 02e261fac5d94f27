# SPDX-License-Identifier: Apache-2.0
"""Base class of fast layers: prepares weights and output stage once, and finishes results in place."""

from __future__ import annotations

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.interp.fast.requantization import ChannelVector, FastOutputStage
from circlekit.ir.value import Array
from circlekit.ops.checks import require_float
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.quantized_layers import greatest_magnitude, is_dynamically_quantized
from circlekit.ops.quantization import zero_point_of

KEPT_BYTES = 1 << 20
"""Prepared weights are kept up to this size; larger ones are prepared in every run."""


class FastLayer:
    """A convolution on floats or integers, with constant filter and bias.

    ``dtype``: the float type of its sums; ``result_dtype``: of its results; ``stage``: None for floats.
    """

    channel_axis = -1
    """That of the output channels in prepared weights."""

    def __init__(self, op: ConvolutionLayer, depth: int) -> None:
        """``depth``: channels of the input.  UnsupportedError for forms that have no fast kernel."""
        self.op, self.zero_point = op, 0
        filter = constant_elements(op.filter)
        bias = None if op.bias is None else constant_elements(op.bias)
        self.bias: ChannelVector | None = None
        self.stage: FastOutputStage | None = None
        self.is_float = filter.dtype.kind == "f"
        if self.is_float:
            require_float(op, filter, bias)
            self.bias = None if bias is None else ChannelVector(bias)
        elif is_dynamically_quantized(op, op.input, op.filter):
            raise UnsupportedError(f"{op.code} with dynamic quantization has no fast kernel")
        weights = self._prepared(filter)
        self.kept = weights if weights.nbytes <= KEPT_BYTES else None
        self.dtype, self.result_dtype = weights.dtype, np.dtype(op.input.dtype.numpy)
        if not self.is_float:
            self.zero_point = zero_point_of(op.input)
            channels = np.moveaxis(weights, self.channel_axis, -1).reshape(
                -1, weights.shape[self.channel_axis]
            )
            bound = greatest_magnitude(op.input, self.zero_point) * float(np.abs(channels).sum(axis=0).max())
            self.stage = FastOutputStage(op.output_stage(depth, filter, bias), bound)

    def weights(self, filter: Array) -> Array:
        """The weights as floats without zero points, in the form of ``arranged``."""
        return self._prepared(filter) if self.kept is None else self.kept

    def _prepared(self, filter: Array) -> Array:
        return self.arranged(filter if self.is_float else self.op.exact_filter(filter))

    def arranged(self, filter: Array) -> Array:
        """A float filter in the form that the layer takes it in."""
        return filter

    def centered(self, data: Array) -> Array:
        """Data as floats without zero point."""
        if self.stage is None:
            return data
        floats = data.astype(self.dtype)
        if self.zero_point:
            floats -= self.zero_point
        return floats

    def finish(self, sums: Array) -> Array:
        """Add the bias to float sums [.., columns, C] and apply the activation, in place."""
        if self.bias is not None:
            bias = self.bias.of(*sums.shape[-2:])
            long = sums.reshape(-1, bias.size)
            long += bias
        return apply_fused_activation(sums, self.op.act)
