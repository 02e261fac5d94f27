# SPDX-License-Identifier: Apache-2.0
"""A step of an LSTM on 8-bit inputs, weights and outputs whose products are rounded to 8 bits: "8x8_8".

The operator carries twelve ``intermediates``, three for each gate: the scale of its sums, and scale and zero
point of what the input and the last output give to it.  Source: TFLite lstm.cc, lstm_eval.cc (8x8_8) and
portable_tensor_utils.cc, whose deeds these are, too: the input gate is one minus the forget gate even where
there are weights for it, peepholes count for nothing, and what the last output gives to the output gate
goes through numbers of other gates, a shift for a mantissa, which leaves nothing of it.
"""

from __future__ import annotations

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
    multiply_by_quantized_multiplier_int64,
    quantize_multiplier,
    round_half_away,
    rounding_divide_by_pot,
)
from circlekit.ops.numerics.float_functions import fdlibm_tanh
from circlekit.ops.quantization import scale_of, zero_point_of
from circlekit.ops.recurrent.lstm_integer import LIMITS, Named

if TYPE_CHECKING:
    from circlekit.ops.recurrent.lstm import FullLstm

INTERMEDIATES = 12
FIRST = {"forget": 3, "cell": 6, "output": 9}
"""The first of the three intermediates of each gate."""


@dataclass(eq=False, repr=False)
class Share:
    """What one side, the input or the last output, gives to a gate: 8-bit products, ``into`` its sums."""

    products: Ints
    zero: int
    into: QuantizedMultiplier

    @property
    def scaled(self) -> Ints:
        return multiply_by_quantized_multiplier(self.products - self.zero, self.into)


def run_integer8_lstm(
    op: FullLstm, operands: Named, x: Array, hidden: Array, cell: Array
) -> tuple[Array, Array, Array]:
    """Outputs [1, batch, outputs] (int8), and the new hidden (int8) and cell states (int16)."""
    _need_all(op, operands)
    values = [v for v in op.extra["intermediates"] if v is not None]
    if len(values) != INTERMEDIATES:
        raise ModelError(
            f"{op.code} lacks {INTERMEDIATES - len(values)} of its {INTERMEDIATES} intermediates"
        )
    gates = {}
    for gate in FIRST:
        driven = _share(operands, "input", gate, values, x[0])
        recurrent = _share(operands, "recurrent", gate, values, hidden)
        sums = np.clip(recurrent.scaled + driven.scaled, *LIMITS)
        gates[gate] = _normalized(
            sums, *operands[f"{gate}_layer_norm_coefficients"], operands[f"{gate}_gate_bias"][1]
        )
    forget = _logistic()[gates["forget"]]
    kept = rounding_divide_by_pot(forget * cell, 15)
    added = rounding_divide_by_pot((LIMITS[1] - forget) * _tanh(12)[gates["cell"]], 15)
    cells = np.clip(_as16(kept) + _as16(added), *LIMITS)
    if 0 < op.cell_clip < 1:
        limit = int(np.float32(op.cell_clip) * np.float32(1 << 15))
        cells = np.clip(cells, -limit, limit)
    made = _as16(rounding_divide_by_pot(_logistic()[gates["output"]] * _tanh(15)[cells], 15))
    state = _projected(op, operands, made).astype(np.int8)
    return state[None], state, cells.astype(np.int16)


def _need_all(op: FullLstm, operands: Named) -> None:
    """A sentence where LiteRT would read what is not there, or stop."""
    wanted = [f"{gate}_layer_norm_coefficients" for gate in FIRST] + ["projection_weights", "projection_bias"]
    missing = [name for name in wanted if name not in operands]
    if missing:
        raise UnsupportedError(
            f"{op.code} with {INTERMEDIATES} intermediates has no kernel, nor has LiteRT, "
            f"without {', '.join(missing)}"
        )
    scale = scale_of(operands["cell_state"][0])
    if scale != np.float32(2**-15):
        raise ModelError(f"the scale of the cell state is {scale}, 2^-15 is wanted")


def _share(operands: Named, side: str, gate: str, values: list[Value], x: Array) -> Share:
    """``x`` [batch, n] times the weights of ``side``; their own scale and zero point from ``values``."""
    matrix, weights = operands[f"{side}_to_{gate}_weights"]
    data = operands["input" if side == "input" else "output_state"][0]
    first = FIRST[gate]
    own = values[first + (1 if side == "input" else 2)]
    zero = zero_point_of(own)
    into = quantize_multiplier(scale_of(own) / scale_of(values[first]))
    if (side, gate) == ("recurrent", "output"):  # where LiteRT takes numbers of other gates
        forget = quantize_multiplier(scale_of(values[5]) / scale_of(values[3]))
        zero, into = zero_point_of(values[7]), QuantizedMultiplier(forget.shift, into.shift)
    sums = integer_product(x.astype(np.int32) - zero_point_of(data), exact(weights)).astype(np.int64)
    by = quantize_multiplier(scale_of(matrix) * scale_of(data) / scale_of(own))
    return Share(np.clip(multiply_by_quantized_multiplier(sums, by) + zero, -128, 127), zero, into)


def _normalized(sums: Ints, coefficients: Value, weights: Array, bias: Array) -> Ints:
    """Rows with mean 0 and deviation 1, times the coefficients, plus the bias; in Q3, by way of float32.

    The variance of numbers that are the same can come out negative; 0 is what is left of such a row.
    """
    x, count = sums.astype(np.float32), np.float32(sums.shape[1])
    by = quantize_multiplier(scale_of(coefficients))
    scale = np.float32(float(by.mantissa) * 2.0 ** (int(by.shift) - 31))
    total, squares = (np.add.accumulate(part, axis=1)[:, -1:] for part in (x, x * x))
    mean = total / count
    variance = squares / count - mean * mean
    with np.errstate(invalid="ignore"):
        inverse = 1 / np.sqrt(np.where(variance == 0, np.float32(1e-8), variance))
        out = (x - mean) * inverse * weights.astype(np.float32) * scale
        out = round_half_away((out + bias.astype(np.float32) * (scale / np.float32(1024))) * np.float32(4096))
    return np.asarray(np.nan_to_num(np.clip(out, *LIMITS)), np.int64)


@cache
def _logistic() -> Ints:
    """1 / (1 + e^-x) in Q0 of x in Q3, cut off; negative x by negative indices."""
    powers = np.exp(-_numbers(12).astype(np.float64)).astype(np.float32)
    return _whole(1 / (1 + powers))


@cache
def _tanh(fraction_bits: int) -> Ints:
    """The tangent in Q0 of x with so many fraction bits, cut off; negative x by negative indices."""
    return _whole(fdlibm_tanh(_numbers(fraction_bits)))


def _numbers(fraction_bits: int) -> Array:
    """All int16 numbers, 0 first, -1 last."""
    return np.asarray(np.arange(1 << 16).astype(np.int16) * np.float32(2.0**-fraction_bits))


def _whole(x: Array) -> Ints:
    return np.asarray(np.clip(np.trunc(x * np.float32(1 << 15)), *LIMITS), np.int64)


def _projected(op: FullLstm, operands: Named, made: Ints) -> Ints:
    (matrix, weights), bias = operands["projection_weights"], operands["projection_bias"][1]
    state = operands["output_state"][0]
    by = quantize_multiplier(np.float32(float(scale_of(matrix)) * 2.0**-15 / float(scale_of(state))))
    sums = made @ weights.astype(np.int64).T + bias
    out = np.clip(multiply_by_quantized_multiplier_int64(sums, by) + zero_point_of(state), -128, 127)
    limit = int(np.clip(np.float32(op.proj_clip) / scale_of(op.results[0]), -128, 127))
    return np.clip(out, -limit, limit) if limit > 0 else out


def _as16(x: Ints) -> Ints:
    return x.astype(np.int16).astype(np.int64)
