# SPDX-License-Identifier: Apache-2.0
"""Dynamic quantization: float rows are quantized to 8 bits, and multiplied by 8-bit weights exactly.

Source: TFLite portable_tensor_utils.cc (SymmetricQuantizeFloats, AsymmetricQuantizeFloats).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.numerics.fixed_point import round_half_away


class Rows(NamedTuple):
    """Quantized rows: real = scale * (data - offset).

    ``data``: int8 numbers as float32 [rows, n]; ``scale``: float32 [rows, 1]; ``offset``: float32 [rows, 1].
    """

    data: Array
    scale: Array
    offset: Array


def quantize_rows(x: Array, asymmetric: bool) -> Rows:
    """Quantize float32 ``x`` [rows, n] to 8 bits, each row over its own range."""
    return _asymmetric(x) if asymmetric else _symmetric(x)


def _symmetric(x: Array) -> Rows:
    reach = np.abs(x).max(axis=1, keepdims=True, initial=0).astype(np.float32)
    empty = reach == 0
    safe = np.where(empty, np.float32(1), reach)
    scaled = x * (np.float32(127) / safe)
    data = np.clip(round_half_away(scaled), -127, 127)
    scale = np.where(empty, np.float32(1), safe / np.float32(127))
    return Rows(np.where(empty, np.float32(0), data), scale, np.zeros_like(scale))


def _asymmetric(x: Array) -> Rows:
    low = np.minimum(x.min(axis=1, keepdims=True, initial=0), 0).astype(np.float64)
    high = np.maximum(x.max(axis=1, keepdims=True, initial=0), 0).astype(np.float64)
    empty = low == high
    wide = np.where(empty, 1.0, (high - low) / 255)
    from_low, from_high = -128 - low / wide, 127 - high / wide
    nearer = 128 + np.abs(low / wide) < 127 + np.abs(high / wide)
    zero = np.where(nearer, from_low, from_high)
    offset = np.where(empty, 0, np.clip(round_half_away(zero), -128, 127)).astype(np.float32)
    scale = wide.astype(np.float32)
    data = np.clip(round_half_away(offset + x * (np.float32(1) / scale)), -128, 127)
    return Rows(np.where(empty, np.float32(0), data), np.where(empty, np.float32(1), scale), offset)


def exact(matrix: Array) -> Array:
    """Convert 8-bit integers [outputs, n] to floats in which products with 9-bit integers are exact."""
    return matrix.astype(np.float32 if matrix.shape[-1] * 255 * 128 < 1 << 24 else np.float64)


def integer_product(a: Array, b: Array) -> Array:
    """Multiply rows ``a`` of 8-bit integers, or of their differences, by the transpose of ``b``, exactly."""
    if b.dtype.kind != "f":
        b = exact(b)
    return np.asarray(a.astype(b.dtype) @ b.T)


def quantized_product(rows: Rows, weights: Array, scale: np.float32 | Array) -> Array:
    """Multiply ``rows`` [rows, n] by the transpose of ``weights`` [outputs, n] (int8, or ``exact``): float32.

    ``scale``: of the weights, one or one for each output.
    """
    total = integer_product(rows.data - rows.offset, weights).astype(np.float32)
    return np.asarray(total * (rows.scale * scale))
