# SPDX-License-Identifier: Apache-2.0
"""LOGISTIC and TANH of int16 in fixed point, by one table of the sigmoid.

tanh(x) = 2 * sigmoid(2x) - 1.  Source: TFLite integer_ops/logistic.h, tanh.h, activations.cc.
"""

from __future__ import annotations

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import Ints
from circlekit.ops.numerics.lookup_tables import power_of_two
from circlekit.ops.quantization import scale_of, zero_point_of

STEPS = 24
"""Entries of the table for each 1.0."""


def _sigmoid_table() -> Ints:
    """sigmoid(i / 24) * 2^16 for i from 0 to 255, rounded, and capped below 1.

    Each entry is raised by half of the largest error of the straight line to the next one, which is
    |second derivative| / 8 * step^2: the line then errs to both sides.  That is how TFLite's is made.
    """
    sigmoid = 1 / (1 + np.exp(-np.arange(256) / STEPS))
    raised = sigmoid + sigmoid * (1 - sigmoid) * (2 * sigmoid - 1) / (16 * STEPS**2)
    table = np.floor(raised * 65536 + 0.5).astype(np.int64)
    table[-1] = 65535
    return table


_TABLE = _sigmoid_table()


def scaled_input(x: Array, input: Value, plain_shifts: tuple[int, ...]) -> Ints:
    """``x`` in units of 1 / (3 * 4096): shifted where the scale is 2^(shift - 12), else multiplied."""
    exponent = power_of_two(scale_of(input))
    if exponent is not None and exponent + 12 in plain_shifts:
        return x.astype(np.int64) * (3 << (exponent + 12))
    multiplier, shift = float(scale_of(input)) * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return np.asarray((x.astype(np.int64) * int(multiplier) + ((1 << shift) >> 1)) >> shift)


def interpolated(magnitude: Ints, bits: int, most: int) -> Ints:
    """The sigmoid * 2^(16 + bits) of numbers of ``bits`` bits behind the table's index; past it ``most``."""
    index = magnitude >> bits
    entry = np.minimum(index, 254)
    low = _TABLE[entry]
    part = (low << bits) + (magnitude & ((1 << bits) - 1)) * (_TABLE[entry + 1] - low)
    return np.asarray(np.where(index >= 255, most, part))


def logistic_16(x: Array, input: Value) -> Array:
    """The sigmoid of ``x``, in units of 2^-15."""
    scaled = scaled_input(x, input, (0,))
    result = interpolated(np.abs(scaled), 9, 0x7FFF << 10)
    result = np.where(scaled >= 0, result + 512, (1 << 25) - result + 511) >> 10
    return result.astype(np.int16)


def tanh_16(x: Array, input: Value) -> Array:
    """The tanh of ``x``, in units of 2^-15."""
    scaled = scaled_input(x, input, (0, 1))
    result = interpolated(np.abs(scaled), 8, 0xFFFF << 8)
    result = np.where(scaled >= 0, result - (1 << 23) + 128, (1 << 23) - result + 127) >> 8
    return result.astype(np.int16)


def need_fraction(op: Op, scale: float) -> None:
    """UnsupportedError unless the result is quantized by ``scale``, and int16 has no zero points."""
    value, result = op.inputs[0], op.output
    assert value is not None  # an operator of one operand
    if scale_of(result) != scale:
        raise UnsupportedError(
            f"{op.code} to a scale of {scale_of(result):.6g} has no kernel, {scale} is wanted"
        )
    if result.dtype.bits == 16 and (zero_point_of(value) or zero_point_of(result)):
        raise UnsupportedError(f"{op.code} of int16 has no kernel for zero points, 0 is wanted")
