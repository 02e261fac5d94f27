# SPDX-License-Identifier: Apache-2.0
"""One direction of an LSTM on 8-bit inputs, weights and outputs, with 16-bit cells: integers only.

Source: TFLite lstm_eval.cc (8x8_16), unidirectional_sequence_lstm.cc, portable_tensor_utils.cc.  Operators
carry the scales of the gates' sums and of the hidden state as ``intermediates``, five values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.dynamic_quantization import exact, integer_product
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    wrap_int32,
)
from circlekit.ops.numerics.fixed_point_functions import get_inv_sqrt_quantized_multiplier, logistic, tanh
from circlekit.ops.quantization import scale_of, zero_point_of
from circlekit.ops.recurrent.lstm_cell import GATES

if TYPE_CHECKING:
    from circlekit.ops.recurrent.lstm import FullLstm

Named = Mapping[str, tuple[Value, Array]]
LIMITS = (-(1 << 15), (1 << 15) - 1)


@dataclass(eq=False, repr=False)
class Gate:
    """One gate: sums in Q3 (2^-12) or, with normalization, in the scale of its intermediate value."""

    driven: Ints
    recurrent: Array
    recurrent_bias: Ints
    recurrent_by: QuantizedMultiplier
    peephole: Array | None
    peephole_by: QuantizedMultiplier
    norm: Array | None
    norm_by: QuantizedMultiplier
    norm_bias: Array
    variance_limit: int


@dataclass(eq=False, repr=False)
class Form:
    """What is the same in all steps.  ``cell_bits``: log2 of the cell state's scale."""

    gates: Mapping[str, Gate]
    cell_bits: int
    cell_clip: int
    proj_clip: int
    hidden_by: QuantizedMultiplier
    hidden_zero: int
    projection: Array | None
    projection_bias: Ints
    projection_by: QuantizedMultiplier
    state_zero: int
    time_is_first: bool


def run_integer_lstm(
    op: FullLstm, operands: Named, x: Array, hidden: Array, cell: Array
) -> tuple[Array, Array, Array]:
    """Outputs [time, batch, outputs] (int8), and the last hidden (int8) and cell states (int16)."""
    form = _form(op, operands, x)
    out = np.empty((*x.shape[:2], hidden.shape[1]), np.int8)
    state, cells = hidden.astype(np.int64), cell.astype(np.int64)
    for t in range(x.shape[0]):
        state, cells = _step(form, t, state, cells)
        out[t] = state
    return out, state.astype(np.int8), cells.astype(np.int16)


def _form(op: FullLstm, operands: Named, x: Array) -> Form:
    values = op.extra.get("intermediates", ())
    if len(values) != 5 or None in values:
        raise UnsupportedError(
            f"{op.code} in 8 bits has {len(values)} intermediates, 5 are wanted (12 in LSTM)"
        )
    has_norm = "forget_layer_norm_coefficients" in operands
    cell_scale, state = scale_of(operands["cell_state"][0]), operands["output_state"][0]
    cell_bits = round(float(np.log2(cell_scale)))
    if abs(float(np.log2(cell_scale)) - cell_bits) > 1e-3:
        raise ModelError(f"the scale of the cell state is {cell_scale}, a power of two is wanted")
    sums = {g: scale_of(v) if has_norm else np.float32(2**-12) for g, v in zip(GATES, values, strict=False)}
    hidden_scale, hidden_zero = scale_of(values[4]), zero_point_of(values[4])
    present = [g for g in GATES if f"input_to_{g}_weights" in operands]
    projection = operands.get("projection_weights")
    weight_scale = np.float32(1) if projection is None else scale_of(projection[0])
    bias = operands.get("projection_bias")
    return Form(
        gates={g: _gate(g, sums[g], operands, x, cell_bits) for g in present},
        cell_bits=cell_bits,
        cell_clip=int(np.clip(np.float32(op.cell_clip) / cell_scale, *LIMITS)),
        proj_clip=int(np.clip(np.float32(op.proj_clip) / scale_of(op.results[0]), -128, 127)),
        hidden_by=quantize_multiplier(np.float32(2**-15 / float(hidden_scale) * 2**-15)),
        hidden_zero=hidden_zero,
        projection=None if projection is None else exact(projection[1]),
        projection_bias=_with_zero(None if bias is None else bias[1], projection, hidden_zero),
        projection_by=quantize_multiplier(weight_scale * hidden_scale / scale_of(state)),
        state_zero=zero_point_of(state),
        time_is_first=op.time_is_first,
    )


def _gate(name: str, scale: np.float32, operands: Named, x: Array, cell_bits: int) -> Gate:
    data, state = operands["input"][0], operands["output_state"][0]
    weights, recurrent = operands[f"input_to_{name}_weights"], operands[f"recurrent_to_{name}_weights"]
    peephole = None if name == "cell" else operands.get(f"cell_to_{name}_weights")
    norm = operands.get(f"{name}_layer_norm_coefficients")
    bias = operands[f"{name}_gate_bias"][1]
    norm_scale = np.float32(1) if norm is None else scale_of(norm[0])
    by = quantize_multiplier(scale_of(weights[0]) * scale_of(data) / scale)
    input_bias = _with_zero(bias if norm is None else None, weights, -zero_point_of(data))
    sums = integer_product(x.reshape(-1, x.shape[-1]), weights[1]).astype(np.int64) + input_bias
    driven = np.clip(multiply_by_quantized_multiplier(wrap_int32(sums), by), *LIMITS)
    peephole_scale = 1.0 if peephole is None else 2.0**cell_bits * float(scale_of(peephole[0])) / float(scale)
    return Gate(
        driven=driven.reshape(*x.shape[:2], -1),
        recurrent=exact(recurrent[1]),
        recurrent_bias=_with_zero(None, recurrent, -zero_point_of(state)),
        recurrent_by=quantize_multiplier(scale_of(recurrent[0]) * scale_of(state) / scale),
        peephole=None if peephole is None else peephole[1],
        peephole_by=quantize_multiplier(np.float32(peephole_scale)),
        norm=None if norm is None else norm[1],
        norm_by=quantize_multiplier(norm_scale),
        norm_bias=bias,
        variance_limit=max(1, int(np.float32(10000) * norm_scale)),
    )


def _with_zero(bias: Array | None, weights: tuple[Value, Array] | None, zero: int) -> Ints:
    """The bias, and what a constant ``zero`` in each input adds."""
    total: Ints = np.zeros(1, np.int64) if bias is None else bias.astype(np.int64)
    if weights is not None:
        total = total + zero * weights[1].astype(np.int64).sum(axis=1)
    return total


def _step(form: Form, t: int, state: Ints, cells: Ints) -> tuple[Ints, Ints]:
    def gate(name: str) -> Ints:
        return _sums(form, form.gates[name], t, state, cells)

    forget = _logistic(gate("forget"))
    entering = _logistic(gate("input")) if "input" in form.gates else (1 << 15) - 1 - forget
    candidate = _tanh(gate("cell"), 3)
    kept = _as16(rounding_divide_by_pot(forget * cells, 15))
    added = _as16(rounding_divide_by_pot(entering * candidate, 30 + form.cell_bits))
    cells = np.clip(kept + added, *LIMITS)
    if form.cell_clip > 0:
        cells = np.clip(cells, -form.cell_clip, form.cell_clip)
    leaving = _logistic(_sums(form, form.gates["output"], t, state, cells))
    made = leaving * _tanh(cells, 15 + form.cell_bits)
    return _projected(form, made), cells


@cache
def _logistic_table() -> Ints:
    return logistic(np.arange(-(1 << 15), 1 << 15), 3, 16)


@cache
def _tanh_table(integer_bits: int) -> Ints:
    return tanh(np.arange(-(1 << 15), 1 << 15), integer_bits, 16)


def _logistic(sums: Ints) -> Ints:
    return np.asarray(_logistic_table()[sums + (1 << 15)])


def _tanh(sums: Ints, integer_bits: int) -> Ints:
    return np.asarray(_tanh_table(integer_bits)[sums + (1 << 15)])


def _sums(form: Form, gate: Gate, t: int, state: Ints, cells: Ints) -> Ints:
    products = integer_product(state, gate.recurrent).astype(np.int64) + gate.recurrent_bias
    sums = np.clip(
        multiply_by_quantized_multiplier(wrap_int32(products), gate.recurrent_by) + gate.driven[t], *LIMITS
    )
    if gate.peephole is not None:
        sums = _peephole(sums, gate, state.shape[1], cells, form.time_is_first)
    return sums if gate.norm is None else _normalized(sums, gate)


def _peephole(sums: Ints, gate: Gate, outputs: int, cells: Ints, time_is_first: bool) -> Ints:
    """Adds the cells' share.  With a projection LiteRT walks the cells in rows of the output's length."""
    assert gate.peephole is not None
    sums, rows = sums.copy(), sums.shape[0]
    if time_is_first:
        flat, data = sums.reshape(-1)[: rows * outputs], cells.reshape(-1)[: rows * outputs]
        weights = np.tile(gate.peephole[:outputs].astype(np.int64), rows)[: len(flat)]
        flat[:] = np.clip(flat + multiply_by_quantized_multiplier(weights * data, gate.peephole_by), *LIMITS)
    else:
        part = sums[:, :outputs]
        products = cells[:, :outputs] * gate.peephole[:outputs].astype(np.int64)
        part[:] = np.clip(part + multiply_by_quantized_multiplier(products, gate.peephole_by), *LIMITS)
    return sums


def _normalized(sums: Ints, gate: Gate) -> Ints:
    """Each row with mean 0 and deviation 1, times the coefficients, plus the bias; in Q3."""
    assert gate.norm is not None
    count = sums.shape[1]
    mean = _towards_zero(sums.sum(axis=1, keepdims=True) * 1024, count)
    squares = (sums * sums).sum(axis=1, keepdims=True)
    variance = _towards_zero(squares * ((1 << 20) // count) - mean * mean, 1 << 20)
    variance = np.where(variance < 1, gate.variance_limit, variance)
    scaled = multiply_by_quantized_multiplier(
        wrap_int32(1024 * sums - mean), get_inv_sqrt_quantized_multiplier(variance)
    )
    weighted = wrap_int32(scaled * gate.norm.astype(np.int64) + gate.norm_bias)
    rounded = _towards_zero(weighted + np.where(weighted > 0, 512, -512), 1024)
    by = QuantizedMultiplier(gate.norm_by.mantissa, gate.norm_by.shift + 12)
    return np.clip(multiply_by_quantized_multiplier(rounded, by), *LIMITS)


def _projected(form: Form, made: Ints) -> Ints:
    if form.projection is None:
        return np.clip(multiply_by_quantized_multiplier(made, form.hidden_by) + form.hidden_zero, -128, 127)
    hidden = np.clip(multiply_by_quantized_multiplier(made, form.hidden_by) - form.hidden_zero, -128, 127)
    sums = integer_product(hidden, form.projection).astype(np.int64) + form.projection_bias
    out = np.clip(
        multiply_by_quantized_multiplier(wrap_int32(sums), form.projection_by) + form.state_zero, -128, 127
    )
    return np.clip(out, -form.proj_clip, form.proj_clip) if form.proj_clip > 0 else out


def _towards_zero(x: Ints, divisor: int) -> Ints:
    """X / divisor as C divides."""
    return np.asarray(np.sign(x) * (np.abs(x) // divisor), np.int64)


def _as16(x: Ints) -> Ints:
    return x.astype(np.int16).astype(np.int64)
