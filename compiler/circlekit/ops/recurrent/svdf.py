# SPDX-License-Identifier: Apache-2.0
"""Filters over time (SVDF).  Source: TFLite svdf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32, i8, i32
from circlekit.ir.enums import Activation
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.quantization_rule import Product, QuantizationRule
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_dims, require_float, require_rank
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.numerics.fixed_point import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)
from circlekit.ops.numerics.quantized_layers import integer_product
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.program.state import Stateful
from circlekit.ops.quantized_values import is_hybrid, scale_of, zero_point_of
from circlekit.ops.recurrent.sequence import StackedWeights, Weight


class Svdf(Stateful, code="SVDF", options="SVDFOptions", states=("state",)):
    """One step of filters over time.

    ``weights_feature`` [filters, inputs]: the feature of a filter is its row times the input.  ``state``
    [batch, filters * memory]: the features of the last ``memory`` steps.  ``weights_time`` [filters, memory]:
    the weights with which these features are summed up over time.  Each element of the result
    [batch, filters / rank] is the total of ``rank`` consecutive filters, plus the bias.  In the hybrid form,
    the data are floats and the feature weights are integers.
    """

    # ``wide``: int16 with zero point 0.  ``summed``: the sum of products with the state must not overflow
    # 32 bits
    quantization_rule = QuantizationRule(
        weights={"weights_feature": 0, "weights_time": None},
        one_scale=True,
        biases={"bias": (Product(("state", "weights_time")),)},
        states=("state",),
        wide=("state", "weights_time"),
        summed=("weights_time",),
    )

    input = operand(*REAL)
    weights_feature = operand(*REAL)
    weights_time = operand(*REAL)
    bias = optional_operand(*REAL, i32)
    state = operand(*REAL)

    rank: int = attribute(0)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    DIMS: ClassVar = {
        "input": "batch inputs",
        "weights_feature": "filters inputs",
        "weights_time": "filters memory",
        "bias": "units",
        "state": "batch slots",
    }

    def infer(self) -> TensorType:
        data = require_rank(self.input, "input", 2)
        weights = require_rank(self.weights_feature, "weights_feature", 2)
        filters = None if weights is None else weights[0]
        if self.rank < 1:
            raise ShapeError(f"rank: expected 1 or more, got {self.rank}")
        if filters is not None and filters % self.rank:
            raise ShapeError(f"rank: expected a divisor of {filters} filters, got {self.rank}")
        units = None if filters is None else filters // self.rank
        time = require_rank(self.weights_time, "weights_time", 2)
        slots = None if filters is None or time is None or time[1] is None else filters * time[1]
        require_dims(self, self.DIMS, {"units": units, "slots": slots})
        quantization = self.output.quantization if self.results and self.input.dtype.is_integer else None
        return TensorType(self.input.dtype, (None if data is None else data[0], units), quantization)

    def step(self, *args: Any) -> tuple[Sequence[Array], Sequence[Array | None]]:
        x, feature, time, bias, memory = args
        filters, depth = time.shape
        slots = memory.reshape(x.shape[0], filters, depth)  # the newest feature of a filter is the last
        if x.dtype == np.float32:
            weights = StackedWeights([Weight(self.weights_feature, feature)], self.asymmetric_quantize_inputs)
            slots = _pushed(slots, weights.products(x)[0])
            time_weights = Weight(self.weights_time, time).dequantized()
            sums = np.einsum("bfm,fm->bf", slots, time_weights)
            out = sums.reshape(x.shape[0], filters // self.rank, self.rank).sum(axis=2)
            require_float(self, out, bias)
            out = apply_activation(out if bias is None else out + bias, self.act)
        elif (x.dtype, time.dtype, memory.dtype) == (np.int8, np.int16, np.int16):
            slots, out = self.integer_step(x, feature, time, bias, slots)
        else:
            names = [v.dtype.short for v in (self.input, self.weights_time, self.state)]
            form = f"{names[0]}, with weights_time of {names[1]} and a state of {names[2]},"
            raise UnsupportedError(f"SVDF on {form} has no kernel")
        return (np.asarray(out),), (slots.reshape(memory.shape),)

    def inner_values(self, *operands: Array | None) -> Mapping[str, Array]:
        """Return all numbers of the state in a float run: before and after the step."""
        if self.input.dtype is not f32:
            return {}
        before, (after,) = operands[4], self.step(*operands)[1]
        return {"state": np.stack([x for x in (before, after) if x is not None])}

    def integer_fault(self) -> str | None:
        """Return why LiteRT's integer kernel does not run this operator; None if it does.

        The kernel accepts RELU only.  It does not apply it: integers saturate at the bounds of the result.
        """
        if self.act is Activation.RELU:
            return None
        return f"{self.code} on integers needs the activation RELU, got {self.act.name}"

    def integer_step(
        self, x: Array, feature: Array, time: Array, bias: Array | None, slots: Array
    ) -> tuple[Array, Array]:
        """Return the new memory (int16) and the result (int8); as in LiteRT, do not apply the activation.

        ``slots``: the old memory, [batch, filters, memory].
        """
        scale = scale_of(self.state)
        to_state = quantize_multiplier(scale_of(self.input) * scale_of(self.weights_feature) / scale)
        to_result = quantize_multiplier(scale * scale_of(self.weights_time) / scale_of(self.output))
        sums = integer_product(x.astype(np.int32) - zero_point_of(self.input), feature).astype(np.int64)
        newest = multiply_by_quantized_multiplier(wrap_int32(sums), to_state)
        slots = _pushed(slots, np.clip(newest, -(1 << 15), (1 << 15) - 1).astype(slots.dtype))
        total = np.einsum("bfm,fm->bf", slots.astype(np.int64), time.astype(np.int64))
        total = total.reshape(x.shape[0], len(time) // self.rank, self.rank).sum(axis=2)
        total = total if bias is None else total + bias
        scaled = multiply_by_quantized_multiplier(wrap_int32(total), to_result)
        return slots, np.clip(scaled + zero_point_of(self.output), -128, 127).astype(np.int8)

    def required_version(self) -> int:
        if self.input.dtype is i8:
            return 3
        if is_hybrid(self.input, self.weights_feature):
            return 4 if self.asymmetric_quantize_inputs else 2
        return 1


def _pushed(slots: Array, newest: Array) -> Array:
    """Return the memory [batch, filters, depth] without its oldest entries and with ``newest`` at its end."""
    return np.concatenate([slots[..., 1:], newest[..., None]], axis=-1)
