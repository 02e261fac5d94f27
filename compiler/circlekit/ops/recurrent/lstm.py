# SPDX-License-Identifier: Apache-2.0
"""Long short-term memory.  Source: TFLite lstm, unidirectional_sequence_lstm, bidirectional_sequence_lstm.

Float results agree with LiteRT to rounding; with 8-bit weights (hybrid), the state is quantized in every
step, as LiteRT does.  LiteRT has one kernel for each, no separate reference; with the activation NONE it
leaves out the sums of the cell gate, here NONE is the identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16
from circlekit.ir.enums import Activation, LSTMKernelType
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.value import Array, Quantization, Shape, TensorType, Value
from circlekit.ops.checks import require_rank
from circlekit.ops.program.state import Stateful
from circlekit.ops.quantization import is_hybrid
from circlekit.ops.recurrent.lstm_basic import basic_cell
from circlekit.ops.recurrent.lstm_cell import GATES, Settings, Weight, Weights, run_lstm
from circlekit.ops.recurrent.lstm_integer import run_integer_lstm
from circlekit.ops.recurrent.lstm_integer8 import INTERMEDIATES, run_integer8_lstm

Named = Mapping[str, tuple[Value, Array]]
"""The operands that are there, by name."""


def weights_of(operands: Named, prefix: str = "") -> Weights:
    """The weights of the direction whose operands' names begin with ``prefix``."""

    def group(form: str) -> dict[str, Weight]:
        named = {g: operands.get(prefix + form.format(g)) for g in GATES}
        return {g: Weight(*item) for g, item in named.items() if item is not None}

    projection = operands.get(f"{prefix}projection_weights")
    projection_bias = operands.get(f"{prefix}projection_bias")
    return Weights(
        input=group("input_to_{}_weights"),
        recurrent=group("recurrent_to_{}_weights"),
        bias={g: w.array for g, w in group("{}_gate_bias").items()},
        aux=group("aux_input_to_{}_weights"),
        peephole=group("cell_to_{}_weights"),
        norm={g: w.array for g, w in group("{}_layer_norm_coefficients").items()},
        projection=None if projection is None else Weight(*projection),
        projection_bias=None if projection_bias is None else projection_bias[1],
    )


class FullLstm(Stateful):
    """The operands that a full LSTM has: weights [cells, inputs] and [cells, outputs], vectors [cells]."""

    input = operand()
    input_to_input_weights = optional_operand()
    input_to_forget_weights = operand()
    input_to_cell_weights = operand()
    input_to_output_weights = operand()
    recurrent_to_input_weights = optional_operand()
    recurrent_to_forget_weights = optional_operand()
    recurrent_to_cell_weights = optional_operand()
    recurrent_to_output_weights = optional_operand()
    cell_to_input_weights = optional_operand()
    cell_to_forget_weights = optional_operand()
    cell_to_output_weights = optional_operand()
    input_gate_bias = optional_operand()
    forget_gate_bias = optional_operand()
    cell_gate_bias = optional_operand()
    output_gate_bias = optional_operand()
    projection_weights = optional_operand()
    projection_bias = optional_operand()
    output_state = optional_operand()
    cell_state = optional_operand()
    input_layer_norm_coefficients = optional_operand()
    forget_layer_norm_coefficients = optional_operand()
    cell_layer_norm_coefficients = optional_operand()
    output_layer_norm_coefficients = optional_operand()

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    cell_clip: float = attribute(0.0)
    proj_clip: float = attribute(0.0)

    states = ("output_state", "cell_state")
    time_is_first = True
    ranks: ClassVar[tuple[int, ...]] = (2,)
    rounds_products = False
    asymmetric_quantize_inputs: bool

    def settings(self) -> Settings:
        return Settings(self.act, self.cell_clip, self.proj_clip, self.asymmetric_quantize_inputs)

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        recurrent = self.recurrent_to_output_weights
        state = self.output_state
        if recurrent is None or state is None or self.cell_state is None:
            raise ShapeError(f"{self.code} lacks its recurrent weights or its states")
        shape = require_rank(self.input, "input", *self.ranks)
        kernel = require_rank(recurrent, "recurrent_to_output_weights", 1, 2)
        outputs = None if kernel is None else kernel[-1]
        result: Shape | None = None if shape is None else (*shape[:-1], outputs)
        return TensorType(self.input.dtype, result, quantization_like(self.input, state))

    def named(self, arrays: Sequence[Array | None]) -> Named:
        """The operands that are there, with their arrays."""
        specs = zip(self.operands, self.inputs, arrays, strict=False)
        return {s.name: (v, a) for s, v, a in specs if v is not None and a is not None}

    def step(self, *args: Array | None) -> tuple[Sequence[Array], Sequence[Array | None]]:
        operands = self.named(args)
        x = operands["input"][1]
        ordered = as_sequence(x, self.time_is_first)
        states = [operands[name][1] for name in self.states]
        batch = ordered.shape[1]
        hidden, cell = (s.reshape(batch, -1) for s in states)
        if x.dtype == np.float32:
            weights = weights_of(operands)
            out, hidden, cell = run_lstm(weights, self.settings(), ordered, None, hidden, cell)
        elif x.dtype == np.int8:
            run = run_integer8_lstm if self.rounds_products else run_integer_lstm
            out, hidden, cell = run(self, operands, ordered, hidden, cell)
        else:
            raise UnsupportedError(f"{self.code} on {self.input.dtype.short} has no kernel")
        out = like_input(out, x, self.time_is_first)
        return (out,), (hidden.reshape(states[0].shape), cell.reshape(states[1].shape))


def quantization_like(data: Value, state: Value) -> Quantization | None:
    """The quantization of the result: that of the state, for integers."""
    return state.quantization if data.dtype.is_integer else None


def as_sequence(x: Array, time_is_first: bool) -> Array:
    """``x`` as [time, batch, inputs]; one step where it has rank 2."""
    if x.ndim == 2:
        return x[None]
    return x if time_is_first else x.swapaxes(0, 1)


def like_input(out: Array, x: Array, time_is_first: bool) -> Array:
    """A sequence of results in the order of the input ``x``."""
    if x.ndim == 2:
        return np.asarray(out[0])
    return out if time_is_first else np.ascontiguousarray(out.swapaxes(0, 1))


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

    @property
    def time_is_first(self) -> bool:  # type: ignore[override]  # an attribute says it
        return self.time_major

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

    The BASIC form has five operands (input, activations before, weights [4 cells, inputs + outputs],
    biases, state before) and four results (activations, state, and two that are scratch).
    """

    kernel_type: LSTMKernelType = attribute(LSTMKernelType.FULL)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    @property
    def is_basic(self) -> bool:
        return self.kernel_type is LSTMKernelType.BASIC

    @property
    def rounds_products(self) -> bool:  # type: ignore[override]  # the number of its intermediates says it
        return len(self.extra.get("intermediates", ())) == INTERMEDIATES

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        if not self.is_basic:
            return super().infer()
        data, before, weights, state = (self.inputs[i] for i in (0, 1, 2, 4))
        if data is None or before is None or weights is None or state is None:
            raise ShapeError("a basic LSTM has five operands")
        batch = None if data.shape is None else data.shape[0]
        cat = (batch, weights.shape[1] if weights.shape is not None else None)
        gates = (batch, weights.shape[0] if weights.shape is not None else None)
        wide = f32 if data.dtype is f32 else i16
        return (before.type, state.type, TensorType(data.dtype, cat), TensorType(wide, gates))

    @property
    def states(self) -> tuple[str, ...]:  # type: ignore[override]  # the forms differ
        """The basic form's are the operands at the places of two weights, if these are variables."""
        return ("input_to_input_weights", "input_to_output_weights") if self.is_basic else super().states

    def step(self, *args: Any) -> tuple[Sequence[Array], Sequence[Array | None]]:
        if not self.is_basic:
            return super().step(*args)
        results = basic_cell(self, args[:5])
        return results, results[:2]

    def required_version(self) -> int:
        if self.is_basic:
            return 2
        if self.input.dtype is i16 and self.input_to_forget_weights.dtype is i8:
            return 5
        if is_hybrid(self.input, self.input_to_forget_weights):
            return 4 if self.asymmetric_quantize_inputs else 3
        return 1


def hybrid_version(data: Value, weights: Value | None, asymmetric: bool) -> int:
    """1 for float weights; 2, or 3 with asymmetric inputs, for int8 ones."""
    if weights is None or weights.dtype is not DType.INT8 or data.dtype is not f32:
        return 1
    return 3 if asymmetric else 2
