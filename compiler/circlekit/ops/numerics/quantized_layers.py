# SPDX-License-Identifier: Apache-2.0
"""Layers with weights on quantized numbers: which form it is, exact sums, and what becomes of them.

A sum of products is computed by float matrix products, in float32 where it stays below 2^24 and in
float64 below 2^53, so it is the integer that LiteRT accumulates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import Ints, quantize_multiplier, quantized_activation_range
from circlekit.ops.numerics.kernel_flavor import rounds_up
from circlekit.ops.numerics.requantize import Chosen, fixed_point
from circlekit.ops.numerics.stores import Span, Store
from circlekit.ops.quantization import scale_of, zero_point_of

PACKED_WEIGHTS = (DType.INT4, DType.INT2)
"""Weights that kernels get as int8."""

INTEGER_FORMS: dict[DType, tuple[DType, ...]] = {
    i8: (i8, *PACKED_WEIGHTS),
    u8: (u8,),
    i16: (i8, i16, *PACKED_WEIGHTS),
}
"""The weights that data of an integer type can meet."""


def need_form(op: Op, data: Value, weights: Value) -> bool:
    """Whether float ``data`` meets integer ``weights`` (hybrid); UnsupportedError where no form fits."""
    if data.dtype is f32 and weights.dtype in (i8, u8, *PACKED_WEIGHTS):
        return True
    if weights.dtype not in INTEGER_FORMS.get(data.dtype, ()):
        pair = f"{data.dtype.short} by {weights.dtype.short} weights"
        raise UnsupportedError(f"{op.code} on {pair} has no kernel")
    return False


# -- parameters --------------------------------------------------------------------------------


def channel_scales(weights: Value, channels: int) -> Array:
    """The scales of ``weights`` as float32: one, or one for each of ``channels``; ModelError for others."""
    scale_of(weights)
    assert weights.quantization is not None  # it has a scale
    scales: Array = weights.quantization.scale
    if scales.size not in (1, channels):
        raise ModelError(f"%{weights.name} has {scales.size} scales, 1 or {channels} are wanted")
    return scales


def effective_scale(data: Value, weights: Value, output: Value, channels: int, rounded: bool) -> Array:
    """What one unit of the sums is in units of the result, float64: a scalar, or one per channel.

    ``rounded``: the product of both scales is rounded to float32 first.
    """
    scales = channel_scales(weights, channels)
    if rounded:
        product = (scale_of(data) * scales).astype(np.float64)
    else:
        product = np.float64(scale_of(data)) * scales.astype(np.float64)
    factors: Array = product / np.float64(scale_of(output))
    return factors.reshape(()) if factors.size == 1 else factors


def weight_zeros(weights: Value, channels: int) -> Array:
    """Zero points of ``weights``, float32: signed weights are symmetric, as LiteRT takes them."""
    quantization = weights.quantization
    if weights.dtype is not u8 or quantization is None or not quantization.zero_point.any():
        return np.zeros((), np.float32)
    zeros = quantization.zero_point.astype(np.float32)
    if zeros.size not in (1, channels):
        raise ModelError(f"%{weights.name} has {zeros.size} zero points, 1 or {channels} are wanted")
    return zeros.reshape(()) if zeros.size == 1 else zeros


def reach(value: Value) -> int:
    """The greatest |x - zero point| of data quantized as ``value``."""
    bits, zero = value.dtype.bits, zero_point_of(value)
    least = 0 if value.dtype is u8 else -(1 << (bits - 1))
    return max(zero - least, least + (1 << bits) - 1 - zero)


def exact_weights(weights: Array, zeros: Array, axis: int, reach: int) -> tuple[Array, float]:
    """``weights`` minus ``zeros`` (along ``axis``, the output channels) as floats, and a bound of sums.

    The floats are wide enough for all sums of products with numbers up to ``reach`` to be exact.
    """
    shape = [1] * weights.ndim
    shape[axis] = -1
    spread = zeros.reshape(shape) if zeros.ndim else zeros
    floats = weights.astype(np.float32)
    if zeros.any():
        floats -= spread
    others = tuple(a for a in range(weights.ndim) if a != axis % weights.ndim)
    # rounding makes the float32 sum of the magnitudes uncertain by less than a percent
    magnitudes = np.abs(floats) if zeros.any() else _magnitudes(weights)
    bound = 1.01 * reach * float(magnitudes.sum(axis=others, dtype=np.float32).max(initial=0))
    return (floats, bound) if bound < 1 << 24 else (floats.astype(np.float64), bound)


def _magnitudes(integers: Array) -> Array:
    """The magnitudes in as few bytes: that of the least integer needs the sign's bit."""
    return np.asarray(np.abs(integers).view(integers.dtype.str.replace("i", "u")))


MOST = {i8: 128, u8: 255, i16: 1 << 15}
"""The greatest magnitude of a stored integer."""


def exact_floats(bound: float) -> np.dtype[Any]:
    """The floats that hold all whole numbers up to ``bound``."""
    return np.dtype(np.float32 if bound < 1 << 24 else np.float64)


def _along(vector: Array, axis: int, rank: int) -> Array:
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape) if vector.ndim else vector


class Sums(NamedTuple):
    """Of the weights of each output channel, int64; and the greatest sum of their magnitudes."""

    weights: Ints
    magnitudes: int


def sums_of(weights: Array, zeros: Array, axis: int) -> Sums:
    """``zeros``: the zero points of ``weights``, along ``axis``."""
    units, whole = weights.swapaxes(0, axis), zeros.astype(np.int64)
    depth, others = weights.size // max(len(units), 1), tuple(range(1, weights.ndim))
    totals = units.sum(axis=others, dtype=np.int64) - whole * depth
    most, step = 0, max(1, (SEVERAL >> 3 if zeros.any() else SEVERAL) // max(depth, 1))
    for first in range(0, len(units), step):
        part = units[first : first + step]
        if zeros.any():
            spread = _along(whole[first : first + step] if whole.ndim else whole, 0, part.ndim)
            magnitudes = np.abs(part - spread)
        else:
            magnitudes = _magnitudes(part)
        most = max(most, int(magnitudes.sum(axis=others, dtype=np.int64).max(initial=0)))
    return Sums(totals, most)


SEVERAL = 1 << 13
"""Weights that are looked at at a time, if they stay in eight bits on the way."""


def moved_bias(bias: Array | None, zero: int, sums: Sums) -> Ints | None:
    """What to add to sums of products with data as it is stored, whose zero point is ``zero``."""
    if not zero:
        return wide_bias(bias)
    return np.asarray((0 if bias is None else bias.reshape(-1).astype(np.int64)) - zero * sums.weights)


# -- what becomes of the sums ------------------------------------------------------------------


def wide_bias(bias: Array | None) -> Ints | None:
    return None if bias is None else bias.reshape(-1).astype(np.int64)


def has_wide_sums(op: Any, data: Value, bias: Array | None) -> bool:
    """Whether sums are int64: int16 data, unless ``quantized_bias_type`` says int32."""
    if bias is not None and bias.dtype.kind != "i":
        raise UnsupportedError(f"{op.code} on {data.dtype.short} with a bias of {bias.dtype} has no kernel")
    return data.dtype is i16 and getattr(op, "quantized_bias_type", f32) is not i32


def fixed_point_end(
    op: Any,
    data: Value,
    weights: Value,
    bias: Ints | None,
    bound: float,
    channels: int,
    act: Activation,
    wide: bool,
    optimized: Chosen,
) -> Store:
    """What LiteRT's convolutions do with their sums; ``wide``: these are int64.

    ``optimized``: LiteRT has an optimized kernel for it that rounds differently, for these channels.

    The product of the scales is a float32 for uint8 data and int16 weights.  The latter are circle's
    own: ONE's interpreter then leaves out the least int16.
    """
    low, high = quantized_activation_range(act, op.output)
    if weights.dtype is i16:
        low = max(low, 1 - (1 << 15))
    rounded = data.dtype is u8 or weights.dtype is i16
    by = quantize_multiplier(effective_scale(data, weights, op.output, channels, rounded))
    span = Span(zero_point_of(op.output), (low, high), bound)
    return fixed_point(by, bias, span, wide, optimized if rounds_up() else False)
