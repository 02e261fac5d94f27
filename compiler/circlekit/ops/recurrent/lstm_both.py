# SPDX-License-Identifier: Apache-2.0
"""LSTM in both directions of time.  Source: TFLite bidirectional_sequence_lstm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.enums import Activation
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops.checks import require_rank
from circlekit.ops.program.state import Stateful
from circlekit.ops.recurrent.lstm import as_sequence, hybrid_version, like_input, weights_of
from circlekit.ops.recurrent.lstm_cell import Settings, run_lstm


class BidirectionalSequenceLstm(
    Stateful,
    code="BIDIRECTIONAL_SEQUENCE_LSTM",
    options="BidirectionalSequenceLSTMOptions",
    variadic_results=True,
):
    """Two LSTMs over a sequence, forwards and backwards: two results, or one that joins them.

    A second input of the same length drives both LSTMs where they have weights for it; without such
    weights, it is the input of the backward one.
    """

    input = operand()
    fw_input_to_input_weights = optional_operand()
    fw_input_to_forget_weights = operand()
    fw_input_to_cell_weights = operand()
    fw_input_to_output_weights = operand()
    fw_recurrent_to_input_weights = optional_operand()
    fw_recurrent_to_forget_weights = operand()
    fw_recurrent_to_cell_weights = operand()
    fw_recurrent_to_output_weights = operand()
    fw_cell_to_input_weights = optional_operand()
    fw_cell_to_forget_weights = optional_operand()
    fw_cell_to_output_weights = optional_operand()
    fw_input_gate_bias = optional_operand()
    fw_forget_gate_bias = operand()
    fw_cell_gate_bias = operand()
    fw_output_gate_bias = operand()
    fw_projection_weights = optional_operand()
    fw_projection_bias = optional_operand()
    bw_input_to_input_weights = optional_operand()
    bw_input_to_forget_weights = operand()
    bw_input_to_cell_weights = operand()
    bw_input_to_output_weights = operand()
    bw_recurrent_to_input_weights = optional_operand()
    bw_recurrent_to_forget_weights = operand()
    bw_recurrent_to_cell_weights = operand()
    bw_recurrent_to_output_weights = operand()
    bw_cell_to_input_weights = optional_operand()
    bw_cell_to_forget_weights = optional_operand()
    bw_cell_to_output_weights = optional_operand()
    bw_input_gate_bias = optional_operand()
    bw_forget_gate_bias = operand()
    bw_cell_gate_bias = operand()
    bw_output_gate_bias = operand()
    bw_projection_weights = optional_operand()
    bw_projection_bias = optional_operand()
    fw_output_state = operand()
    fw_cell_state = operand()
    bw_output_state = operand()
    bw_cell_state = operand()
    aux_input = optional_operand()
    fw_aux_input_to_input_weights = optional_operand()
    fw_aux_input_to_forget_weights = optional_operand()
    fw_aux_input_to_cell_weights = optional_operand()
    fw_aux_input_to_output_weights = optional_operand()
    bw_aux_input_to_input_weights = optional_operand()
    bw_aux_input_to_forget_weights = optional_operand()
    bw_aux_input_to_cell_weights = optional_operand()
    bw_aux_input_to_output_weights = optional_operand()

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    cell_clip: float = attribute(0.0)
    proj_clip: float = attribute(0.0)
    merge_outputs: bool = attribute(False)
    time_major: bool = attribute(True)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    states = ("fw_output_state", "fw_cell_state", "bw_output_state", "bw_cell_state")

    def infer(self) -> tuple[TensorType, ...]:
        shape = require_rank(self.input, "input", 3)
        widths = [_width(self.fw_recurrent_to_output_weights), _width(self.bw_recurrent_to_output_weights)]
        if self.merge_outputs:
            joined = None if None in widths else sum(w for w in widths if w is not None)
            widths = [joined]
        dtype = self.input.dtype
        if shape is None:
            return tuple(TensorType(dtype, None) for _ in widths)
        return tuple(TensorType(dtype, (*shape[:-1], width)) for width in widths)

    def step(self, *args: Array | None) -> tuple[Sequence[Array], Sequence[Array]]:
        specs = zip(self.operands, self.inputs, args, strict=False)
        operands = {s.name: (v, a) for s, v, a in specs if v is not None and a is not None}
        x = operands["input"][1]
        if x.dtype != np.float32:
            raise UnsupportedError(f"{self.code} on {self.input.dtype.short} has no kernel")
        if x.ndim != 3:
            raise ShapeError(f"input has rank {x.ndim}, 3 is wanted")
        settings = Settings(self.act, self.cell_clip, self.proj_clip, self.asymmetric_quantize_inputs)
        forward, aux = as_sequence(x, self.time_major), None
        backward = forward
        if self.aux_input is not None:
            second = as_sequence(operands["aux_input"][1], self.time_major)
            if self.fw_aux_input_to_forget_weights is None:
                backward = second
            else:
                aux = second
        outs: list[Array] = []
        contents: list[Array] = []
        for prefix, data in (("fw_", forward), ("bw_", backward)):
            states = [operands[f"{prefix}{name}_state"][1] for name in ("output", "cell")]
            hidden, cell = (s.reshape(data.shape[1], -1) for s in states)
            weights = weights_of(operands, prefix)
            out, hidden, cell = run_lstm(weights, settings, data, aux, hidden, cell, prefix == "bw_")
            outs.append(like_input(out, x, self.time_major))
            contents += [hidden.reshape(states[0].shape), cell.reshape(states[1].shape)]
        return [np.concatenate(outs, axis=-1)] if self.merge_outputs else outs, contents

    def required_version(self) -> int:
        return hybrid_version(self.input, self.fw_input_to_output_weights, self.asymmetric_quantize_inputs)


def _width(recurrent: Value) -> int | None:
    shape = require_rank(recurrent, "recurrent_to_output_weights", 2)
    return None if shape is None else shape[1]
