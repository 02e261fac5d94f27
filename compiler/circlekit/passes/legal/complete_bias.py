# SPDX-License-Identifier: Apache-2.0
"""Add a bias of zeros to layers without one, for runtimes that require it.

A Replacement replaces the operators of its ``kinds`` that the format, a runtime or its delegate refuses.  For
the runtimes in its ``targets``, it also replaces operators that the runtimes accept.  ``wants`` returns
whether to replace an operator: here only one without a bias.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import bf16, i16, i32, i64
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.quantized_values import is_per_channel, is_quantized, quantization_of
from circlekit.passes.engine.legalize import LITERT, Replacement
from circlekit.passes.support.insertion import Inserter


class _CompleteBias(Replacement[Op]):
    """layer(x, w)  ==  layer(x, w, 0).

    The bias has the dtype of the data if that is float; it is i64 for i16 data, i32 for other integers.  If
    data and weights are quantized, the scale of the bias is the product of their scales.  The operator stays
    if the number of its output channels is unknown or 0, if its data have several scales, or if they are
    bf16, which numpy lacks.
    """

    def wants(self, op: Op) -> bool:
        bias = op.inputs[2] if len(op.inputs) > 2 else None
        return bias is None and len(op.results) == 1 and super().wants(op)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        data, weights = op.inputs[:2]
        if data is None or weights is None:
            return None
        channels = weights.shape and weights.shape[-1 if isinstance(op, DepthwiseConv2D) else 0]
        if not channels or is_per_channel(data) or data.dtype is bf16:
            return None
        dtype = data.dtype if data.dtype.is_float else i64 if data.dtype is i16 else i32
        bias = insert.constant("bias", np.zeros(channels, dtype.numpy))
        if not dtype.is_float and is_quantized(data) and is_quantized(weights):
            scale = quantization_of(data).scale * quantization_of(weights).scale
            bias.quantization = Quantization(scale, np.zeros(scale.size, np.int64))
        result = Value.of_type(op.output)
        return [insert.make(type(op)(data, weights, bias, results=[result], **op.attribute_items()))]


class CompleteConvBias(_CompleteBias):
    """conv(x, w)  ==  conv(x, w, 0)."""

    # LiteRT rejects a CONV_2D without bias; its optimized DEPTHWISE_CONV_2D without bias ends the process
    targets = LITERT
    kinds = (Conv2D, DepthwiseConv2D)


class CompleteFullyConnectedBias(_CompleteBias):
    """fully_connected(x, w)  ==  fully_connected(x, w, 0)."""

    kinds = (FullyConnected,)
