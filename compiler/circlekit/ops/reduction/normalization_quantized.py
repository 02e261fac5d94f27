# SPDX-License-Identifier: Apache-2.0
"""Quantized normalizations along the last axis, in the fixed-point arithmetic of LiteRT's reference kernels.

Source: TFLite reference/softmax.h, log_softmax.h, l2normalization.h and their integer_ops.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.op import Op
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
)
from circlekit.ops.numerics.fixed_point_int32 import exp_of_negative, log_of_at_least_one
from circlekit.ops.numerics.lookup import BLOCK
from circlekit.ops.numerics.lookup_tables import interpolated, interpolation_table
from circlekit.ops.numerics.newton_raphson import (
    bit_length,
    inverse_square_root,
    note_high_mul,
    reciprocal,
    reciprocal_of,
)
from circlekit.ops.once import once
from circlekit.ops.quantization import dtype_limits, scale_of, zero_point_of

INPUT_BITS = 5
"""Integer bits of scaled differences from the maximum: e^-16 counts for nothing."""

SUM_BITS = 12
"""Integer bits of the sum of exponentials."""


def need_pair(op: Op, data: Value, output: Value, pairs: tuple[tuple[DType, DType], ...]) -> None:
    """UnsupportedError unless LiteRT has ``op`` from ``data`` to ``output``."""
    if (data.dtype, output.dtype) not in pairs:
        raise UnsupportedError(f"{op.code} from {data.dtype.short} to {output.dtype.short} has no kernel")


class Differences(NamedTuple):
    """What a distance d from 0 to 255 below the maximum is worth.

    ``scaled``: -d times the scale, Q5, 0 where d is too large; ``exps``: e to that power in Q0, 0 where d is
    too large; ``parts``: that in Q12; ``by`` and ``least``: the multiplier, and the largest -d.
    """

    scaled: Ints
    exps: Ints
    parts: Ints
    by: QuantizedMultiplier
    least: int


def differences(scale: float) -> Differences:
    """Of 8-bit numbers with ``scale``."""
    by = quantize_multiplier(min(scale * 2.0 ** (31 - INPUT_BITS), 2.0**31 - 1))
    least = -(((1 << INPUT_BITS) - 1) << (31 - INPUT_BITS) >> int(by.shift))
    d = -np.arange(256)
    counts = d >= least
    scaled = multiply_by_quantized_multiplier(np.where(counts, d, 0), by)
    exps = np.where(counts, exp_of_negative(scaled, INPUT_BITS), 0)
    return Differences(scaled, exps, rounding_divide_by_pot(exps, SUM_BITS), by, least)


def below_maximum(x: Array) -> Array:
    """How far each element lies below the greatest of its vector."""
    return np.asarray(np.subtract(x.max(axis=-1, keepdims=True), x, dtype=np.int32))


# -- SOFTMAX -----------------------------------------------------------------------------------


def softmax_of_8_bits(tape: Tape, op: Op, x: Array, input: Value, output: Value, beta: float) -> Array:
    """SOFTMAX of int8 or uint8: the result has the scale 2^-bits, whatever ``output`` says."""
    table = differences(float(np.float32(beta)) * float(scale_of(input)))
    tape.holds(table.scaled, table.exps, table.parts)
    out = tape.empty(x.shape, output.dtype.numpy)
    rows, results = tape.reshaped(x, (-1, x.shape[-1])), out.reshape(-1, x.shape[-1])
    step = max(1, min(BLOCK, tape.scratch // 8 // WIDE) // max(1, x.shape[-1]))

    def run() -> None:
        for first in range(0, len(rows), step):
            _softmax_rows(table, rows[first : first + step], results[first : first + step], output.dtype)

    tape.work(run)
    return out


FEW_ROWS = 8
"""Sums whose reciprocals numpy takes longer to begin with than Python takes to end."""

WIDE = 32
"""Bytes that an element takes on the way."""


def _softmax_rows(table: Differences, x: Array, out: Array, dtype: DType) -> None:
    least, most = dtype_limits(dtype)
    d = np.subtract(
        x.max(axis=-1, keepdims=True).view(np.uint8), x.view(np.uint8)
    )  # modulo 256, as it must be
    total = table.parts.take(d, mode="clip").sum(axis=-1, keepdims=True)
    if total.size <= FEW_ROWS:
        pairs = np.array([reciprocal_of(number) for number in total.ravel().tolist()])
        inverse, exponent = pairs.T.reshape(2, *total.shape)
    else:
        inverse, exponent = reciprocal(total)
    # 1 / total is inverse * 2^-bits in units of Q12: these bits, and those of the result, are shifted out
    exponent += SUM_BITS - dtype.bits
    exps = table.exps.take(d, mode="clip")
    note_high_mul(NOW, exps, inverse, exps)
    exps += (np.int64(1) << exponent) >> 1
    exps >>= exponent
    exps += least
    np.clip(exps, least, most, out=out, casting="unsafe")


def tables_of_16_bits() -> tuple[Array, Array]:
    """LiteRT's tables of e^x from -10 to 0 and of 1 / (1 + x) from 0 to 1."""
    step, unit = np.float64(1 / 65535), np.float64(2 / 65535)
    image = (unit * -32768, unit * 32767)
    exps = interpolation_table((np.float64(10 / 65535) * -65535, np.float64(0)), image, np.exp)
    return exps, interpolation_table((np.float64(0), step * 65535), image, lambda v: 1 / (1 + v))


def softmax_of_16_bits(op: Op, x: Array, input: Value, beta: float) -> Array:
    """SOFTMAX of int16."""
    exps, inverses = once(op, "tables", tables_of_16_bits)
    product = float(np.float32(scale_of(input) * np.float32(beta)))
    by = quantize_multiplier(product / (10.0 / 65535.0))
    rows, out = x.reshape(-1, x.shape[-1]), np.empty(x.shape, np.int16)
    results = out.reshape(rows.shape)
    step = max(1, SEVERAL // max(1, x.shape[-1]))
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        results[first : first + step] = _wide_softmax_rows(part, by, exps, inverses)
    return out


SEVERAL = 1 << 10
"""Elements that are computed at a time, some numbers of eight bytes for each."""


def _wide_softmax_rows(x: Array, by: QuantizedMultiplier, exps: Array, inverses: Array) -> Array:
    scaled = multiply_by_quantized_multiplier(-below_maximum(x).astype(np.int64), by) + 32767
    powers = interpolated(np.clip(scaled, -32768, 32767).astype(np.int16), exps).astype(np.int64)
    total = powers.sum(axis=-1, keepdims=True)
    headroom = 32 - bit_length(total)
    shifted = ((total << (headroom - 1)) + (1 << 13)) >> 14
    centred = np.clip(shifted - ((1 << 15) + (1 << 16)), -32768, 32767).astype(np.int16)
    right = 31 - headroom
    out = (powers * interpolated(centred, inverses) + (np.int64(1) << (right - 1))) >> right
    return np.asarray(np.clip(out, 0, 32767), np.int16)


# -- LOG_SOFTMAX -------------------------------------------------------------------------------


def log_softmax_of_8_bits(op: Op, x: Array, input: Value) -> Array:
    """LOG_SOFTMAX of int8 or uint8: the result has the scale 1 / 16, and 0 is its greatest integer."""
    table = once(op, "differences", lambda: differences(float(scale_of(input))))
    d = below_maximum(x)
    total = table.parts[d].sum(axis=-1, keepdims=True)
    log = log_of_at_least_one(total, SUM_BITS, INPUT_BITS)
    back = quantize_multiplier(2.0 ** (31 - int(table.by.shift)) / float(table.by.mantissa))
    least = np.maximum(table.least - 1, multiply_by_quantized_multiplier(log - (1 << 31), back))
    low, high = dtype_limits(input.dtype)
    # differences up to ``least`` are scaled even where they are too large for the sum
    scaled = multiply_by_quantized_multiplier(-np.arange(256), table.by)[d]
    out = rounding_divide_by_pot(scaled - log, 31 - INPUT_BITS - 4) + high
    return np.asarray(np.clip(np.where(-d > least, out, low), low, high), x.dtype)


# -- L2_NORMALIZATION --------------------------------------------------------------------------


def l2_normalized(x: Array, input: Value) -> Array:
    """L2_NORMALIZATION of int8 or uint8: the result has the scale 1 / 128, and the zero point 0 or 128."""
    shifted = x.astype(np.int64) - zero_point_of(input)
    by = inverse_square_root(np.square(shifted).sum(axis=-1, keepdims=True))
    if input.dtype is u8:
        out = multiply_by_quantized_multiplier(128 * shifted, by) + 128
    else:
        out = multiply_by_quantized_multiplier(shifted, QuantizedMultiplier(by.mantissa, by.shift + 7))
    return np.asarray(np.clip(out, *dtype_limits(input.dtype)), x.dtype)


SOFTMAX_PAIRS = ((i8, i8), (i8, i16), (u8, u8), (u8, i16), (i16, i16))
BYTES = ((i8, i8), (u8, u8))
