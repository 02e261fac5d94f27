# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks without gates (RNN), circle's gated recurrent unit (GRU), filters over time (SVDF).

Sources: TFLite rnn, unidirectional_sequence_rnn, bidirectional_sequence_rnn, kernel_utils, svdf;
luci-interpreter GRU (ONE fuses the operators of Keras' GRU into one).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError, counted
from circlekit.ir.dtypes import f32, i8, i32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.quantization_rule import Product, QuantizationRule
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_dims, require_float, require_rank
from circlekit.ops.dimensions import Dim, dims_differ, product
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
from circlekit.ops.recurrent.lstm_float import sigmoid
from circlekit.ops.recurrent.sequence import CellState, RecurrentLayer, StackedWeights, Step, Weight, Weights


class RnnLayer(RecurrentLayer):
    """Base class of RNNs: new state = act(input_weights @ x + recurrent_weights @ state + bias).

    The weights are [units, inputs] and [units, units], floats or 8-bit integers (hybrid).
    """

    act: Activation

    def output_width(self, direction: str) -> Dim:
        weights = require_rank(getattr(self, f"{direction}input_weights"), "input_weights", 2)
        return None if weights is None else weights[0]

    def weight_dims(self, direction: str) -> Mapping[str, str]:
        return {"input_weights": "units inputs", "recurrent_weights": "units units", "bias": "units"}

    def cell(self, weights: Weights, x: Array, aux: Array | None) -> Step:
        if x.dtype != np.float32:
            raise self.no_kernel()

        def stacked(name: str) -> StackedWeights:
            return StackedWeights([weights[name]], self.asymmetric_quantize_inputs)

        def step(t: int, state: CellState) -> CellState:
            return (np.asarray(apply_activation(driven[t] + recurrent.products(state[0])[0], self.act)),)

        recurrent = stacked("recurrent_weights")
        # ``driven`` [time, batch, units]: the sums without the products of the state, for all steps at once
        driven = stacked("input_weights").sequence_products(x)[0]
        if aux is not None:
            driven = driven + stacked("aux_input_weights").sequence_products(aux)[0]
        driven = driven + weights["bias"].array
        return step


class OneDirection(RnnLayer, states=("hidden_state",)):
    """Base class of RNNs in one direction, with their operands."""

    quantization_rule = QuantizationRule(weights={"input_weights": 0, "recurrent_weights": 0}, one_scale=True)

    input = operand(*REAL)
    input_weights = operand(*REAL)
    recurrent_weights = operand(*REAL)
    bias = operand(*REAL, i32)
    hidden_state = operand(*REAL)

    time_major: bool = True


class Rnn(OneDirection, code="RNN", options="RNNOptions", ranks=(2,)):
    """One step of an RNN on an input [batch, inputs]."""

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)


class UnidirectionalSequenceRnn(
    OneDirection, code="UNIDIRECTIONAL_SEQUENCE_RNN", options="SequenceRNNOptions"
):
    """An RNN over a sequence, [time, batch, inputs] or [batch, time, inputs]."""

    time_major: bool = attribute(False)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)


class BidirectionalSequenceRnn(
    RnnLayer,
    code="BIDIRECTIONAL_SEQUENCE_RNN",
    options="BidirectionalSequenceRNNOptions",
    variadic_results=True,
    directions=("fw_", "bw_"),
    states=("fw_hidden_state", "bw_hidden_state"),
):
    """Two RNNs over a sequence: one forwards, one backwards.

    Two peculiarities come from LiteRT:

    - A second input without weights of its own is the input of the backward RNN if ``time_major``; if not, it
      is ignored.
    - With float data and integer weights, a time-major sequence of n steps is run n times, each time from the
      last state of the run before.
    """

    input = operand(*REAL)
    fw_input_weights = operand(*REAL)
    fw_recurrent_weights = operand(*REAL)
    fw_bias = operand(*REAL, i32)
    fw_hidden_state = operand(*REAL)
    bw_input_weights = operand(*REAL)
    bw_recurrent_weights = operand(*REAL)
    bw_bias = operand(*REAL, i32)
    bw_hidden_state = operand(*REAL)
    aux_input = optional_operand(*REAL)
    fw_aux_input_weights = optional_operand(*REAL)
    bw_aux_input_weights = optional_operand(*REAL)

    time_major: bool = attribute(False)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    merge_outputs: bool = attribute(False)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    def second_input(self, present: Weights) -> Array | None:
        is_ignored = not self.time_major and "fw_aux_input_weights" not in present
        return None if is_ignored else super().second_input(present)

    def run(self, step: Step, steps: int, state: CellState, backwards: bool) -> tuple[Array, CellState]:
        is_repeated = self.time_major and is_hybrid(self.input, self.fw_recurrent_weights)
        for _ in range(steps if is_repeated else 1):
            out, state = super().run(step, steps, state, backwards)
        return out, state


class Gru(Op, code="GRU", options="GRUOptions", formats=frozenset({"circle"})):
    """The last state of a GRU that runs over a sequence [time, batch, inputs] from ``state`` [batch, units].

    ``time_major`` is ignored: the sequence always has this layout.
    The names of the weights mislead: ``hidden_hidden`` [3 * units, inputs] is multiplied by the input, and
    ``hidden_input`` [3 * units, units] by the state.  luci-interpreter, the only implementation, reads them
    in this way.  Their rows are for the update gate, the reset gate and the candidate, in this order.
    """

    input = operand(*REAL)
    hidden_hidden = operand(*REAL)
    hidden_hidden_bias = optional_operand(*REAL, i32)
    hidden_input = operand(*REAL)
    hidden_input_bias = optional_operand(*REAL, i32)
    state = operand(*REAL)

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    return_sequences: bool = attribute(False)
    time_major: bool = attribute(False)

    def infer(self) -> TensorType:
        data = require_rank(self.input, "input", 3)
        weights = require_rank(self.hidden_hidden, "hidden_hidden", 2)
        if data is not None and weights is not None and dims_differ(data[2], weights[1]):
            raise ShapeError(
                f"hidden_hidden: expected {counted(data[2], 'column')}, one per input, got {weights[1]}"
            )
        rows = None if self.state.shape is None else product(self.state.shape[:-1])
        if data is not None and data[1] != 1 and dims_differ(data[1], rows):
            raise ShapeError(
                f"state: expected {counted(data[1], 'row')}, one per sequence of the batch, got {rows}"
            )
        return TensorType(self.input.dtype, self.state.shape)

    def kernel(
        self, input: Array, hidden_hidden: Array, hidden_hidden_bias: Array | None, hidden_input: Array,
        hidden_input_bias: Array | None, state: Array,
    ) -> Array:  # fmt: skip
        require_float(self, input, hidden_hidden, hidden_input, state)
        if self.return_sequences or self.act is not Activation.NONE:
            raise UnsupportedError("GRU with return_sequences or a fused activation has no kernel")
        hidden = state.reshape(-1, state.shape[-1])
        input_sums = input @ hidden_hidden.T
        if hidden_hidden_bias is not None:
            input_sums = input_sums + hidden_hidden_bias
        for input_sum in input_sums:  # for each time step
            state_sum = hidden @ hidden_input.T
            if hidden_input_bias is not None:
                state_sum = state_sum + hidden_input_bias
            from_input, from_state = (np.split(x, 3, axis=-1) for x in (input_sum, state_sum))
            update = sigmoid(from_state[0] + from_input[0])
            reset = sigmoid(from_state[1] + from_input[1])
            candidate = np.tanh(reset * from_state[2] + from_input[2])
            hidden = hidden * update + (1 - update) * candidate
        return np.asarray(hidden.reshape(state.shape))


class Svdf(Stateful, code="SVDF", options="SVDFOptions", states=("state",)):
    """One step of filters over time.

    ``weights_feature`` [filters, inputs]: the feature of a filter is its row times the input.  ``state``
    [batch, filters * memory]: the features of the last ``memory`` steps.  ``weights_time`` [filters, memory]:
    the weights with which these features are summed up over time.  Each element of the result
    [batch, filters / rank] is the total of ``rank`` consecutive filters, plus the bias.  In the hybrid form,
    the data are floats and the feature weights are integers.
    """

    # ``wide``: int16 with zero point 0.  ``summed``: the sum of their products must not overflow 32 bits

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
        if self.rank < 1 or (filters is not None and filters % self.rank):
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
            out = apply_activation(out if bias is None else out + bias, self.act)
        elif x.dtype == np.int8:
            slots, out = self.integer_step(x, feature, time, bias, slots)
        else:
            raise UnsupportedError(f"SVDF on {self.input.dtype.short} has no kernel")
        return (np.asarray(out),), (slots.reshape(memory.shape),)

    def inner_values(self, *operands: Array | None) -> Mapping[str, Array]:
        """Return all numbers of the state in a float run: before and after the step."""
        if self.input.dtype is not f32:
            return {}
        before, (after,) = operands[4], self.step(*operands)[1]
        return {"state": np.stack([x for x in (before, after) if x is not None])}

    def integer_fault(self) -> str | None:
        """Return why LiteRT's integer kernel, which applies no activation, is wrong; None if it is right."""
        if self.act in (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1):
            return None  # the scale of the result makes its integers saturate at the bounds of these
        return f"{self.code} on integers has no activation {self.act.name}"

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
