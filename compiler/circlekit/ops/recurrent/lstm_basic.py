# SPDX-License-Identifier: Apache-2.0
"""The basic LSTM cell: one matrix for all gates, on floats or on uint8 with a 16-bit state.

LiteRT's one kernel rounds the integer sums as its matrix library does: halves up, after both steps.
Source: TFLite lstm (basic kernel), reference/lstm_cell.h.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.op import Op
from circlekit.ir.value import Array
from circlekit.ops.numerics.dynamic_quantization import integer_product
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_left_shift,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)
from circlekit.ops.numerics.fixed_point_functions import logistic, tanh
from circlekit.ops.quantization import scale_of, zero_point_of
from circlekit.ops.recurrent.lstm_cell import sigmoid

LIMITS = (-(1 << 15), (1 << 15) - 1)


def basic_cell(op: Op, args: Sequence[Array]) -> Sequence[Array]:
    """Activations, state, the joined operands and the sums of the gates.

    ``args``: input [batch, inputs], activations before [batch, cells], weights [4 cells, inputs + cells]
    (rows: input gate, candidate, forget gate, output gate), bias [4 cells], state before [batch, cells].
    """
    data, before, weights, bias, state = args
    joined = np.concatenate([data, before], axis=-1)
    if data.dtype == np.float32:
        sums = joined @ weights.T + bias
        entering, candidate, forget, leaving = np.split(sums, 4, axis=-1)
        new = sigmoid(entering) * np.tanh(candidate) + sigmoid(forget) * state
        return sigmoid(leaving) * np.tanh(new), new, joined, sums
    if data.dtype == np.uint8:
        return _integers(op, joined, weights, bias, state)
    raise UnsupportedError(f"a basic LSTM on {data.dtype} has no kernel")


def _integers(op: Op, joined: Array, weights: Array, bias: Array, state: Array) -> Sequence[Array]:
    """Gates in Q3, the state in Q4; activations stand for numbers from -1 to 1 (scale 1/128, zero 128)."""
    _, _, matrix, biases, _ = (v for v in op.inputs[:5])
    if matrix is None or biases is None:
        raise UnsupportedError("a basic LSTM needs weights and biases")
    centred = weights.astype(np.int32) - zero_point_of(matrix)
    products = integer_product(joined.astype(np.int32) - 128, centred.astype(np.float64)).astype(np.int64)
    by = quantize_multiplier(4096 * float(scale_of(biases)))
    sums = np.clip(_rescaled(wrap_int32(products + bias), by), *LIMITS)
    entering, candidate, forget, leaving = np.split(sums, 4, axis=-1)
    added = rounding_divide_by_pot(_mul(logistic(entering, 3, 16), tanh(candidate, 3, 16)), 4)
    new = np.clip(added + _mul(logistic(forget, 3, 16), state), *LIMITS)
    made = _mul(logistic(leaving, 3, 16), tanh(saturating_left_shift(new, 1, 16), 3, 16))
    out = np.clip(rounding_divide_by_pot(made, 8), -128, 127) + 128
    return out.astype(np.uint8), new.astype(np.int16), joined, sums.astype(np.int16)


def _mul(a: Array, b: Array) -> Ints:
    """Return the product in Q0 of fixed-point numbers of 16 bits in Q0."""
    return saturating_rounding_doubling_high_mul(a, b, 16)


def _rescaled(sums: Ints, by: QuantizedMultiplier) -> Ints:
    """``sums`` times ``by``, rounded after the product and after the shift, halves up both times."""
    left, right = max(int(by.shift), 0), max(-int(by.shift), 0)
    high = saturating_rounding_doubling_high_mul(wrap_int32(sums << left), by.mantissa)
    return np.asarray((high + ((1 << right) >> 1)) >> right)
