# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks without gates (RNN), and circle's gated recurrent unit (GRU).

Sources: TFLite rnn, unidirectional_sequence_rnn, bidirectional_sequence_rnn, kernel_utils;
luci-interpreter GRU (ONE fuses the operators of Keras' GRU into one).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError, counted
from circlekit.ir.dtypes import i32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_bias, require_dims, require_float, require_rank
from circlekit.ops.dimensions import Dim, dims_differ, product
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.quantized_values import is_hybrid
from circlekit.ops.recurrent.lstm_float import sigmoid
from circlekit.ops.recurrent.sequence import CellState, RecurrentLayer, StackedWeights, Step, Weights


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
        require_float(self, x, weights["bias"].array)

        def stacked(name: str) -> StackedWeights:
            return StackedWeights([weights[name]], self.asymmetric_quantize_inputs)

        def step(t: int, state: CellState) -> CellState:
            return (np.asarray(apply_activation(input_sums[t] + recurrent.products(state[0])[0], self.act)),)

        recurrent = stacked("recurrent_weights")
        # ``input_sums`` [time, batch, units]: for all steps, the sums without the products of the state
        input_sums = stacked("input_weights").sequence_products(x)[0]
        if aux is not None:
            input_sums = input_sums + stacked("aux_input_weights").sequence_products(aux)[0]
        input_sums = input_sums + weights["bias"].array
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

    - If a second input has no weights of its own, the backward RNN reads it instead of the input, but only
      with ``time_major``; without ``time_major`` the second input is ignored.
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
        if self.state.shape == ():
            raise ShapeError("state: expected rank 1 or more, got shape []")
        rows = None if self.state.shape is None else product(self.state.shape[:-1])
        if data is not None and data[1] != 1 and dims_differ(data[1], rows):
            raise ShapeError(
                f"state: expected {counted(data[1], 'row')}, one per sequence of the batch, got {rows}"
            )
        units = self.state.shape[-1] if self.state.shape else None
        gates = None if units is None else 3 * units
        columns = {"hidden_hidden": "gates inputs", "hidden_input": "gates units"}
        require_dims(self, columns, {"gates": gates, "units": units})
        for bias in (self.hidden_hidden_bias, self.hidden_input_bias):
            require_bias(bias, gates)
        return TensorType(self.input.dtype, self.state.shape)

    def kernel(
        self, input: Array, hidden_hidden: Array, hidden_hidden_bias: Array | None, hidden_input: Array,
        hidden_input_bias: Array | None, state: Array,
    ) -> Array:  # fmt: skip
        require_float(self, input, hidden_hidden, hidden_hidden_bias, hidden_input, hidden_input_bias, state)
        if self.return_sequences or self.act is not Activation.NONE:
            raise UnsupportedError("GRU with return_sequences or a fused activation has no kernel")
        hidden = state.reshape(-1, state.shape[-1])
        input_sums = input @ hidden_hidden.T
        if hidden_hidden_bias is not None:
            input_sums = input_sums + hidden_hidden_bias.reshape(-1)
        for input_sum in input_sums:  # for each time step
            state_sum = hidden @ hidden_input.T
            if hidden_input_bias is not None:
                state_sum = state_sum + hidden_input_bias.reshape(-1)
            from_input, from_state = (np.split(x, 3, axis=-1) for x in (input_sum, state_sum))
            update = sigmoid(from_state[0] + from_input[0])
            reset = sigmoid(from_state[1] + from_input[1])
            candidate = np.tanh(reset * from_state[2] + from_input[2])
            hidden = hidden * update + (1 - update) * candidate
        return np.asarray(hidden.reshape(state.shape))
