# SPDX-License-Identifier: Apache-2.0
"""Compute the steps of an LSTM on integers: 8-bit data with 16-bit gates (8x8_16); the basic form on uint8.

``lstm.Lstm`` explains the basic form.
Q0, Q3 and Q4 are 16-bit fixed-point numbers with 0, 3 and 4 integer bits and 15, 12 and 11 fraction bits
(see ``numerics.fixed_point``).
Sources: TFLite lstm_eval.cc (8x8_16), unidirectional_sequence_lstm.cc, portable_tensor_utils.cc;
reference/lstm_cell.h (basic).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from circlekit.errors import ModelError, UnsupportedError, counted
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    get_inv_sqrt_quantized_multiplier,
    logistic,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_half_up,
    quantize_multiplier,
    rescaled,
    rounding_divide_by_pot,
    saturating_left_shift,
    saturating_rounding_doubling_high_mul,
    tanh,
    wrap_int32,
)
from circlekit.ops.numerics.quantized_layers import as_matrix, integer_product, to_exact_floats
from circlekit.ops.quantized_values import scale_of, zero_point_of
from circlekit.ops.recurrent.lstm_float import GATES, gate_weight, present_gates
from circlekit.ops.recurrent.sequence import CellState, Weight, Weights

INT16 = (-(1 << 15), (1 << 15) - 1)  # the smallest and the largest number
INT8 = (-128, 127)


class RescaledProduct:
    """A function of x that computes (x - ``zero_point``) times 8-bit weights, plus a bias.

    x has 8-bit integers [rows, n], quantized with ``data_scale`` and ``zero_point``.  The results are
    integers in units of ``scale``.
    """

    def __init__(
        self, weights: Weight, data_scale: np.float32, zero_point: int, scale: np.float32,
        bias: Weight | None = None,
    ) -> None:  # fmt: skip
        self.matrix = to_exact_floats(weights.array)
        # (x - zero_point) @ weights.T = x @ weights.T - zero_point * (sums of the rows of the weights)
        self.bias = -zero_point * weights.array.astype(np.int64).sum(axis=1)
        if bias is not None:
            self.bias = self.bias + bias.array
        self.multiplier = quantize_multiplier(weights.scale * data_scale / scale)

    def __call__(self, x: Array) -> Ints:
        sums = integer_product(x, self.matrix).astype(np.int64) + self.bias
        return multiply_by_quantized_multiplier(wrap_int32(sums), self.multiplier)


class IntegerGate:
    """One gate of an LSTM on integers.

    The sums of the gate have the scale 2^-12 (Q3).  With layer normalization, they have the scale of
    ``intermediate`` instead, a tensor of which the file has only scale and zero point.  ``input_sums`` [time,
    batch, cells]: the products with the input ``x`` [time, batch, inputs], plus the bias if there is no layer
    normalization.  Layer normalization adds the bias at its end.
    """

    def __init__(self, gate: str, intermediate: Value, weights: Weights, x: Array) -> None:
        data, state = weights["input"], weights["output_state"]
        self.norm = weights.get(f"{gate}_layer_norm_coefficients")
        self.bias = gate_weight(weights, "{}_gate_bias", gate)
        self.scale = np.float32(2**-12) if self.norm is None else scale_of(intermediate)
        inputs = gate_weight(weights, "input_to_{}_weights", gate)
        recurrent = gate_weight(weights, "recurrent_to_{}_weights", gate)
        bias = self.bias if self.norm is None else None
        product = RescaledProduct(inputs, data.scale, data.zero_point, self.scale, bias)
        input_sums = np.clip(product(as_matrix(x)), *INT16)
        self.input_sums = input_sums.reshape(*x.shape[:2], input_sums.shape[-1])
        self.recurrent = RescaledProduct(recurrent, state.scale, state.zero_point, self.scale)
        self.peephole = weights.get(f"cell_to_{gate}_weights")


class Int16GatesLstm:
    """An LSTM on int8 data, weights and outputs, with an int16 cell state of scale 2^``cell_exponent``.

    The operator has five ``intermediates``.  Four give the scales of the sums of the gates; these scales are
    used only with layer normalization.  The fifth gives scale and zero point of the hidden state, before the
    projection if there is one.

    The constructor raises UnsupportedError if the number of intermediates is not five.  It raises ModelError
    if the scale of the cell state is not 2^n with n from -15 to -9, or if a scale or an operand of a gate is
    missing.
    """

    def __init__(self, op: Any, weights: Weights, x: Array) -> None:
        *sums_of_gates, hidden = intermediates(op, 5)
        cell_scale, state = weights["cell_state"].scale, weights["output_state"]
        exponents = [n for n in range(-15, -8) if math.isclose(cell_scale, 2.0**n, rel_tol=7e-4)]
        if not exponents:  # LiteRT has no tanh for others, and leaves its result undefined
            raise ModelError(f"cell_state: expected a scale 2^n with n from -15 to -9, got {cell_scale}")
        (self.cell_exponent,) = exponents
        self.time_major = op.time_major
        # the limits of the cell state and of the projection, as integers; 0: none
        self.cell_clip = int(np.clip(np.float32(op.cell_clip) / cell_scale, *INT16))
        self.proj_clip = int(np.clip(np.float32(op.proj_clip) / scale_of(op.results[0]), *INT8))
        self.state_zero = state.zero_point
        self.gates = {g: IntegerGate(g, v, weights, x) for g, v in zip(GATES, sums_of_gates, strict=True)
                      if g in present_gates(weights)}  # fmt: skip
        hidden_scale, self.hidden_zero = scale_of(hidden), zero_point_of(hidden)
        self.hidden_multiplier = quantize_multiplier(np.float32(2**-15 / float(hidden_scale) * 2**-15))
        matrix, bias = weights.get("projection_weights"), weights.get("projection_bias")
        self.projection: RescaledProduct | None = None
        if matrix is not None:  # a hidden state before a projection has the zero point -hidden_zero
            self.projection = RescaledProduct(matrix, hidden_scale, -self.hidden_zero, state.scale, bias)

    def step(self, t: int, state: CellState) -> CellState:
        """Return the hidden state and the cell state after time step ``t``.

        Both are int64; the numbers are in the ranges of int8 and int16.
        """
        hidden, cell = state
        forget = _logistic()[self._sums("forget", t, hidden, cell)]
        update = (1 << 15) - 1 - forget
        if "input" in self.gates:
            update = _logistic()[self._sums("input", t, hidden, cell)]
        candidate = _tanh(3)[self._sums("cell", t, hidden, cell)]
        # the gates are in Q0, in units of 2^-15, and the cell state in units of 2^cell_exponent
        remembered = wrap_int16(rounding_divide_by_pot(forget * cell, 15))
        added = wrap_int16(rounding_divide_by_pot(update * candidate, 30 + self.cell_exponent))
        cell = np.clip(remembered + added, *INT16)
        if self.cell_clip > 0:
            cell = np.clip(cell, -self.cell_clip, self.cell_clip)
        output = _logistic()[self._sums("output", t, hidden, cell)]
        return self._projected(output * _tanh(15 + self.cell_exponent)[cell]), cell

    def _sums(self, name: str, t: int, hidden: Array, cell: Array) -> Ints:
        """Return the argument of the activation of the gate ``name``, in Q3."""
        gate = self.gates[name]
        total = np.clip(gate.recurrent(hidden) + gate.input_sums[t], *INT16)
        if gate.peephole is not None:
            self._add_peephole(total, gate.peephole, gate.scale, hidden.shape[1], cell)
        return total if gate.norm is None else _normalized(total, gate.norm, gate.bias.array)

    def _add_peephole(
        self, sums: Ints, peephole: Weight, scale: np.float32, outputs: int, cell: Array
    ) -> None:
        """Add peephole * cell state in place to ``sums``, which have the scale ``scale``.

        With a projection, LiteRT uses the number of outputs in place of the number of cells, and this method
        does the same.  If the data are time-major, rows of ``outputs`` elements are taken from the flattened
        cells; else only the first ``outputs`` cells are used.
        """
        batch, weights = len(sums), peephole.array.astype(np.int64)
        if self.time_major:
            part, cells = sums.reshape(-1)[: batch * outputs], cell.reshape(-1)[: batch * outputs]
            factors = np.tile(weights[:outputs], batch)[: len(part)]
        else:
            part, cells, factors = sums[:, :outputs], cell[:, :outputs], weights[:outputs]
        real = np.float32(2.0**self.cell_exponent * float(peephole.scale) / float(scale))
        part[...] = np.clip(part + rescaled(factors * cells, real), *INT16)

    def _projected(self, output: Ints) -> Ints:
        """Return the new hidden state for ``output`` in units of 2^-30, the product of two Q0 numbers.

        Before a projection, LiteRT subtracts the zero point of the hidden state, where quantization adds it.
        """
        hidden = multiply_by_quantized_multiplier(output, self.hidden_multiplier)
        if self.projection is None:
            return np.clip(hidden + self.hidden_zero, *INT8)
        projected = self.projection(np.clip(hidden - self.hidden_zero, *INT8))
        out = np.clip(projected + self.state_zero, *INT8)
        return np.clip(out, -self.proj_clip, self.proj_clip) if self.proj_clip > 0 else out


def intermediates(op: Op, count: int) -> list[Value]:
    """Return the intermediate values of ``op``; raise UnsupportedError unless there are ``count``."""
    values = [v for v in op.extra.get("intermediates", ()) if v is not None]
    if len(values) != count:
        raise UnsupportedError(
            f"{op.code} on int8: expected {counted(count, 'intermediate')}, got {len(values)}"
        )
    return values


def _normalized(sums: Ints, norm: Weight, bias: Array) -> Ints:
    """Return the rows of ``sums``, normalized, times ``norm`` plus ``bias``, in Q3.

    ``bias`` is in units of 1/1024 of the scale of ``norm``.  In the code, ``mean`` is 1024 times the mean of
    a row, and ``scaled`` is 1024 times the normalized row.
    """
    count = sums.shape[1]
    mean = _truncating_divide(sums.sum(axis=1, keepdims=True) * 1024, count)
    squares = (sums * sums).sum(axis=1, keepdims=True)
    variance = _truncating_divide(squares * ((1 << 20) // count) - mean * mean, 1 << 20)
    least = max(1, int(np.float32(10000) * norm.scale))  # LiteRT replaces a variance below 1 by this
    variance = np.where(variance < 1, least, variance)
    inverse = get_inv_sqrt_quantized_multiplier(variance)
    scaled = multiply_by_quantized_multiplier(wrap_int32(1024 * sums - mean), inverse)
    weighted = wrap_int32(scaled * norm.array.astype(np.int64) + bias)
    rounded = _truncating_divide(weighted + np.where(weighted > 0, 512, -512), 1024)
    multiplier = quantize_multiplier(norm.scale)
    to_q3 = QuantizedMultiplier(multiplier.mantissa, multiplier.shift + 12)  # 12 fraction bits
    return np.clip(multiply_by_quantized_multiplier(rounded, to_q3), *INT16)


def _truncating_divide(x: Ints, divisor: int) -> Ints:
    """Return x / divisor, rounded towards zero as in C."""
    return np.asarray(np.sign(x) * (np.abs(x) // divisor), np.int64)


def wrap_int16(x: Ints) -> Ints:
    """Return integers wrapped around (modulo 2^16) to the range of int16, as int64."""
    return x.astype(np.int16).astype(np.int64)


@cache
def _logistic() -> Ints:
    """Return the table of 1 / (1 + e^-x) in Q0 for each int16 x in Q3; its index is x modulo 2^16."""
    return logistic(np.arange(1 << 16).astype(np.int16), 3, 16)


@cache
def _tanh(integer_bits: int) -> Ints:
    """Return a table of tanh(x) in Q0 for int16 x in Q(``integer_bits``), at the index x modulo 2^16."""
    return tanh(np.arange(1 << 16).astype(np.int16), integer_bits, 16)


def basic_integer_step(
    joined: Array, weights: Weight, bias: Weight, cell: Array
) -> tuple[Array, Array, Array]:
    """Return output (uint8), cell state (int16, Q4) and gate sums (int16, Q3) of one step of the basic form.

    ``joined`` [batch, inputs + cells]: the input and the previous output.  ``weights`` and ``bias`` have the
    rows of the input gate, candidate, forget gate and output gate.  ``cell``: the cell state before the step.
    Input and output have the scale 1/128 and the zero point 128, so they are from -1 to 1.  Rescaled sums are
    rounded with a half up, as in the only kernel that LiteRT has for this form.
    """
    matrix = weights.array.astype(np.int32) - weights.zero_point
    products = integer_product(joined.astype(np.int32) - 128, matrix.astype(np.float64)).astype(np.int64)
    multiplier = quantize_multiplier(4096 * float(bias.scale))  # to Q3, 12 fraction bits
    sums = multiply_by_quantized_multiplier_half_up(wrap_int32(products + bias.array), multiplier)
    sums = np.clip(sums, *INT16)
    update, candidate, forget, output = np.split(sums, 4, axis=-1)
    added = rounding_divide_by_pot(_product_q0(_logistic()[update], _tanh(3)[candidate]), 4)  # Q0 to Q4
    new = np.clip(added + _product_q0(_logistic()[forget], cell), *INT16)
    hidden = _product_q0(_logistic()[output], _tanh(3)[saturating_left_shift(new, 1, 16)])  # Q4 to Q3
    out = np.clip(rounding_divide_by_pot(hidden, 8), *INT8) + 128  # from 15 to 7 fraction bits
    return out.astype(np.uint8), new.astype(np.int16), sums.astype(np.int16)


def _product_q0(a: Array, b: Array) -> Ints:
    """Return the product of a 16-bit number in Q0 and one in Q(n), in Q(n)."""
    return saturating_rounding_doubling_high_mul(a, b, 16)
