# SPDX-License-Identifier: Apache-2.0
"""Compute the steps of an LSTM on int8 in LiteRT's form 8x8_8.

In this form, products are rounded to 8 bits before they are added.  LiteRT deviates from the definition of an
LSTM, and this module does the same:

- The input gate is one minus the forget gate, even if there are weights of the input gate.
- Peephole weights are ignored.
- The recurrent product of the output gate is 0.  LiteRT rescales it with parameters of other gates, and uses
  a shift as the mantissa.  A shift is a small number, so all products are rounded to 0.

Q0 and Q3 are int16 fixed-point numbers with 15 and 12 fraction bits, as in ``lstm_integer``.
Source: TFLite lstm.cc, lstm_eval.cc (8x8_8), portable_tensor_utils.cc.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.value import Array
from circlekit.ops.numerics.fixed_point import (
    Ints,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_int64,
    quantize_multiplier,
    round_half_away,
    rounding_divide_by_pot,
)
from circlekit.ops.numerics.float_functions import fdlibm_tanh
from circlekit.ops.quantized_values import scale_of, zero_point_of
from circlekit.ops.recurrent.lstm_float import gate_weight
from circlekit.ops.recurrent.lstm_integer import INT8, INT16, RescaledProduct, intermediates, wrap_int16
from circlekit.ops.recurrent.sequence import CellState, Weight, Weights

INTERMEDIATES = 12
"""The number of intermediates: tensors of which a file has only scale and zero point.

Each gate has three intermediates: its sums, its product with the input, and its recurrent product (with the
previous output).
"""

FIRST_INTERMEDIATE = {"forget": 3, "cell": 6, "output": 9}
"""The index of the first intermediate of each gate; those of the input gate, 0 to 2, are not used."""


class RoundedProductsLstm:
    """An LSTM on int8 data, weights and outputs, with an int16 cell state of scale 2^-15.

    ``weights``: the operands by name.  ``x``: the input, int8[time, batch, inputs].  The constructor raises
    UnsupportedError if there is no layer normalization, no projection or no projection bias.  It raises
    ModelError if the scale of the cell state is not 2^-15.  ``step`` raises ModelError if a weight or bias of
    a gate is missing.
    """

    def __init__(self, op: Any, weights: Weights, x: Array) -> None:
        needed = [f"{gate}_layer_norm_coefficients" for gate in FIRST_INTERMEDIATE]
        missing = [n for n in (*needed, "projection_weights", "projection_bias") if n not in weights]
        if missing:
            raise UnsupportedError(
                f"{op.code} with {INTERMEDIATES} intermediates has no kernel, nor has LiteRT, "
                f"without {', '.join(missing)}"
            )
        cell_scale = weights["cell_state"].scale
        if cell_scale != np.float32(2**-15):
            raise ModelError(f"cell_state: expected a scale of 2^-15, got {cell_scale}")
        self.weights = weights
        self.x = x
        self.intermediates = intermediates(op, INTERMEDIATES)
        self.proj_clip = int(np.clip(np.float32(op.proj_clip) / scale_of(op.results[0]), *INT8))
        # the cell state is below 1, so a greater limit has no effect; 0: no limit
        self.cell_clip = int(np.float32(op.cell_clip) * np.float32(1 << 15)) if 0 < op.cell_clip < 1 else 0

    def step(self, t: int, state: CellState) -> CellState:
        """Return the hidden state and the cell state after time step ``t``.

        Both are int64; the numbers are in the ranges of int8 and int16.
        """
        hidden, cell = state
        gates = {}
        for gate in FIRST_INTERMEDIATE:
            sums = self._product("input", gate, self.x[t])
            if gate != "output":  # see the docstring of the module
                sums = sums + self._product("recurrent", gate, hidden)
            coefficients = self.weights[f"{gate}_layer_norm_coefficients"]
            bias = gate_weight(self.weights, "{}_gate_bias", gate).array
            gates[gate] = _normalized(np.clip(sums, *INT16), coefficients, bias)
        forget = _logistic()[gates["forget"]]
        remembered = rounding_divide_by_pot(forget * cell, 15)
        # the input gate is 1 - forget; a number in Q0 has 15 fraction bits, so a product has 30
        added = rounding_divide_by_pot((INT16[1] - forget) * _tanh(12)[gates["cell"]], 15)
        cell = np.clip(wrap_int16(remembered) + wrap_int16(added), *INT16)
        if self.cell_clip:
            cell = np.clip(cell, -self.cell_clip, self.cell_clip)
        output = rounding_divide_by_pot(_logistic()[gates["output"]] * _tanh(15)[cell], 15)
        return self._projected(wrap_int16(output)), cell

    def _product(self, side: str, gate: str, x: Array) -> Ints:
        """Return ``x`` [batch, n] times weights of ``gate``, in the scale of the gate's sums.

        The product is first rounded to 8 bits, in the scale of its intermediate.  ``side``: which weights,
        "input" or "recurrent".
        """
        data = self.weights["input" if side == "input" else "output_state"]
        first = FIRST_INTERMEDIATE[gate]
        intermediate = self.intermediates[first + (1 if side == "input" else 2)]
        scale, zero_point = scale_of(intermediate), zero_point_of(intermediate)
        weights = gate_weight(self.weights, f"{side}_to_{{}}_weights", gate)
        product = RescaledProduct(weights, data.scale, data.zero_point, scale)
        rounded = np.clip(product(x) + zero_point, *INT8)
        to_sums = quantize_multiplier(scale / scale_of(self.intermediates[first]))
        return multiply_by_quantized_multiplier(rounded - zero_point, to_sums)

    def _projected(self, output: Ints) -> Ints:
        """Return the projection of ``output`` [batch, cells], quantized as the output state."""
        matrix, bias = self.weights["projection_weights"], self.weights["projection_bias"].array
        state = self.weights["output_state"]
        multiplier = quantize_multiplier(np.float32(float(matrix.scale) * 2.0**-15 / float(state.scale)))
        sums = output @ matrix.array.astype(np.int64).T + bias
        out = np.clip(multiply_by_quantized_multiplier_int64(sums, multiplier) + state.zero_point, *INT8)
        return np.clip(out, -self.proj_clip, self.proj_clip) if self.proj_clip > 0 else out


def _normalized(sums: Ints, coefficients: Weight, bias: Array) -> Ints:
    """Return the rows of ``sums`` [batch, cells], normalized, times ``coefficients`` plus ``bias``, in Q3.

    A normalized row has the mean 0 and the deviation 1.  The computation is in float32, whose rounding can
    make the variance of nearly equal numbers negative; such a row becomes 0.  ``bias`` is in units of the
    scale of the coefficients / 1024.
    """
    x, count = sums.astype(np.float32), np.float32(sums.shape[1])
    multiplier = quantize_multiplier(coefficients.scale)
    scale = np.float32(float(multiplier.mantissa) * 2.0 ** (int(multiplier.shift) - 31))
    # added one after the other, as in LiteRT: ``sum`` may round differently
    total, squares = (np.add.accumulate(part, axis=1)[:, -1:] for part in (x, x * x))
    mean = total / count
    variance = squares / count - mean * mean
    with np.errstate(invalid="ignore"):
        inverse = 1 / np.sqrt(np.where(variance == 0, np.float32(1e-8), variance))
        out = (x - mean) * inverse * coefficients.array.astype(np.float32) * scale
        out = round_half_away((out + bias.astype(np.float32) * (scale / np.float32(1024))) * np.float32(4096))
    return np.asarray(np.nan_to_num(np.clip(out, *INT16)), np.int64)


@cache
def _logistic() -> Ints:
    """Return the table of 1 / (1 + e^-x), truncated to Q0, for each int16 x in Q3; its index is x."""
    powers = np.exp(-_int16_numbers(12).astype(np.float64)).astype(np.float32)
    return _truncated_to_q0(1 / (1 + powers))


@cache
def _tanh(fraction_bits: int) -> Ints:
    """Return a table of tanh(x), truncated to Q0, for int16 x with ``fraction_bits``, at the index x."""
    return _truncated_to_q0(fdlibm_tanh(_int16_numbers(fraction_bits)))


def _int16_numbers(fraction_bits: int) -> Array:
    """Return float32[65536]: 0 to 32767, then -32768 to -1, each times 2^-``fraction_bits``."""
    return np.asarray(np.arange(1 << 16).astype(np.int16) * np.float32(2.0**-fraction_bits))


def _truncated_to_q0(x: Array) -> Ints:
    return np.asarray(np.clip(np.trunc(x * np.float32(1 << 15)), *INT16), np.int64)
