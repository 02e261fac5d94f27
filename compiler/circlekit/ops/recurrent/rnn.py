# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks of one gate, and circle's GRU.

Sources: TFLite rnn, unidirectional_sequence_rnn, bidirectional_sequence_rnn, kernel_utils.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.enums import Activation
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_rank
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.program.state import Stateful
from circlekit.ops.recurrent.lstm import as_sequence, hybrid_version, like_input
from circlekit.ops.recurrent.lstm_cell import Stack, Weight


def run_rnn(
    driven: Array,
    recurrent: Weight,
    hidden: Array,
    act: Activation,
    asymmetric: bool,
    backwards: bool = False,
) -> tuple[Array, Array]:
    """Outputs [time, batch, units] and the last hidden state, of what inputs and bias give at all times."""
    out = np.empty(driven.shape, np.float32)
    stack, times = Stack({"": recurrent}, asymmetric), range(driven.shape[0])
    for t in reversed(times) if backwards else times:
        hidden = apply_activation(driven[t] + stack.products(hidden)[""], act)
        out[t] = hidden
    return out, hidden


def driven_by(x: Array, weights: Weight, asymmetric: bool) -> Array:
    """[time, batch, units] of inputs [time, batch, n]."""
    product = weights.product(x.reshape(-1, x.shape[-1]), asymmetric)
    return product.reshape(*x.shape[:2], -1)


class OneGate(Stateful):
    """act(input weights * x + recurrent weights * state + bias), which becomes the state.

    Weights [units, inputs] and [units, units]; with 8-bit ones (hybrid), rows are quantized on the way.
    """

    input = operand()
    input_weights = operand()
    recurrent_weights = operand()
    bias = operand()
    hidden_state = operand()

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

    def step(self, *args: Array) -> tuple[Sequence[Array], Sequence[Array | None]]:
        x, weights, recurrent, bias, hidden = args
        if x.dtype != np.float32:
            raise UnsupportedError(f"{self.code} on {self.input.dtype.short} has no kernel")
        ordered, quantize = as_sequence(x, self.time_major), self.asymmetric_quantize_inputs
        driven = driven_by(ordered, Weight(self.input_weights, weights), quantize) + bias
        recurrence = Weight(self.recurrent_weights, recurrent)
        start = hidden.reshape(ordered.shape[1], -1)
        out, last = run_rnn(driven, recurrence, start, self.act, quantize)
        return (like_input(out, x, self.time_major),), (last.reshape(hidden.shape),)

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
    Stateful,
    code="BIDIRECTIONAL_SEQUENCE_RNN",
    options="BidirectionalSequenceRNNOptions",
    variadic_results=True,
):
    """Both directions of time: two results, or one that joins them.

    A second input drives both where they have weights for it; without such weights, it is the input of
    the backward one.  As in LiteRT, batch-major data keeps the second input out of the backward one, and
    with 8-bit weights time-major data of n steps is run n times, each from the state of the last.
    """

    input = operand()
    fw_input_weights = operand()
    fw_recurrent_weights = operand()
    fw_bias = operand()
    fw_hidden_state = operand()
    bw_input_weights = operand()
    bw_recurrent_weights = operand()
    bw_bias = operand()
    bw_hidden_state = operand()
    aux_input = optional_operand()
    fw_aux_input_weights = optional_operand()
    bw_aux_input_weights = optional_operand()

    time_major: bool = attribute(False)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    merge_outputs: bool = attribute(False)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    states = ("fw_hidden_state", "bw_hidden_state")

    def infer(self) -> tuple[TensorType, ...]:
        shape = require_rank(self.input, "input", 3)
        widths = []
        for weights in (self.fw_input_weights, self.bw_input_weights):
            known = require_rank(weights, "input_weights", 2)
            widths.append(None if known is None else known[0])
        if self.merge_outputs:
            widths = [None if None in widths else sum(w for w in widths if w is not None)]
        dtype = self.input.dtype
        if shape is None:
            return tuple(TensorType(dtype, None) for _ in widths)
        return tuple(TensorType(dtype, (*shape[:-1], width)) for width in widths)

    def step(self, *args: Array | None) -> tuple[Sequence[Array], Sequence[Array | None]]:
        specs = zip(self.operands, self.inputs, args, strict=False)
        operands = {s.name: Weight(v, a) for s, v, a in specs if v is not None and a is not None}
        x = operands["input"].array
        if x.dtype != np.float32:
            raise UnsupportedError(f"{self.code} on {self.input.dtype.short} has no kernel")
        sides = self.sides(operands)
        outs: list[Array] = []
        contents: list[Array | None] = []
        for prefix, (data, aux) in sides.items():
            driven = driven_by(data, operands[prefix + "input_weights"], self.asymmetric_quantize_inputs)
            if aux is not None:
                weights = operands[prefix + "aux_input_weights"]
                driven = driven + driven_by(aux, weights, self.asymmetric_quantize_inputs)
            driven = driven + operands[prefix + "bias"].array
            weights, hidden = operands[prefix + "recurrent_weights"], operands[prefix + "hidden_state"].array
            last = hidden.reshape(data.shape[1], -1)
            out = np.empty(driven.shape, np.float32)
            for _ in range(len(data) if self.time_major and weights.is_hybrid else 1):
                out, last = run_rnn(
                    driven, weights, last, self.act, self.asymmetric_quantize_inputs, prefix == "bw_"
                )
            outs.append(like_input(out, x, self.time_major))
            contents.append(last.reshape(hidden.shape))
        return [np.concatenate(outs, axis=-1)] if self.merge_outputs else outs, contents

    def sides(self, operands: dict[str, Weight]) -> dict[str, tuple[Array, Array | None]]:
        """What each direction reads: its input, and the second one where both have weights for it."""
        data = as_sequence(operands["input"].array, self.time_major)
        if self.aux_input is None:
            return {"fw_": (data, None), "bw_": (data, None)}
        second = as_sequence(operands["aux_input"].array, self.time_major)
        if self.fw_aux_input_weights is not None:
            return {"fw_": (data, second), "bw_": (data, second)}
        return {"fw_": (data, None), "bw_": (second if self.time_major else data, None)}

    def required_version(self) -> int:
        return hybrid_version(self.input, self.fw_input_weights, self.asymmetric_quantize_inputs)
