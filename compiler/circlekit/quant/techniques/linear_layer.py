# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers as matrix products.

Every layer is ``groups`` independent products ``rows [n,d] @ weights [o,d].T + bias [o]``: CONV_2D by im2col,
TRANSPOSE_CONV by the im2col of its result, DEPTHWISE_CONV_2D with one group for each input channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlekit.ir.core import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer
from circlekit.ops.matmul.dense import FullyConnected


@dataclass
class LinearLayer:
    """An operator whose result, before the fused activation, is linear in its input.

    ``input_index``, ``weights_index``, ``bias_index``: the indices of its operands.
    """

    op: Op
    input_index: int
    weights_index: int
    bias_index: int

    @property
    def input(self) -> Value:
        value = self.op.inputs[self.input_index]
        assert value is not None  # a required operand
        return value

    @property
    def weights(self) -> Value:
        value = self.op.inputs[self.weights_index]
        assert value is not None  # a required operand
        return value

    @property
    def bias(self) -> Value | None:
        return self.op.inputs[self.bias_index] if self.bias_index < len(self.op.inputs) else None

    @property
    def is_depthwise(self) -> bool:
        return isinstance(self.op, DepthwiseConv2D)

    @property
    def channels(self) -> int:
        """The number of channels of the input, at least 1."""
        depth = self.input.shape and self.input.shape[-1]
        assert depth  # by ``linear_layer``
        return depth

    @property
    def groups(self) -> int:
        """The number of independent matrix products."""
        if self.is_depthwise:
            return self.channels
        return self.channels // self.weights.static_shape[-1] if isinstance(self.op, Conv2D) else 1

    def matrices(self, weights: Array) -> Array:
        """Return weights as matrices [groups, outputs, depth]."""
        groups = self.groups
        if self.is_depthwise:
            taps = weights.shape[1] * weights.shape[2]
            return np.asarray(weights.reshape(taps, groups, -1).transpose(1, 2, 0))
        return np.asarray(weights.reshape(groups, weights.shape[0] // groups, -1))

    def from_matrices(self, matrices: Array) -> Array:
        """Return the weights for ``matrices`` [groups, outputs, depth], in the operator's layout."""
        if self.is_depthwise:
            return np.ascontiguousarray(matrices.transpose(2, 0, 1)).reshape(self.weights.static_shape)
        return np.ascontiguousarray(matrices).reshape(self.weights.static_shape)

    def rows(self, data: Array, output: tuple[int, ...]) -> Array:
        """Return the rows that the weights multiply, one for each position of the result.

        They have the shape [groups, n, depth].  ``data``: the input.  ``output``: the shape of the result.
        """
        op, weights = self.op, self.weights.static_shape
        if not isinstance(op, ConvolutionLayer):
            return data.reshape(1, -1, weights[1])
        geometry = op.geometry(data.shape, weights, output)
        places = geometry.size if op.is_transposed else geometry.windows
        windows = np.zeros((len(data), *places, *geometry.taps, data.shape[-1]), data.dtype)
        for tap, window, element in geometry.overlaps():
            target, source = (element, window) if op.is_transposed else (window, element)
            windows[target + tap[1:]] = data[source]
        taps = int(np.prod(geometry.taps))
        # [n, taps, groups, channels of a group] to [groups, n, taps, channels]
        split = windows.reshape(-1, taps, self.groups, data.shape[-1] // self.groups)
        rows = split.transpose(2, 0, 1, 3)
        return np.ascontiguousarray(rows).reshape(self.groups, rows.shape[1], -1)

    def mean_row(self, data: Array, output: tuple[int, ...]) -> Array:
        """Return the mean of ``rows(data, output)``, float64[groups, depth], without making the rows."""
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
    """Give each layer its own bias, in place, where several share one, so that each can be corrected."""
    for op in graph:
        layer = linear_layer(op)
        if layer is not None and layer.bias is not None and layer.bias.use_count > 1:
            name = graph.unique_name("bias")  # short: names are a part of the file
            op.set_input(layer.bias_index, Value.constant(name, layer.bias.array()))


def linear_layer(op: Op) -> LinearLayer | None:
    """Return ``op`` as a matrix product; None if it is none, or weights or bias are no plain constants."""
    if isinstance(op, TransposeConv):
        layer = LinearLayer(op, 2, 1, 3)
    elif isinstance(op, Conv2D | DepthwiseConv2D | FullyConnected):
        layer = LinearLayer(op, 0, 1, 2)
    else:
        return None
    is_usable = layer.weights.is_plain and layer.weights.dtype.is_float and layer.input.dtype.is_float
    has_bias = layer.bias is None or layer.bias.is_plain
    return layer if is_usable and has_bias and (layer.input.shape or (None,))[-1] else None
