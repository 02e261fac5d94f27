# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers as matrix products.

A layer is ``groups`` independent products ``rows [n,d] @ weights [o,d].T + bias [o]``: n positions of the
result, o outputs of a group, and the depth d, the number of weights of an output.  A tap is one position of
the filter.  A pixel is all channels at one position of the data.  The rows of CONV_2D are those of im2col.
TRANSPOSE_CONV has a row for each position of its result.  The row holds, for each tap, the input pixel that
the tap multiplies for this position, or 0.  DEPTHWISE_CONV_2D has one group for each input channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlekit.ir.core import Graph
from circlekit.ir.dtypes import f32
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.quant.weights import present_operand


@dataclass
class LinearLayer:
    """An operator whose result, before the fused activation, is a matrix product of its input, plus a bias.

    ``input_index``, ``weights_index``, ``bias_index``: the indices of these operands.
    """

    op: Op
    input_index: int
    weights_index: int
    bias_index: int

    @property
    def input(self) -> Value:
        """The operand that is multiplied by the weights."""
        return present_operand(self.op, self.input_index)

    @property
    def weights(self) -> Value:
        """The constant weights."""
        return present_operand(self.op, self.weights_index)

    @property
    def bias(self) -> Value | None:
        """The constant bias; None if there is none."""
        return self.op.inputs[self.bias_index] if self.bias_index < len(self.op.inputs) else None

    @property
    def is_depthwise(self) -> bool:
        """Whether the operator is a DEPTHWISE_CONV_2D."""
        return isinstance(self.op, DepthwiseConv2D)

    @property
    def channels(self) -> int:
        """The number of channels of the input, at least 1."""
        return last_dimension(self.input)

    @property
    def groups(self) -> int:
        """The number of independent matrix products."""
        if self.is_depthwise:
            return self.channels
        return self.channels // self.weights.static_shape[-1] if isinstance(self.op, Conv2D) else 1

    @property
    def is_scalable(self) -> bool:
        """Whether each channel of the input has its own weights, which can be multiplied by a factor.

        This is False if a FULLY_CONNECTED reads its input as rows that end inside of a pixel.  Example: an
        input [4, 3], read as 6 rows of 2 elements.
        """
        depth = self.matrices(self.weights.array()).shape[2]
        return self.is_depthwise or depth % (self.channels // self.groups) == 0

    def matrices(self, weights: Array) -> Array:
        """Return ``weights``, in the operator's layout, as matrices [groups, outputs, depth]."""
        groups = self.groups
        if self.is_depthwise:  # the layout is [1, height, width, groups * outputs]
            taps = weights.shape[1] * weights.shape[2]
            return np.asarray(weights.reshape(taps, groups, -1).transpose(1, 2, 0))
        return np.asarray(weights.reshape(groups, weights.shape[0] // groups, -1))

    def from_matrices(self, matrices: Array) -> Array:
        """Return ``matrices`` [groups, outputs, depth] in the operator's layout of weights."""
        if self.is_depthwise:
            return np.ascontiguousarray(matrices.transpose(2, 0, 1)).reshape(self.weights.static_shape)
        return np.ascontiguousarray(matrices).reshape(self.weights.static_shape)

    def rows(self, data: Array, output: tuple[int, ...]) -> Array:
        """Return the rows [groups, n, depth] that are multiplied by the weights.

        ``data``: the elements of the input.  ``output``: the shape of the result, which has n positions.
        """
        op, weights = self.op, self.weights.static_shape
        if not isinstance(op, ConvolutionLayer):
            return data.reshape(1, -1, weights[1])
        geometry = op.geometry(data.shape, weights, output)
        places = geometry.size if op.is_transposed else geometry.windows
        windows = np.zeros((len(data), *places, *geometry.taps, data.shape[-1]), data.dtype)
        # a tap pairs windows with elements; a transposed convolution reads windows and writes elements
        for tap, window, element in geometry.overlaps():
            target, source = (element, window) if op.is_transposed else (window, element)
            windows[target + tap[1:]] = data[source]
        taps = int(np.prod(geometry.taps))
        # [n, taps, groups, channels of a group] to [groups, n, taps, channels]
        split = windows.reshape(-1, taps, self.groups, data.shape[-1] // self.groups)
        rows = split.transpose(2, 0, 1, 3)
        return np.ascontiguousarray(rows).reshape(self.groups, rows.shape[1], -1)

    def mean_row(self, data: Array, output: tuple[int, ...]) -> Array:
        """Return the mean row of ``rows(data, output)``, float64[groups, depth], without making the rows."""
        op, weights = self.op, self.weights.static_shape
        if not isinstance(op, ConvolutionLayer):
            return np.asarray(data.reshape(1, -1, weights[1]).mean(axis=1, dtype=np.float64))
        geometry = op.geometry(data.shape, weights, output)
        sums = np.zeros((*geometry.taps, data.shape[-1]))
        for tap, window, element in geometry.overlaps():
            sums[tap[1:]] = data[window if op.is_transposed else element].sum(
                axis=(0, 1, 2), dtype=np.float64
            )
        places = geometry.size if op.is_transposed else geometry.windows
        taps = int(np.prod(geometry.taps))
        split = sums.reshape(taps, self.groups, -1).transpose(1, 0, 2)
        return np.asarray(split.reshape(self.groups, -1) / (len(data) * np.prod(places)))


def separate_biases(graph: Graph) -> None:
    """Copy each bias of a layer that has other users, so that it can be corrected for this layer alone."""
    for op in graph:
        layer = linear_layer(op)
        if layer is not None and layer.bias is not None and layer.bias.use_count > 1:
            name = graph.unique_name("bias")  # short, because each name makes the file larger
            op.set_input(layer.bias_index, Value.constant(name, layer.bias.array()))


def linear_layer(op: Op) -> LinearLayer | None:
    """Return ``op`` as a layer; None if ``op`` is not a layer, or breaks one of these conditions.

    Weights and bias must be plain constants: not packed, sparse or compressed.  Weights and input must be
    float32, the weights must have elements, and the number of input channels must be known and not 0.
    """
    if isinstance(op, TransposeConv):
        layer = LinearLayer(op, input_index=2, weights_index=1, bias_index=3)
    elif isinstance(op, Conv2D | DepthwiseConv2D | FullyConnected):
        layer = LinearLayer(op, input_index=0, weights_index=1, bias_index=2)
    else:
        return None
    is_usable = layer.weights.is_plain and layer.weights.dtype is layer.input.dtype is f32
    is_usable = is_usable and (layer.bias is None or layer.bias.is_plain) and layer.weights.numel > 0
    return layer if is_usable and last_dimension(layer.input) else None


def last_dimension(value: Value) -> int:
    """Return the size of the last axis of ``value``; 0 if it is unknown, or if the value is a scalar."""
    return (value.shape or (None,))[-1] or 0
