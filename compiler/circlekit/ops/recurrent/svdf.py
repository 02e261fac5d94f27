# SPDX-License-Identifier: Apache-2.0
"""Rank-decomposed filters over time (SVDF).  Source: TFLite svdf, reference/svdf.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import i8, i32
from circlekit.ir.enums import Activation
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_rank
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.numerics.dynamic_quantization import integer_product
from circlekit.ops.numerics.fixed_point import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.program.state import Stateful
from circlekit.ops.quantization import is_hybrid, scale_of, zero_point_of
from circlekit.ops.recurrent.gate_weights import StackedWeights, Weight


class Svdf(Stateful, code="SVDF", options="SVDFOptions"):
    """Sums over time of features, which are products of the inputs with ``weights_feature``.

    ``weights_feature``: [filters, inputs]; ``weights_time``: [filters, memory]; ``state``: the features of
    the last ``memory`` steps, [batch, filters * memory].  Each element of the result [batch, filters / rank]
    adds ``rank`` filters.  8-bit feature weights with float data are the hybrid form.
    """

    input = operand(*REAL)
    weights_feature = operand(*REAL)
    weights_time = operand(*REAL)
    bias = optional_operand(*REAL, i32)
    state = operand(*REAL)

    rank: int = attribute(0)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    states = ("state",)

    def infer(self) -> TensorType:
        data = require_rank(self.input, "input", 2)
        weights = require_rank(self.weights_feature, "weights_feature", 2)
        filters = None if weights is None else weights[0]
        if self.rank < 1 or (filters is not None and filters % self.rank):
            raise ShapeError(f"rank: expected a divisor of {filters} filters, got {self.rank}")
        units = None if filters is None else filters // self.rank
        quantization = self.output.quantization if self.results and self.input.dtype.is_integer else None
        return TensorType(self.input.dtype, (None if data is None else data[0], units), quantization)

    def step(self, *args: Any) -> tuple[Sequence[Array], Sequence[Array | None]]:
        x, feature, time, bias, memory = args
        filters, depth = time.shape
        slots = memory.reshape(x.shape[0], filters, depth)
        if x.dtype == np.float32:
            weights = StackedWeights([Weight(self.weights_feature, feature)], self.asymmetric_quantize_inputs)
            newest = weights.products(x)[0]
            slots = _pushed(slots, newest)
            times = Weight(self.weights_time, time).dequantized()
            out = np.einsum("bfm,fm->bf", slots, times).reshape(x.shape[0], -1, self.rank).sum(axis=2)
            out = apply_activation(out if bias is None else out + bias, self.act)
        elif x.dtype == np.int8:
            slots, out = self.integers(x, feature, time, bias, slots)
        else:
            raise UnsupportedError(f"SVDF on {self.input.dtype.short} has no kernel")
        return (np.asarray(out),), (slots.reshape(memory.shape),)

    def integers(
        self, x: Array, feature: Array, time: Array, bias: Array | None, slots: Array
    ) -> tuple[Array, Array]:
        """Return the new memory (int16) and the result (int8; LiteRT omits the activation)."""
        state = scale_of(self.state)
        into = quantize_multiplier(scale_of(self.input) * scale_of(self.weights_feature) / state)
        outof = quantize_multiplier(state * scale_of(self.weights_time) / scale_of(self.output))
        sums = integer_product(x.astype(np.int32) - zero_point_of(self.input), feature).astype(np.int64)
        newest = np.clip(multiply_by_quantized_multiplier(wrap_int32(sums), into), -(1 << 15), (1 << 15) - 1)
        slots = _pushed(slots, newest.astype(slots.dtype))
        total = np.einsum("bfm,fm->bf", slots.astype(np.int64), time.astype(np.int64))
        total = total.reshape(x.shape[0], -1, self.rank).sum(axis=2)
        scaled = multiply_by_quantized_multiplier(wrap_int32(total if bias is None else total + bias), outof)
        return slots, np.clip(scaled + zero_point_of(self.output), -128, 127).astype(np.int8)

    def required_version(self) -> int:
        if self.input.dtype is i8:
            return 3
        if is_hybrid(self.input, self.weights_feature):
            return 4 if self.asymmetric_quantize_inputs else 2
        return 1


def _pushed(slots: Array, newest: Array) -> Array:
    """Return the memory [batch, filters, depth] without its oldest entries, with ``newest`` at its end."""
    return np.concatenate([slots[..., 1:], newest[..., None]], axis=-1)
