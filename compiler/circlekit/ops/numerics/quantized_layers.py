# SPDX-License-Identifier: Apache-2.0
"""What quantized layers with weights share: supported forms, parameters, and exact sums of products.

Sums of products of integers are computed in floats, as BLAS has no integer product: float32 holds them
exactly below 2^24, float64 below 2^53.  They are then the integers that LiteRT accumulates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import Ints
from circlekit.ops.quantization import dtype_limits, scale_of

PACKED_WEIGHTS = (DType.INT4, DType.INT2)
"""Weights that kernels get as int8."""

INTEGER_FORMS: dict[DType, tuple[DType, ...]] = {
    i8: (i8, *PACKED_WEIGHTS),
    u8: (u8,),
    i16: (i8, i16, *PACKED_WEIGHTS),
}
"""The dtypes of weights that have a kernel with integer data of a dtype."""


def is_dynamically_quantized(op: Op, data: Value, weights: Value) -> bool:
    """Whether float ``data`` meets integer ``weights`` (LiteRT's hybrid kernels).

    UnsupportedError for integer data whose pair of dtypes has no kernel.
    """
    if data.dtype is f32 and weights.dtype in (i8, u8, *PACKED_WEIGHTS):
        return True
    if weights.dtype not in INTEGER_FORMS.get(data.dtype, ()):
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


# -- exact sums --------------------------------------------------------------------------------


def exact_floats(bound: float) -> np.dtype[Any]:
    """The float type that holds all whole numbers up to ``bound``."""
    return np.dtype(np.float32 if bound < 1 << 24 else np.float64)


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
