# SPDX-License-Identifier: Apache-2.0
"""What quantized layers with weights share: dynamic quantization, parameters, and exact sums of products.

Sums of products of integers are computed in floats, as BLAS has no integer product: float32 holds them
exactly below 2^24, float64 below 2^53.  They are then the integers that LiteRT accumulates.
Source of dynamic quantization: TFLite portable_tensor_utils.cc (SymmetricQuantizeFloats,
AsymmetricQuantizeFloats).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import Ints, round_half_away
from circlekit.ops.quantization import dtype_limits, scale_of


class Rows(NamedTuple):
    """Quantized rows: real = scale * (data - offset).

    ``data``: int8 numbers as float32 [rows, n]; ``scale``: float32 [rows, 1]; ``offset``: float32 [rows, 1].
    """

    data: Array
    scale: Array
    offset: Array


def quantize_rows(x: Array, asymmetric: bool) -> Rows:
    """Quantize float32 ``x`` [rows, n] to 8 bits, each row over its own range."""
    if not asymmetric:
        reach = np.abs(x).max(axis=1, keepdims=True, initial=0).astype(np.float32)
        empty = reach == 0
        safe = np.where(empty, np.float32(1), reach)
        data = np.clip(round_half_away(x * (np.float32(127) / safe)), -127, 127)
        scale = np.where(empty, np.float32(1), safe / np.float32(127))
        return Rows(np.where(empty, np.float32(0), data), scale, np.zeros_like(scale))
    low = np.minimum(x.min(axis=1, keepdims=True, initial=0), 0).astype(np.float64)
    high = np.maximum(x.max(axis=1, keepdims=True, initial=0), 0).astype(np.float64)
    empty = low == high
    wide = np.where(empty, 1.0, (high - low) / 255)
    from_low, from_high = -128 - low / wide, 127 - high / wide
    zero = np.where(128 + np.abs(low / wide) < 127 + np.abs(high / wide), from_low, from_high)
    offset = np.where(empty, 0, np.clip(round_half_away(zero), -128, 127)).astype(np.float32)
    scale = wide.astype(np.float32)  # 1 where empty
    data = np.clip(round_half_away(offset + x * (np.float32(1) / scale)), -128, 127)
    return Rows(np.where(empty, np.float32(0), data), scale, offset)


def exact_floats(bound: float) -> np.dtype[Any]:
    """Return the float type that holds all whole numbers up to ``bound``."""
    return np.dtype(np.float32 if bound < 1 << 24 else np.float64)


def exact(matrix: Array) -> Array:
    """Convert 8-bit integers [outputs, n] to floats in which products with 9-bit integers are exact."""
    return matrix.astype(exact_floats(matrix.shape[-1] * 255 * 128))


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


PACKED_WEIGHTS = (DType.INT4, DType.INT2)
"""Weights that kernels get as int8."""


def is_dynamically_quantized(op: Op, data: Value, weights: Value) -> bool:
    """Whether float ``data`` meets integer ``weights`` (LiteRT's hybrid kernels).

    Raises UnsupportedError for integer data whose pair of dtypes has no kernel.
    """
    if data.dtype is f32 and weights.dtype in (i8, u8, *PACKED_WEIGHTS):
        return True
    forms = {i8: (i8, *PACKED_WEIGHTS), u8: (u8,), i16: (i8, i16, *PACKED_WEIGHTS)}
    if weights.dtype not in forms.get(data.dtype, ()):
        pair = f"{data.dtype.short} by {weights.dtype.short} weights"
        raise UnsupportedError(f"{op.code} on {pair} has no kernel")
    return False


# -- parameters --------------------------------------------------------------------------------


def channel_scales(weights: Value, channels: int) -> Array:
    """Return the scales of ``weights``, float32: one, or one per channel; ModelError for another count."""
    scale_of(weights)
    assert weights.quantization is not None  # it has a scale
    scales: Array = weights.quantization.scale
    if scales.size not in (1, channels):
        raise ModelError(f"%{weights.name} has {scales.size} scales, expected 1 or {channels}")
    return scales


def effective_scale(data: Value, weights: Value, output: Value, channels: int, rounded: bool) -> Array:
    """Return the scale from sums of products to the result, float64: a scalar, or one per channel.

    ``rounded``: the product of both scales is rounded to float32 first.
    """
    scales = channel_scales(weights, channels)
    if rounded:
        product = (scale_of(data) * scales).astype(np.float64)
    else:
        product = np.float64(scale_of(data)) * scales.astype(np.float64)
    factors: Array = product / np.float64(scale_of(output))
    return factors.reshape(()) if factors.size == 1 else factors


def weight_zero_points(weights: Value, channels: int) -> Ints:
    """Return the zero points of ``weights``, a scalar or one per channel.

    Signed weights have none: LiteRT takes them as symmetric, whatever the file says.
    """
    quantization = weights.quantization
    if weights.dtype is not u8 or quantization is None or not quantization.zero_point.any():
        return np.zeros((), np.int64)
    zeros = quantization.zero_point.astype(np.int64)
    if zeros.size not in (1, channels):
        raise ModelError(f"%{weights.name} has {zeros.size} zero points, expected 1 or {channels}")
    return zeros.reshape(()) if zeros.size == 1 else zeros


def integer_bias(op: Op, data: Value, bias: Array | None) -> Ints | None:
    """Return the bias of a layer on integer ``data`` as int64; UnsupportedError for a float one."""
    if bias is None:
        return None
    if bias.dtype.kind != "i":
        raise UnsupportedError(f"{op.code} on {data.dtype.short} with a bias of {bias.dtype} has no kernel")
    return bias.reshape(-1).astype(np.int64)


def has_int64_sums(op: Any, data: Value) -> bool:
    """Whether sums are int64: of int16 data, unless ``quantized_bias_type`` says int32."""
    return data.dtype is i16 and getattr(op, "quantized_bias_type", f32) is not i32


def greatest_magnitude(value: Value, zero_point: int) -> int:
    """The greatest |x - zero_point| of integers of the dtype of ``value``."""
    least, greatest = dtype_limits(value.dtype)
    return max(zero_point - least, greatest - zero_point)


def centered_weights(weights: Array, zero_points: Ints, axis: int, data_magnitude: float) -> Array:
    """Return integer ``weights`` minus their zero points, as floats that make sums of products exact.

    ``zero_points``: a scalar, or one per index of ``axis``, that of the output channels.
    ``data_magnitude``: no number that the weights are multiplied with is greater.
    """
    channels = np.moveaxis(weights, axis, -1) - zero_points.astype(np.int32)
    others = tuple(range(weights.ndim - 1))
    sums = np.abs(channels).sum(axis=others, dtype=np.int64)
    bound = data_magnitude * float(sums.max(initial=0))
    return np.moveaxis(channels, -1, axis).astype(exact_floats(bound), order="C")
