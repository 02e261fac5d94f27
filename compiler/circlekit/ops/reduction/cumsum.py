# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums.  Source: TFLite cumsum."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import i32
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import OWN_RANGES
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import reject_quantized, require_numpy_kind
from circlekit.ops.constant_operands import static_int
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.operand_dtypes import NUMBERS
from circlekit.ops.quantized_values import is_quantized_8_or_16_bits


class Cumsum(Op, code="CUMSUM", layout_operands=("input",), axis_numbers=("axis",)):
    """Cumulative sums along ``axis``: the sum of each element and all elements before it.

    ``exclusive``: the sum does not include the element itself.  ``reverse``: the elements after it are summed
    instead of those before it.
    Sums of integers wrap around.  Quantized integers have no kernel, as in LiteRT; the quantization rule is
    for runtimes that have one, such as TFLM.
    """

    quantization_rule = OWN_RANGES

    input = operand(*NUMBERS)
    axis = operand(i32)

    exclusive: bool = attribute(False)
    reverse: bool = attribute(False)

    def infer(self) -> TensorType:
        axis = static_int(self.axis, "axis")
        if axis is not None and self.input.shape is not None:
            normalized_axis(axis, len(self.input.shape))
        return TensorType(self.input.dtype, self.input.shape)

    def kernel(self, input: Array, axis: Array) -> Array:
        if is_quantized_8_or_16_bits(self.input):
            reject_quantized(self)
        require_numpy_kind(self, input, "fi")
        position = normalized_axis(int(axis.reshape(-1)[0]), input.ndim)
        data = np.moveaxis(input, position, 0)
        data = data[::-1] if self.reverse else data
        if self.exclusive:
            data = np.concatenate([np.zeros_like(data[:1]), data[:-1]])
        sums = np.cumsum(data, axis=0, dtype=input.dtype)
        return np.moveaxis(sums[::-1] if self.reverse else sums, 0, position)
