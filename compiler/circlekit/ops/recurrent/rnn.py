# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks with a single gate: one step, a sequence, and a sequence in both directions.

Sources: TFLite rnn, unidirectional_sequence_rnn, bidirectional_sequence_rnn, kernel_utils.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from circlekit.ir.dtypes import i32
from circlekit.ir.enums import Activation
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_rank
from circlekit.ops.dimensions import Dim
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.program.state import Stateful
from circlekit.ops.recurrent.gate_weights import StackedWeights, Weight, Weights, hybrid_version
from circlekit.ops.recurrent.sequence import (
    Bidirectional,
    State,
    Step,
    require_float_input,
    run_sequence,
    to_layout_of,
    to_time_major,
)


def rnn_step(driven: Array, recurrent: Weight, act: Activation, asymmetric: bool) -> Step:
    """Return the step of an RNN; ``driven`` [time, batch, units]: inputs times weights plus bias."""
    stacked = StackedWeights([recurrent], asymmetric)

    def step(t: int, state: State) -> State:
        return (np.asarray(apply_activation(driven[t] + stacked.products(state[0])[0], act)),)

    return step


def driven_by(x: Array, weights: Weight, asymmetric: bool) -> Array:
    """Return [time, batch, units]: ``x`` [time, batch, n] times the weights."""
    return np.asarray(StackedWeights([weights], asymmetric).sequence_products(x)[0])


class OneGate(Stateful):
    """An RNN whose new state is act(input_weights x + recurrent_weights state + bias).

    Weights are [units, inputs] and [units, units], of floats or 8-bit integers (hybrid).
    """

    input = operand(*REAL)
    input_weights = operand(*REAL)
    recurrent_weights = operand(*REAL)
    bias = operand(*REAL, i32)
    hidden_state = operand(*REAL)

    states = ("hidden_state",)
    ranks: ClassVar[tuple[int, ...]] = (3,)
    time_major: bool = True
    act: Activation
    asymmetric_quantize_inputs: bool

    def infer(self) -> TensorType:
        shape = require_rank(self.input, "input", *self.ranks)
        weights = require_rank(self.input_weights, "input_weights", 2)
        units = None if weights is None else weights[0]
        return TensorType(self.input.dtype, None if shape is None else (*shape[:-1], units))

    def step(self, *args: Array) -> tuple[Sequence[Array], Sequence[Array]]:
        x, weights, recurrent, bias, hidden = args
        require_float_input(self, x)
        sequence, asymmetric = to_time_major(x, self.time_major), self.asymmetric_quantize_inputs
        driven = driven_by(sequence, Weight(self.input_weights, weights), asymmetric) + bias
        step = rnn_step(driven, Weight(self.recurrent_weights, recurrent), self.act, asymmetric)
        out, (last,) = run_sequence(step, len(sequence), (hidden.reshape(sequence.shape[1], -1),))
        return (to_layout_of(x, out, self.time_major),), (last.reshape(hidden.shape),)

    def required_version(self) -> int:
        return hybrid_version(self.input, self.input_weights, self.asymmetric_quantize_inputs)


class Rnn(OneGate, code="RNN", options="RNNOptions"):
    """One step, [batch, inputs]."""

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    ranks = (2,)


class UnidirectionalSequenceRnn(OneGate, code="UNIDIRECTIONAL_SEQUENCE_RNN", options="SequenceRNNOptions"):
    """A sequence, [time, batch, inputs] or [batch, time, inputs]."""

    time_major: bool = attribute(False)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)


class BidirectionalSequenceRnn(
    Bidirectional,
    code="BIDIRECTIONAL_SEQUENCE_RNN",
    options="BidirectionalSequenceRNNOptions",
    variadic_results=True,
):
    """Two RNNs over a sequence, forwards and backwards (see ``Bidirectional``).

    As in LiteRT, a second input without weights is ignored if the data is batch-major, and with 8-bit weights
    time-major data of n steps is run n times, each from the last state of the run before.
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

    states = ("fw_hidden_state", "bw_hidden_state")

    def widths(self) -> list[Dim]:
        shapes = [require_rank(w, "input_weights", 2) for w in (self.fw_input_weights, self.bw_input_weights)]
        return [None if shape is None else shape[0] for shape in shapes]

    def has_aux_weights(self) -> bool:
        return self.fw_aux_input_weights is not None

    def direction_inputs(self, x: Array, second: Array | None) -> list[tuple[Array, Array | None]]:
        ignored = not self.time_major and not self.has_aux_weights()
        return super().direction_inputs(x, None if ignored else second)

    def run_direction(
        self, weights: Weights, x: Array, aux: Array | None, backwards: bool
    ) -> tuple[Array, State]:
        asymmetric, recurrent = self.asymmetric_quantize_inputs, weights["recurrent_weights"]
        driven = driven_by(x, weights["input_weights"], asymmetric)
        if aux is not None:
            driven = driven + driven_by(aux, weights["aux_input_weights"], asymmetric)
        step = rnn_step(driven + weights["bias"].array, recurrent, self.act, asymmetric)
        state: State = (weights["hidden_state"].array.reshape(x.shape[1], -1),)
        out = np.empty(driven.shape, np.float32)
        for _ in range(len(x) if self.time_major and recurrent.is_hybrid else 1):
            out, state = run_sequence(step, len(x), state, backwards)
        return out, state

    def required_version(self) -> int:
        return hybrid_version(self.input, self.fw_input_weights, self.asymmetric_quantize_inputs)
