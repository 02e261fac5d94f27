# SPDX-License-Identifier: Apache-2.0
"""Make int32 biases int64 for runtimes that do not run layers of int16 data with an int32 bias."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32, i32
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.numerics.quantized_layers import has_int64_sums
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter


class WidenBias(Replacement[Op]):
    """layer(x, w, b)  ==  layer(x, w, int64(b)) for int16 data and a constant int32 bias.

    LiteRT reads the bias of such a layer as int64.  Only if ``quantized_bias_type`` is INT32, it reads int32,
    and the sums are int32 and may wrap around: such a layer stays.  The new layers have the default of this
    attribute, with which the dtype of the bias decides.
    """

    kinds = (Conv2D, DepthwiseConv2D, TransposeConv, FullyConnected)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        operands = dict(op.operand_items())
        data, bias = operands.get("input"), operands.get("bias")
        attributes = dict(op.attribute_values)
        if data is None or not has_int64_sums(op, data):
            return None
        if bias is None or bias.dtype is not i32 or not bias.is_plain:
            return None
        if "quantized_bias_type" in attributes:
            attributes["quantized_bias_type"] = f32
        wide = insert.constant("bias", bias.array().astype(np.int64))
        wide.quantization = bias.quantization
        values = [wide if value is bias else value for value in op.inputs]
        result = Value.of_type(op.output)
        return [insert.make(type(op)(*values, results=[result], **attributes))]
