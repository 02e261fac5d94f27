# SPDX-License-Identifier: Apache-2.0
"""Parts that quantized layers share: dynamic quantization, scales and zero points, exact sums of products.

In dynamic quantization, the data are floats and the weights are integers: the kernel quantizes the data
itself before it multiplies.  LiteRT calls such kernels hybrid.  Sums of products of integers are computed in
floats, because BLAS has no integer product: float32 is exact below 2^24, float64 below 2^53.
Source: TFLite portable_tensor_utils.cc (SymmetricQuantizeFloats, AsymmetricQuantizeFloats).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from circlekit.errors import ModelError, UnsupportedError, counted
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.fixed_point import Ints, round_half_away
from circlekit.ops.quantized_values import dtype_limits, quantization_of, scale_of


class Rows(NamedTuple):
    """Quantized rows: real = scale * (data - offset).

    ``data``: whole numbers from -128 to 127, float32 [rows, n].  ``scale``: float32 [rows, 1].  ``offset``:
    the zero points, float32 [rows, 1].
    """

    data: Array
    scale: Array
    offset: Array


def as_matrix(x: Array) -> Array:
    """Return ``x`` [..., n] as [rows, n]; n may be 0, for which a reshape to [-1, n] would fail."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def quantize_rows(x: Array, asymmetric: bool) -> Rows:
    """Return float32 ``x`` [rows, n] quantized to 8 bits, each row by its own range.

    If ``asymmetric``, the integers are from -128 to 127; else they are from -127 to 127, and the offset is 0.
    A row of zeros gets the scale 1 and the offset 0.  A row with an infinite number gets an infinite scale.
    Its infinite numbers become the lowest integer, because infinity times 1 / infinity is NaN; this is so in
    LiteRT on x86, too.  A row with NaN gets the scale NaN.
    """
    if not asymmetric:
        largest = np.abs(x).max(axis=1, keepdims=True, initial=0).astype(np.float32)
        is_zero = largest == 0
        divisor = np.where(is_zero, np.float32(1), largest)
        data = _clipped(round_half_away(x * (np.float32(127) / divisor)), -127)
        scale = np.where(is_zero, np.float32(1), divisor / np.float32(127))
        return Rows(np.where(is_zero, np.float32(0), data), scale, np.zeros_like(scale))
    low, high = x.min(axis=1, keepdims=True, initial=0), x.max(axis=1, keepdims=True, initial=0)
    is_zero = low == high
    step = np.where(is_zero, 1.0, (high - low).astype(np.float64) / 255)  # the difference is float32
    # the zero point for which ``low`` is stored as -128, or ``high`` as 127: take the one with less rounding
    from_low, from_high = -128 - low / step, 127 - high / step
    zero = np.where(128 + np.abs(low / step) < 127 + np.abs(high / step), from_low, from_high)
    offset = np.where(is_zero, 0, _clipped(round_half_away(zero), -128)).astype(np.float32)
    scale = step.astype(np.float32)
    data = _clipped(round_half_away(x * (np.float32(1) / scale)) + offset, -128)
    return Rows(np.where(is_zero, np.float32(0), data), scale, offset)


def _clipped(x: Array, lowest: int) -> Array:
    """Return ``x`` clipped to ``lowest`` ... 127; NaN becomes ``lowest``."""
    return np.minimum(np.fmax(x, lowest), 127)


def exact_float_dtype(bound: float) -> np.dtype[Any]:
    """Return float32 if ``bound`` is below 2^24, where float32 holds all whole numbers; else float64."""
    return np.dtype(np.float32 if bound < 1 << 24 else np.float64)


LARGEST_HYBRID_PRODUCT = 255 * 128
"""The largest magnitude of the product of an int8 weight and a difference of 8-bit integers."""


def to_exact_floats(matrix: Array) -> Array:
    """Return int8 numbers [outputs, n] in the float dtype in which ``integer_product`` is exact."""
    return matrix.astype(exact_float_dtype(matrix.shape[-1] * LARGEST_HYBRID_PRODUCT))


def integer_product(a: Array, b: Array) -> Array:
    """Return ``a`` [rows, n] times the transpose of ``b`` [outputs, n], exactly, as floats.

    ``a``: 8-bit integers or differences of them.  ``b``: int8 (products with uint8 would not be exact), or
    whole numbers in a float dtype in which the sums are exact, such as a result of ``to_exact_floats``.
    """
    if b.dtype.kind != "f":
        b = to_exact_floats(b)
    return np.asarray(a.astype(b.dtype) @ b.T)


def quantized_product(rows: Rows, weights: Array, scale: np.float32 | Array) -> Array:
    """Return ``rows`` [rows, n] times the transpose of quantized ``weights`` [outputs, n], as float32.

    ``weights``: as ``b`` of ``integer_product``.  ``scale``: the scale of the weights, or the scales
    [outputs].
    """
    total = integer_product(rows.data - rows.offset, weights).astype(np.float32)
    return np.asarray(total * (rows.scale * scale))


PACKED_WEIGHTS = (DType.INT4, DType.INT2)
"""The packed dtypes of weights, which kernels get as int8."""


def is_dynamically_quantized(op: Op, data: Value, weights: Value) -> bool:
    """Return True for float32 ``data`` (LiteRT's hybrid kernels), False for integer ``data``.

    ``weights`` are integers.  Raise UnsupportedError if there is no kernel for these dtypes.
    """
    if data.dtype is f32 and weights.dtype in (i8, u8, *PACKED_WEIGHTS):
        return True
    weight_dtypes = {i8: (i8, *PACKED_WEIGHTS), u8: (u8,), i16: (i8, i16, *PACKED_WEIGHTS)}
    if weights.dtype not in weight_dtypes.get(data.dtype, ()):
        pair = f"{data.dtype.short} by {weights.dtype.short} weights"
        raise UnsupportedError(f"{op.code} on {pair} has no kernel")
    return False


# -- parameters --------------------------------------------------------------------------------


def channel_scales(weights: Value, channels: int) -> Array:
    """Return the scales of ``weights``, float32 [1] or [channels]; raise ModelError for any other count."""
    scales: Array = quantization_of(weights).scale
    if scales.size not in (1, channels):
        raise ModelError(f"%{weights.name} has {counted(scales.size, 'scale')}, expected 1 or {channels}")
    return scales


def effective_scale(data: Value, weights: Value, output: Value, channels: int, rounded: bool) -> Array:
    """Return scale of the data * scale of the weights / scale of the output, as float64.

    The result is a scalar, or has one element per channel.  ``rounded``: whether the product of the first two
    scales is rounded to float32.  Raise ModelError unless ``data`` and ``output`` have one scale, and
    ``weights`` have 1 or ``channels`` scales.
    """
    scales = channel_scales(weights, channels)
    if rounded:
        product = (scale_of(data) * scales).astype(np.float64)
    else:
        product = np.float64(scale_of(data)) * scales.astype(np.float64)
    factors: Array = product / np.float64(scale_of(output))
    return factors.reshape(()) if factors.size == 1 else factors


def weight_zero_points(weights: Value, channels: int) -> Ints:
    """Return the zero points of ``weights``, a scalar or [channels].

    The result is 0 for signed weights, whose zero points LiteRT ignores, and if all zero points are 0.  For
    other weights, raise ModelError unless there are 1 or ``channels`` zero points.
    """
    quantization = weights.quantization
    if weights.dtype not in (u8, DType.UINT4) or quantization is None or not quantization.zero_point.any():
        return np.zeros((), np.int64)
    zeros = quantization.zero_point.astype(np.int64)
    if zeros.size not in (1, channels):
        raise ModelError(f"%{weights.name} has {counted(zeros.size, 'zero point')}, expected 1 or {channels}")
    return zeros.reshape(()) if zeros.size == 1 else zeros


def integer_bias(op: Op, data: Value, bias: Array | None) -> Ints | None:
    """Return the bias of a layer on integer ``data`` as an int64 vector; None if there is none.

    Raise UnsupportedError for a bias that is not int32 or int64.
    """
    if bias is None:
        return None
    if bias.dtype not in (np.int32, np.int64):
        raise UnsupportedError(f"{op.code} on {data.dtype.short} with a bias of {bias.dtype} has no kernel")
    return bias.reshape(-1).astype(np.int64)


def has_int64_sums(op: Any, data: Value) -> bool:
    """Return whether a layer has int64 sums: ``data`` is int16, and no attribute asks for an int32 bias."""
    return data.dtype is i16 and getattr(op, "quantized_bias_type", f32) is not i32


def greatest_magnitude(value: Value, zero_point: int) -> int:
    """Return the greatest |x - zero_point| of integers of the dtype of ``value``."""
    lowest, highest = dtype_limits(value.dtype)
    return max(zero_point - lowest, highest - zero_point)


def centered_weights(weights: Array, zero_points: Ints, axis: int, data_magnitude: float) -> Array:
    """Return integer ``weights`` minus their zero points, in a float dtype for exact sums of products.

    ``zero_points``: a scalar, or one for each index of ``axis``, the axis of the output channels.
    ``data_magnitude``: the greatest |x - zero point| of the data that are multiplied by the weights.
    """
    channels = np.moveaxis(weights, axis, -1) - zero_points.astype(np.int32)
    others = tuple(range(weights.ndim - 1))
    sums = np.abs(channels).sum(axis=others, dtype=np.int64)
    bound = data_magnitude * float(sums.max(initial=0))
    return np.moveaxis(channels, -1, axis).astype(exact_float_dtype(bound), order="C")
