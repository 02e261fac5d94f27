# SPDX-License-Identifier: Apache-2.0
"""Long short-term memory: one step, a sequence, and a sequence in both directions.

Float results agree with LiteRT to rounding; in the hybrid form (8-bit weights) the state is quantized in
every step, as in LiteRT; integer results are equal.  With the activation NONE, LiteRT omits the sums of the
cell gate; here NONE is the identity.

Sources: TFLite lstm, unidirectional_sequence_lstm, bidirectional_sequence_lstm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32, i8, i16, i32
from circlekit.ir.enums import Activation, LSTMKernelType
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.value import Array, Shape, TensorType
from circlekit.ops.checks import require_rank
from circlekit.ops.dimensions import Dim
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.program.state import Stateful
from circlekit.ops.quantization import is_hybrid
from circlekit.ops.recurrent.lstm_float import FloatLstm, LstmSettings, basic_step
from circlekit.ops.recurrent.lstm_integer import Int16GatesLstm, basic_integer_step
from circlekit.ops.recurrent.lstm_rounded import INTERMEDIATES, RoundedProductsLstm
from circlekit.ops.recurrent.sequence import (
    Bidirectional,
    State,
    Weight,
    Weights,
    hybrid_version,
    named_weights,
    run_sequence,
    to_layout_of,
    to_time_major,
)


class FullLstm(Stateful, states=("output_state", "cell_state")):
    """Operands of a full LSTM: weights [cells, inputs] and [cells, outputs], vectors [cells]."""

    input = operand(*REAL)
    input_to_input_weights = optional_operand(*REAL)
    input_to_forget_weights = operand(*REAL)
    input_to_cell_weights = operand(*REAL)
    input_to_output_weights = operand(*REAL)
    recurrent_to_input_weights = optional_operand(*REAL)
    recurrent_to_forget_weights = optional_operand(*REAL)
    recurrent_to_cell_weights = optional_operand(*REAL)
    recurrent_to_output_weights = optional_operand(*REAL)
    cell_to_input_weights = optional_operand(*REAL)
    cell_to_forget_weights = optional_operand(*REAL)
    cell_to_output_weights = optional_operand(*REAL)
    input_gate_bias = optional_operand(*REAL, i32)
    forget_gate_bias = optional_operand(*REAL, i32)
    cell_gate_bias = optional_operand(*REAL, i32)
    output_gate_bias = optional_operand(*REAL, i32)
    projection_weights = optional_operand(*REAL)
    projection_bias = optional_operand(*REAL, i32)
    output_state = optional_operand(*REAL)
    cell_state = optional_operand(*REAL)
    input_layer_norm_coefficients = optional_operand(*REAL)
    forget_layer_norm_coefficients = optional_operand(*REAL)
    cell_layer_norm_coefficients = optional_operand(*REAL)
    output_layer_norm_coefficients = optional_operand(*REAL)

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    cell_clip: float = attribute(0.0)
    proj_clip: float = attribute(0.0)

    ranks: ClassVar[tuple[int, ...]] = (2,)
    asymmetric_quantize_inputs: bool
    time_major: bool = True

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        recurrent, state = self.recurrent_to_output_weights, self.output_state
        if recurrent is None or state is None or self.cell_state is None:
            raise ShapeError(f"{self.code}: expected recurrent weights and both states to be present")
        shape = require_rank(self.input, "input", *self.ranks)
        kernel = require_rank(recurrent, "recurrent_to_output_weights", 1, 2)
        outputs = None if kernel is None else kernel[-1]
        result: Shape | None = None if shape is None else (*shape[:-1], outputs)
        quantization = state.quantization if self.input.dtype.is_integer else None
        return TensorType(self.input.dtype, result, quantization)

    def step(self, *args: Array | None) -> tuple[Sequence[Array], Sequence[Array | None]]:
        weights = named_weights(self, args)
        x = weights["input"].array
        sequence = to_time_major(x, self.time_major)
        old = [weights[name].array for name in self.states]
        state: State = tuple(s.reshape(sequence.shape[1], -1) for s in old)
        if x.dtype == np.float32:
            settings = LstmSettings(self.act, self.cell_clip, self.proj_clip, self.asymmetric_quantize_inputs)
            step = FloatLstm(weights, settings, sequence).step
        elif x.dtype != np.int8:
            raise UnsupportedError(f"{self.code} on {self.input.dtype.short} has no kernel")
        elif self.code == "LSTM" and len(self.extra.get("intermediates", ())) == INTERMEDIATES:
            step = RoundedProductsLstm(self, weights, sequence).step
        else:
            step = Int16GatesLstm(self, weights, sequence, self.time_major).step
        out, state = run_sequence(step, len(sequence), state)
        new = [s.reshape(before.shape) for s, before in zip(state, old, strict=True)]
        return (to_layout_of(x, out, self.time_major),), new


class UnidirectionalSequenceLstm(
    FullLstm,
    code="UNIDIRECTIONAL_SEQUENCE_LSTM",
    options="UnidirectionalSequenceLSTMOptions",
    reference_version=3,
):
    """An LSTM over a sequence, [time, batch, inputs] or [batch, time, inputs]."""

    time_major: bool = attribute(False)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)
    diagonal_recurrent_tensors: bool = attribute(False)

    ranks = (2, 3)

    def required_version(self) -> int:
        if self.input.dtype is i16 and self.input_to_forget_weights.dtype is i8:
            return 5
        if self.diagonal_recurrent_tensors:
            return 4
        if is_hybrid(self.input, self.input_to_forget_weights):
            return 3 if self.asymmetric_quantize_inputs else 2
        return 1


class Lstm(FullLstm, code="LSTM", options="LSTMOptions", variadic_results=True):
    """One step of an LSTM, [batch, inputs].

    The BASIC form has five operands, at the first five positions: input, last output, weights [4 cells,
    inputs + outputs], bias, cell state.  Its results are output, cell state, and two scratch buffers: input
    and last output joined, and the sums of the gates.
    """

    kernel_type: LSTMKernelType = attribute(LSTMKernelType.FULL)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    @property
    def is_basic(self) -> bool:
        return self.kernel_type is LSTMKernelType.BASIC

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        if not self.is_basic:
            return super().infer()
        data, last, weights, state = (self.inputs[i] for i in (0, 1, 2, 4))
        if data is None or last is None or weights is None or state is None:
            raise ShapeError("a basic LSTM: expected five operands")
        batch = None if data.shape is None else data.shape[0]
        gates, joined = (None, None) if weights.shape is None else weights.shape
        sums_dtype = f32 if data.dtype is f32 else i16
        scratch = TensorType(data.dtype, (batch, joined)), TensorType(sums_dtype, (batch, gates))
        return (last.type, state.type, *scratch)

    @property
    def states(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on the form
        """Names of the variable operands; in the basic form, of those at the positions of two weights."""
        return ("input_to_input_weights", "input_to_output_weights") if self.is_basic else super().states

    def step(self, *args: Any) -> tuple[Sequence[Array], Sequence[Array | None]]:
        return self.basic(*args[:5]) if self.is_basic else super().step(*args)

    def basic(
        self, data: Array, last: Array, weights: Array, bias: Array, cell: Array
    ) -> tuple[Sequence[Array], Sequence[Array | None]]:
        """Return results and states of the basic form."""
        joined = np.concatenate([data, last], axis=-1)
        if data.dtype == np.float32:
            out, new, sums = basic_step(joined, weights, bias, cell)
        elif data.dtype == np.uint8:
            matrix, biases = Weight(self.inputs[2], weights), Weight(self.inputs[3], bias)  # type: ignore[arg-type]  # present
            out, new, sums = basic_integer_step(joined, matrix, biases, cell)
        else:
            raise UnsupportedError(f"a basic LSTM on {data.dtype} has no kernel")
        return (out, new, joined, sums), (out, new)

    def required_version(self) -> int:
        if self.is_basic:
            return 2
        if self.input.dtype is i16 and self.input_to_forget_weights.dtype is i8:
            return 5
        if is_hybrid(self.input, self.input_to_forget_weights):
            return 4 if self.asymmetric_quantize_inputs else 3
        return 1


class BidirectionalSequenceLstm(
    Bidirectional,
    code="BIDIRECTIONAL_SEQUENCE_LSTM",
    options="BidirectionalSequenceLSTMOptions",
    variadic_results=True,
):
    """Two LSTMs over a sequence, forwards and backwards (see ``Bidirectional``)."""

    input = operand(*REAL)
    fw_input_to_input_weights = optional_operand(*REAL)
    fw_input_to_forget_weights = operand(*REAL)
    fw_input_to_cell_weights = operand(*REAL)
    fw_input_to_output_weights = operand(*REAL)
    fw_recurrent_to_input_weights = optional_operand(*REAL)
    fw_recurrent_to_forget_weights = operand(*REAL)
    fw_recurrent_to_cell_weights = operand(*REAL)
    fw_recurrent_to_output_weights = operand(*REAL)
    fw_cell_to_input_weights = optional_operand(*REAL)
    fw_cell_to_forget_weights = optional_operand(*REAL)
    fw_cell_to_output_weights = optional_operand(*REAL)
    fw_input_gate_bias = optional_operand(*REAL, i32)
    fw_forget_gate_bias = operand(*REAL, i32)
    fw_cell_gate_bias = operand(*REAL, i32)
    fw_output_gate_bias = operand(*REAL, i32)
    fw_projection_weights = optional_operand(*REAL)
    fw_projection_bias = optional_operand(*REAL, i32)
    bw_input_to_input_weights = optional_operand(*REAL)
    bw_input_to_forget_weights = operand(*REAL)
    bw_input_to_cell_weights = operand(*REAL)
    bw_input_to_output_weights = operand(*REAL)
    bw_recurrent_to_input_weights = optional_operand(*REAL)
    bw_recurrent_to_forget_weights = operand(*REAL)
    bw_recurrent_to_cell_weights = operand(*REAL)
    bw_recurrent_to_output_weights = operand(*REAL)
    bw_cell_to_input_weights = optional_operand(*REAL)
    bw_cell_to_forget_weights = optional_operand(*REAL)
    bw_cell_to_output_weights = optional_operand(*REAL)
    bw_input_gate_bias = optional_operand(*REAL, i32)
    bw_forget_gate_bias = operand(*REAL, i32)
    bw_cell_gate_bias = operand(*REAL, i32)
    bw_output_gate_bias = operand(*REAL, i32)
    bw_projection_weights = optional_operand(*REAL)
    bw_projection_bias = optional_operand(*REAL, i32)
    fw_output_state = operand(*REAL)
    fw_cell_state = operand(*REAL)
    bw_output_state = operand(*REAL)
    bw_cell_state = operand(*REAL)
    aux_input = optional_operand(*REAL)
    fw_aux_input_to_input_weights = optional_operand(*REAL)
    fw_aux_input_to_forget_weights = optional_operand(*REAL)
    fw_aux_input_to_cell_weights = optional_operand(*REAL)
    fw_aux_input_to_output_weights = optional_operand(*REAL)
    bw_aux_input_to_input_weights = optional_operand(*REAL)
    bw_aux_input_to_forget_weights = optional_operand(*REAL)
    bw_aux_input_to_cell_weights = optional_operand(*REAL)
    bw_aux_input_to_output_weights = optional_operand(*REAL)

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    cell_clip: float = attribute(0.0)
    proj_clip: float = attribute(0.0)
    merge_outputs: bool = attribute(False)
    time_major: bool = attribute(True)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    states = ("fw_output_state", "fw_cell_state", "bw_output_state", "bw_cell_state")

    def widths(self) -> list[Dim]:
        weights = (self.fw_recurrent_to_output_weights, self.bw_recurrent_to_output_weights)
        shapes = [require_rank(w, "recurrent_to_output_weights", 2) for w in weights]
        return [None if shape is None else shape[1] for shape in shapes]

    def has_aux_weights(self) -> bool:
        return self.fw_aux_input_to_forget_weights is not None

    def run_direction(
        self, weights: Weights, x: Array, aux: Array | None, backwards: bool
    ) -> tuple[Array, State]:
        settings = LstmSettings(self.act, self.cell_clip, self.proj_clip, self.asymmetric_quantize_inputs)
        state = tuple(weights[f"{n}_state"].array.reshape(x.shape[1], -1) for n in ("output", "cell"))
        return run_sequence(FloatLstm(weights, settings, x, aux).step, len(x), state, backwards)

    def required_version(self) -> int:
        return hybrid_version(self.input, self.fw_input_to_output_weights, self.asymmetric_quantize_inputs)
