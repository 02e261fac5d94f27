# SPDX-License-Identifier: Apache-2.0
"""Compute the steps of an LSTM on floats: the full form, with float or 8-bit weights, and the basic form.

The full form has weights for each gate; the basic form has one matrix for all gates, the activation TANH, and
none of the parts that are optional in the full form: coupled gates, peephole weights, layer normalization,
projection and clipping.

Source: TFLite lstm_eval.cc (float and hybrid), lstm.cc and reference/lstm_cell.h (basic).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.value import Array
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.recurrent.sequence import CellState, StackedWeights, Weight, Weights

GATES = ("input", "forget", "cell", "output")
"""The gates in the order of the operands.  The cell gate computes the candidate for the new cell state."""


class FloatLstm:
    """One direction of an LSTM over the input ``x`` [time, batch, inputs].

    ``aux``: a second input, or None.  ``input_sums`` [gates, time, batch, cells]: the part of the gates' sums
    that is known before the loop over time: the products with the inputs, plus the bias if there is no layer
    normalization.  If the input gate has no weights, it is one minus the forget gate (coupled gates).
    Optional are peephole weights (for the cell state), layer normalization, and a projection of the output.
    The constructor raises ModelError if a weight or bias of a present gate is absent, or if the gates have
    weights of different shapes.
    """

    def __init__(self, op: Any, weights: Weights, x: Array, aux: Array | None) -> None:
        self.op = op
        self.weights = weights
        self.gates = present_gates(weights)
        self.has_norm = "forget_layer_norm_coefficients" in weights
        self.recurrent = self._stacked("recurrent_to_{}_weights")
        input_sums = self._stacked("input_to_{}_weights").sequence_products(x)
        if aux is not None and "aux_input_to_forget_weights" in weights:
            input_sums = input_sums + self._stacked("aux_input_to_{}_weights").sequence_products(aux)
        if not self.has_norm:
            bias = [gate_weight(weights, "{}_gate_bias", gate).array for gate in self.gates]
            input_sums = input_sums + np.stack(bias)[:, None, None]
        self.input_sums = input_sums

    def _stacked(self, name_pattern: str) -> StackedWeights:
        stacked = [gate_weight(self.weights, name_pattern, gate) for gate in self.gates]
        return StackedWeights(stacked, self.op.asymmetric_quantize_inputs)

    def step(self, t: int, state: CellState) -> CellState:
        """Return hidden state [batch, outputs] and cell state [batch, cells] after time step ``t``."""
        hidden, cell = state
        sums = dict(zip(self.gates, self.input_sums[:, t] + self.recurrent.products(hidden), strict=True))
        act, limit = self.op.act, self.op.cell_clip
        forget = sigmoid(self._gate("forget", sums["forget"], cell))
        # ``update``, the input gate, says how much of the candidate enters the cell state
        update = sigmoid(self._gate("input", sums["input"], cell)) if "input" in sums else 1 - forget
        candidate = apply_activation(self._gate("cell", sums["cell"], cell), act)
        cell = forget * cell + update * candidate
        if limit > 0:
            cell = np.clip(cell, -limit, limit)
        output = sigmoid(self._gate("output", sums["output"], cell))
        return self._projected(output * apply_activation(cell, act)), cell

    def _gate(self, gate: str, total: Array, cell: Array) -> Array:
        """Return the argument of the gate's activation.

        ``total``: the products with inputs and previous output, plus the bias if not ``has_norm``.
        """
        total = self._sums(gate, total, cell)
        if self.has_norm:
            coefficients = gate_weight(self.weights, "{}_layer_norm_coefficients", gate).array
            bias = gate_weight(self.weights, "{}_gate_bias", gate).array
            total = normalized(total) * coefficients + bias
        return total

    def _sums(self, gate: str, total: Array, cell: Array) -> Array:
        """Return ``total``, plus the products of cell state and peephole weights if there are any."""
        peephole = self.weights.get(f"cell_to_{gate}_weights")
        return total if peephole is None else np.asarray(total + cell * peephole.dequantized())

    def _projected(self, output: Array) -> Array:
        """Return the hidden state: ``output`` [batch, cells] or its projection, [batch, outputs], if any."""
        projection, limit = self.weights.get("projection_weights"), self.op.proj_clip
        if projection is None:
            return output
        out = StackedWeights([projection], self.op.asymmetric_quantize_inputs).products(output)[0]
        if "projection_bias" in self.weights:
            out = out + self.weights["projection_bias"].array
        return np.asarray(np.clip(out, -limit, limit) if limit > 0 else out)


class ObservedLstm(FloatLstm):
    """A float LSTM that keeps the numbers for which an integer kernel needs scales.

    ``seen``: lists of arrays by name.  "cell_state": the cell state before the first step and after each
    step.  For each inner tensor whose scale follows from its range (``gate_sums``, ``HIDDEN``): one array for
    each step.
    """

    def __init__(self, op: Any, weights: Weights, x: Array, aux: Array | None) -> None:
        super().__init__(op, weights, x, aux)
        self.seen: dict[str, list[Array]] = {}

    def step(self, t: int, state: CellState) -> CellState:
        """Return the state after time step ``t``; keep its cell state, and the one before the first step."""
        new = super().step(t, state)
        self.seen.setdefault("cell_state", [state[1]]).append(new[1])
        return new

    def _sums(self, gate: str, total: Array, cell: Array) -> Array:
        total = super()._sums(gate, total, cell)
        if self.has_norm:
            self.seen.setdefault(gate_sums(gate), []).append(total)
        return total

    def _projected(self, output: Array) -> Array:
        if "projection_weights" in self.weights:
            self.seen.setdefault(HIDDEN, []).append(output)
        return super()._projected(output)


HIDDEN = "hidden"
"""The name of the inner tensor for the output before the projection, which LiteRT calls hidden.

It is not the hidden state: that is the output after the projection.
"""


def gate_sums(gate: str) -> str:
    """Return the name of the inner tensor for the sums of a gate, before the layer normalization."""
    return f"{gate}_gate_sums"


def present_gates(weights: Weights) -> list[str]:
    """Return the gates of an LSTM, without the input gate if there are no weights for it."""
    return [g for g in GATES if g != "input" or "input_to_input_weights" in weights]


def gate_weight(weights: Weights, name_pattern: str, gate: str) -> Weight:
    """Return the operand with the name of ``gate`` in place of {} in ``name_pattern``.

    Raise ModelError if it is absent.
    """
    name = name_pattern.format(gate)
    if name not in weights:
        raise ModelError(f"expected an operand {name}, got none")
    return weights[name]


def basic_step(joined: Array, weights: Array, bias: Array, cell: Array) -> tuple[Array, Array, Array]:
    """Return output, cell state and sums of the gates of one step of the basic form.

    ``joined`` [batch, inputs + cells]: the input and the previous output.  ``weights`` [4 * cells, inputs +
    cells]: the rows of input gate, candidate, forget gate and output gate.  ``bias``: [4 * cells].  ``cell``:
    the cell state before, [batch, cells].
    """
    sums = joined @ weights.T + bias
    update, candidate, forget, output = np.split(sums, 4, axis=-1)
    new = sigmoid(update) * np.tanh(candidate) + sigmoid(forget) * cell
    return sigmoid(output) * np.tanh(new), new, sums


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + e^-x)."""
    return np.asarray(1 / (1 + np.exp(-x)))


def normalized(x: Array) -> Array:
    """Return ``x`` with each row shifted and scaled to mean 0 and variance 1.

    As in LiteRT, 1e-8 is added to the variance, to avoid a division by 0.
    """
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centered * centered, axis=-1, keepdims=True)
    return np.asarray(centered / np.sqrt(variance + np.float32(1e-8)))
