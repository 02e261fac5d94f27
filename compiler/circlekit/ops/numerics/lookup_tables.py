# SPDX-License-Identifier: Apache-2.0
"""Functions of small integers by table: computed once for each integer there is, then looked up.

Source of the tables that LiteRT itself makes: TFLite kernels/internal/common.h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import round_half_away
from circlekit.ops.numerics.lookup import BLOCK
from circlekit.ops.quantization import dtype_limits, scale_of, zero_point_of

Function = Callable[[Array], Array]
Pairs = Callable[[Array, Array], Array]
Pair = tuple[np.floating[Any], np.floating[Any]]

# -- speed ---------------------------------------------------------------------------------------


def tabulated(x: Array, function: Function) -> Array:
    """``function`` of integers of 8 or 16 bits, which must depend on nothing but the element.

    It is computed of ``x``, or, where that is less work, of every integer of its dtype.
    """
    count = 1 << (8 * x.dtype.itemsize)
    if x.size <= count:
        return function(x)
    unsigned = x.dtype.str.replace("i", "u")
    return _looked_up(function(np.arange(count, dtype=unsigned).view(x.dtype)), x.view(unsigned))


def tabulated_pairs(x: Array, y: Array, function: Pairs) -> Array:
    """``function`` of integers of 8 or 16 bits that broadcast; 8 bits of them, or of all 65536 pairs."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    if x.dtype.itemsize > 1 or y.dtype.itemsize > 1:
        return _in_blocks(x, y, function, shape)
    if np.prod(shape, dtype=np.int64) <= 1 << 16:
        return function(x, y)
    bytes_ = np.arange(256, dtype=np.uint8)
    table = function(bytes_.view(x.dtype)[:, None], bytes_.view(y.dtype))
    return _looked_up(table.reshape(-1), (x.view(np.uint8).astype(np.uint16) << 8) | y.view(np.uint8))


def _in_blocks(x: Array, y: Array, function: Pairs, shape: tuple[int, ...]) -> Array:
    """``function`` of so many elements at a time that its wide scratch stays in the cache."""
    size = int(np.prod(shape, dtype=np.int64))
    if size <= BLOCK:
        return function(x, y)
    left, right = (np.broadcast_to(a, shape).reshape(-1) for a in (x, y))
    starts = range(0, size, BLOCK)
    parts = [function(left[s : s + BLOCK], right[s : s + BLOCK]) for s in starts]
    return np.concatenate(parts).reshape(shape)


def _looked_up(table: Array, indices: Array) -> Array:
    flat = np.ascontiguousarray(indices).reshape(-1)
    out = np.empty(flat.shape, table.dtype)
    for start in range(0, flat.size, BLOCK):
        part = slice(start, start + BLOCK)
        np.take(table, flat[part], out=out[part], mode="clip")  # no index is outside; clip is the fast mode
    return out.reshape(indices.shape)


def in_float64(function: Function) -> Function:
    """``function`` computed in float64, rounded once: as near to C's float functions as numpy comes."""
    return lambda x: np.asarray(function(x.astype(np.float64)), np.float32)


# -- LiteRT's tables -----------------------------------------------------------------------------


def real_function(x: Array, input: Value, output: Value, transform: Function) -> Array:
    """``transform`` of the real numbers that ``x`` stands for, quantized as ``output``: LiteRT's tables.

    8 bits: of every integer.  16 bits: of 513 of them, linear in between, and moved so that the largest
    error in between is halved.  ``transform`` is given and gives float32.
    """
    if x.dtype.itemsize == 1:
        return tabulated(x, lambda part: _table_of_8_bits(part, input, output, transform))
    table = _table_of_16_bits(input, output, transform)
    return tabulated(x, lambda part: interpolated(part, table))


def power_of_two(scale: np.float32) -> int | None:
    """The exponent, where ``scale`` is a power of two as exactly as TFLite asks for."""
    log = np.log(scale, dtype=np.float32) * (np.float32(1) / np.log(np.float32(2)))
    exponent = float(round_half_away(log))
    return int(exponent) if abs(float(log) - exponent) < 1e-3 else None


def limited(output: Value, x: Array) -> Array:
    """``x`` with the zero point of ``output``, limited to its dtype."""
    return np.asarray(np.clip(x + zero_point_of(output), *dtype_limits(output.dtype)), output.dtype.numpy)


def _table_of_8_bits(x: Array, input: Value, output: Value, transform: Function) -> Array:
    inverse = np.float32(1) / scale_of(output)
    real = scale_of(input) * (x.astype(np.int32) - zero_point_of(input)).astype(np.float32)
    rounded = round_half_away(transform(real) * inverse) + np.float32(zero_point_of(output))
    if x.dtype == np.uint8:
        rounded = np.where(rounded < 2.0**31, rounded, 0)  # as on x86; int8 saturates
    return np.asarray(np.clip(rounded, *dtype_limits(output.dtype)), output.dtype.numpy)


def _table_of_16_bits(input: Value, output: Value, transform: Function) -> Array:
    ends = (-(1 << 15), (1 << 15) - 1)
    least, most = (scale_of(input) * np.float32(n - zero_point_of(input)) for n in ends)
    low, high = (scale_of(output) * np.float32(n - zero_point_of(output)) for n in ends)
    return interpolation_table((least, most), (low, high), transform)


def interpolation_table(domain: Pair, image: Pair, transform: Function) -> Array:
    """The 513 int16 that stand for ``transform`` of ``domain``: int16 span both ranges.

    All is computed in the float type of ``domain``.
    """
    real = type(domain[0])
    least, most = domain
    step = (most - least) / real(512)
    inverse = real(1 << 16) / (image[1] - image[0])
    count = np.arange(513, dtype=real)
    at, middle = transform(least + count * step), transform(least + count[:512] * step + step / real(2))
    sample = round_half_away(at * inverse)
    between = round_half_away((at[1:] * inverse + sample[:512]) / real(2))
    bias = round_half_away((between - round_half_away(middle * inverse)) / real(2))
    last = round_half_away(transform(np.full(1, most)) * inverse)
    table = np.clip(np.concatenate([sample[:512] - bias, last]), real(-(1 << 15)), real((1 << 15) - 1))
    return np.where(np.isnan(table), 0, table).astype(np.int16)


def interpolated(x: Array, table: Array) -> Array:
    """What ``table`` says of int16 ``x``, linear between its entries."""
    index = 256 + (x >> 7)
    base = table[index]
    slope = (table[index + 1] - base).astype(np.int32)
    return np.asarray(base + ((slope * (x & 0x7F) + 64) >> 7), np.int16)
