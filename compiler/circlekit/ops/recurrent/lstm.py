# SPDX-License-Identifier: Apache-2.0
"""Long short-term memory (LSTM): the common base class, one step, and a sequence in one direction.

Each of the gates input, forget, cell and output has sums: products of weights with the input and the previous
output, plus the bias, and optionally products with the cell state (peephole weights).  The sums may be
normalized (layer normalization); then the gate's activation is applied.  A projection may follow the output.

Float results equal those of LiteRT up to rounding, integer results exactly.  In the hybrid form (float data,
8-bit weights), the state is quantized in every step, as in LiteRT.  With the activation NONE, LiteRT
multiplies the output gate by the sums of the cell gate, not by the cell state; here NONE is the identity.

Sources: TFLite lstm, unidirectional_sequence_lstm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32, i8, i16, i32
from circlekit.ir.enums import Activation, LSTMKernelType
from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ir.quantization_rule import InnerTensor, Product, QuantizationRule
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_float, require_rank
from circlekit.ops.dimensions import Dim
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.recurrent.lstm_float import (
    GATES,
    HIDDEN,
    FloatLstm,
    ObservedLstm,
    basic_step,
    gate_sums,
)
from circlekit.ops.recurrent.lstm_integer import Int16GatesLstm, basic_integer_step
from circlekit.ops.recurrent.lstm_rounded import INTERMEDIATES, RoundedProductsLstm
from circlekit.ops.recurrent.sequence import RecurrentLayer, Step, Weight, Weights

LSTM_WEIGHTS = tuple(
    f"{source}_to_{gate}_weights"
    for source in ("input", "recurrent")
    for gate in ("input", "forget", "cell", "output")
)
"""The names of the weights for the input, [cells, inputs], and for the previous output, [cells, outputs]."""

PEEPHOLES = tuple(f"cell_to_{gate}_weights" for gate in ("input", "forget", "output"))
"""The names of the weights, [cells], for the cell state: their products are added to the sums of a gate."""

NORMS = tuple(f"{gate}_layer_norm_coefficients" for gate in GATES)
"""The names of the weights, [cells], by which the normalized sums of a gate are multiplied."""

GATE_SCALE = 2.0**-12
"""The scale of the integer sums of the gates if there is no layer normalization."""


def _bias_products(gate: str) -> tuple[Product, ...]:
    """Return the two scales that the bias of a gate may have.

    With layer normalization, the bias is added after the normalization and has the scale of the coefficients
    * 2^-10.  Without layer normalization, it has the scale of the input times that of the weights.  The first
    scale counts if the coefficients are present.
    """
    norm = Product((f"{gate}_layer_norm_coefficients",), 2.0**-10)
    return norm, Product(("input", f"input_to_{gate}_weights"))


class LstmLayer(RecurrentLayer):
    """Base class of LSTMs.

    Shapes: weights for the input [cells, inputs]; recurrent weights [cells, outputs]; projection weights
    [outputs, cells]; projection bias [outputs]; all other weights and biases [cells].  The state consists of
    output_state [batch, outputs] and cell_state [batch, cells].
    """

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    cell_clip: float = attribute(0.0)  # the limit of |cell state|; 0: none
    proj_clip: float = attribute(0.0)  # the limit of |projection|; 0: none

    version_operand = 2  # the weights from the input to the forget gate, which are always present

    def output_width(self, direction: str) -> Dim:
        weights = getattr(self, f"{direction}recurrent_to_output_weights")
        ranks = (2,) if direction else (1, 2)  # a vector is a diagonal matrix
        shape = require_rank(weights, "recurrent_to_output_weights", *ranks)
        return None if shape is None else shape[-1]

    def weight_dims(self, direction: str) -> Mapping[str, str]:
        is_diagonal = getattr(self, f"{direction}recurrent_to_output_weights").rank == 1
        norms = () if direction else NORMS  # in two directions there is no normalization
        return {
            **dict.fromkeys(LSTM_WEIGHTS[:4], "cells inputs"),
            **dict.fromkeys(LSTM_WEIGHTS[4:], "outputs" if is_diagonal else "cells outputs"),
            **dict.fromkeys((*PEEPHOLES, *(f"{gate}_gate_bias" for gate in GATES), *norms), "cells"),
            "projection_weights": "outputs cells",
            "projection_bias": "outputs",
        }

    def cell(self, weights: Weights, x: Array, aux: Array | None) -> Step:
        if x.dtype != np.float32:
            raise self.no_kernel()
        require_float(self, x, *(w.array for name, w in weights.items() if name.endswith("bias")))
        return FloatLstm(self, weights, x, aux).step


class FullLstm(LstmLayer, states=("output_state", "cell_state")):
    """Base class of LSTMs in one direction, with their operands.

    The result is the output of each step: the input's shape with ``outputs`` as the last dimension.
    """

    # ``weights``: the axis of the channels; None: one scale only.  ``one_scale``: integer kernels take one
    # scale, so the axes count only for weights that are dequantized.  ``operands_follow``: the operands with
    # the scale of the result.  ``wide``: int16 with zero point 0.  ``power_of_two``: the scale is a power of
    # two, from 2^-15 to 2^-9
    quantization_rule = QuantizationRule(
        weights={**dict.fromkeys((*LSTM_WEIGHTS, "projection_weights"), 0), **dict.fromkeys(PEEPHOLES)},
        one_scale=True,
        biases={
            **{f"{gate}_gate_bias": _bias_products(gate) for gate in GATES},
            "projection_bias": (Product((HIDDEN, "projection_weights")),),
        },
        states=("output_state", "cell_state"),
        operands_follow=("output_state",),
        wide=("cell_state", *PEEPHOLES, *NORMS, *map(gate_sums, GATES)),
        power_of_two={"cell_state": (-15, -9)},
    )

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

    time_major: bool = True  # LSTM has no such attribute: its input is one step

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        state = self.output_state
        if self.recurrent_to_output_weights is None or state is None or self.cell_state is None:
            raise ShapeError(f"{self.code}: expected recurrent weights and both states to be present")
        (inferred,) = self.result_types()
        quantization = state.quantization if self.input.dtype.is_integer else None
        return TensorType(inferred.dtype, inferred.shape, quantization)

    def cell(self, weights: Weights, x: Array, aux: Array | None) -> Step:
        if x.dtype != np.int8:
            return super().cell(weights, x, aux)
        # an operator in LiteRT's form 8x8_8 is recognized by the number of its intermediates
        if self.code == "LSTM" and len(self.extra.get("intermediates", ())) == INTERMEDIATES:
            return RoundedProductsLstm(self, weights, x).step
        return Int16GatesLstm(self, weights, x).step

    def inner_tensors(self) -> Sequence[InnerTensor]:
        """Return the tensors inside of the operator for which integer kernels need scales.

        They are the sums of each gate and the output before the projection.  The range of the sums determines
        their scale only with layer normalization; otherwise the scale is GATE_SCALE.
        """
        has_norm = self.forget_layer_norm_coefficients is not None
        present = [gate for gate in GATES if gate != "input" or self.input_to_input_weights is not None]
        scales = {gate: None if has_norm and gate in present else GATE_SCALE for gate in GATES}
        hidden = InnerTensor(HIDDEN, None, self.projection_weights is None, negates_zero_point=True)
        return *(InnerTensor(gate_sums(gate), scale) for gate, scale in scales.items()), hidden

    def inner_values(self, *operands: Array | None) -> Mapping[str, Array]:
        """Return, by name, all numbers of the cell state and of some inner tensors in a run on ``operands``.

        These inner tensors are those whose scale follows from their range.  Return {} if the input is not
        f32.
        """
        if self.input.dtype is not f32:
            return {}
        observed: list[ObservedLstm] = []

        def cell(weights: Weights, x: Array, aux: Array | None) -> Step:
            observed.append(ObservedLstm(self, weights, x, aux))
            return observed[-1].step

        self.run_cells(cell, operands)  # in one direction, so there is one cell
        return {name: np.stack(arrays) for name, arrays in observed[0].seen.items()}

    def integer_fault(self) -> str | None:
        """Return why LiteRT's integer kernel does not compute this operator; None if it does."""
        present = [v for v in (getattr(self, name) for name in (*LSTM_WEIGHTS, "projection_weights")) if v]
        if not all(v.is_const for v in present):
            return f"{self.code} on integers needs constant weights: its kernel adds them up before a run"
        if self.act is not Activation.TANH:
            return f"{self.code} on integers always has the activation TANH, got {self.act.name}"
        outputs, cells = self.output_width(""), self.input_to_forget_weights.static_shape[0]
        if self.cell_to_forget_weights is not None and outputs != cells:
            got = f"got {outputs} outputs and {cells} cells"
            return f"{self.code} on integers needs as many outputs as cells for peephole weights, {got}"
        return None

    def required_version(self) -> int:
        has_int16_data = self.input.dtype is i16 and self.input_to_forget_weights.dtype is i8
        return 5 if has_int16_data else super().required_version()


class UnidirectionalSequenceLstm(
    FullLstm,
    code="UNIDIRECTIONAL_SEQUENCE_LSTM",
    options="UnidirectionalSequenceLSTMOptions",
    reference_version=3,
    ranks=(2, 3),
):
    """An LSTM over a sequence, [time, batch, inputs] or [batch, time, inputs]."""

    time_major: bool = attribute(False)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)
    diagonal_recurrent_tensors: bool = attribute(False)

    def required_version(self) -> int:
        return max(super().required_version(), 4 if self.diagonal_recurrent_tensors else 1)


class Lstm(FullLstm, code="LSTM", options="LSTMOptions", variadic_results=True, ranks=(2,)):
    """One step of an LSTM on an input [batch, inputs].

    The declared operands are those of the form FULL.  The form BASIC has five operands instead, at the first
    five positions: input, previous output, weights [4 * cells, inputs + cells], bias [4 * cells], cell state.
    It has four results: output, cell state, the input joined with the previous output, and the sums of the
    gates.
    """

    kernel_type: LSTMKernelType = attribute(LSTMKernelType.FULL)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    @property
    def is_basic(self) -> bool:
        return self.kernel_type is LSTMKernelType.BASIC

    def inner_tensors(self) -> Sequence[InnerTensor]:
        return () if self.is_basic else super().inner_tensors()

    def inner_values(self, *operands: Array | None) -> Mapping[str, Array]:
        return {} if self.is_basic else super().inner_values(*operands)

    def integer_fault(self) -> str | None:
        return "a basic LSTM has no int8 kernel" if self.is_basic else super().integer_fault()

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        if not self.is_basic:
            return super().infer()
        data, last, weights, bias, state = (self.inputs[i] for i in range(5))
        if data is None or last is None or weights is None or bias is None or state is None:
            raise ShapeError("a basic LSTM: expected input, previous output, weights, bias and cell state")
        batch, _ = require_rank(data, "input", 2) or (None, None)
        gates, joined = require_rank(weights, "weights", 2) or (None, None)
        sums_dtype = f32 if data.dtype is f32 else i16
        scratch = TensorType(data.dtype, (batch, joined)), TensorType(sums_dtype, (batch, gates))
        return (last.type, state.type, *scratch)

    @property
    def states(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on the form
        """The names of the variable operands.

        The basic form has them at positions 1 and 4, where the full form declares two weights.
        """
        return ("input_to_input_weights", "input_to_output_weights") if self.is_basic else super().states

    def step(self, *args: Any) -> tuple[Sequence[Array], Sequence[Array | None]]:
        if not self.is_basic:
            return super().step(*args)
        data, last, weights, bias, cell = args[:5]
        joined = np.concatenate([data, last], axis=-1)
        if data.dtype == np.float32:
            out, new, sums = basic_step(joined, weights, bias, cell)
        elif data.dtype == np.uint8:
            integers = Weight(self.inputs[2], weights), Weight(self.inputs[3], bias)  # type: ignore[arg-type]  # present
            out, new, sums = basic_integer_step(joined, *integers, cell)
        else:
            raise UnsupportedError(f"a basic LSTM on {data.dtype} has no kernel")
        return (out, new, joined, sums), (out, new)

    def required_version(self) -> int:
        version = super().required_version()  # 2 and 3 (hybrid) become 3 and 4: the basic form has version 2
        return 2 if self.is_basic else version + (version in (2, 3))
