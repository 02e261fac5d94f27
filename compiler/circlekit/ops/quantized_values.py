# SPDX-License-Identifier: Apache-2.0
"""Read the quantization parameters of a value for kernels: real = scale * (integer - zero point)."""

from __future__ import annotations

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Shape, TensorType, Value


def is_quantized(value: Value) -> bool:
    """Return whether ``value`` has an integer dtype and a scale."""
    return value.dtype.is_integer and value.quantization is not None and value.quantization.scale.size > 0


def is_quantized_8_or_16_bits(value: Value) -> bool:
    """Return whether ``value`` is int8, uint8 or int16 and has a scale.

    Most kernels treat data of other integer dtypes as plain integers, even if there is a scale.
    """
    return value.dtype in (i8, u8, i16) and is_quantized(value)


def is_hybrid(data: Value, weights: Value) -> bool:
    """Return whether ``data`` is float32 and ``weights`` are integers (LiteRT: a hybrid operator)."""
    return data.dtype is DType.FLOAT32 and weights.dtype.is_integer


def is_per_channel(value: Value) -> bool:
    """Return whether ``value`` has more than one scale."""
    return value.quantization is not None and value.quantization.is_per_channel


def scale_of(value: Value) -> np.float32:
    """Return the scale of ``value``; raise ModelError if it has none, or several."""
    scales = quantization_of(value).scale
    if scales.size > 1:
        raise ModelError(f"%{value.name}: expected one scale for the whole tensor, got {scales.size}")
    scale: np.float32 = scales[0]
    return scale


def quantization_of(value: Value) -> Quantization:
    """Return the quantization of ``value``; raise ModelError if it has no scale."""
    quantization = value.quantization
    if quantization is None or not quantization.scale.size:
        raise ModelError(f"%{value.name}: expected a scale, got {value.dtype.short} without scales")
    return quantization


def zero_point_of(value: Value) -> int:
    """Return the zero point of ``value``, or the first of several; 0 if it has none or is not quantized."""
    if not is_quantized(value) or value.quantization is None or not value.quantization.zero_point.size:
        return 0
    return int(value.quantization.zero_point[0])


def padding_of(value: Value) -> int:
    """Return the number with which kernels pad ``value``: the zero point of 8 or 16 bits, else 0."""
    return zero_point_of(value) if is_quantized_8_or_16_bits(value) else 0


def _zero_points(quantization: Quantization) -> Array:
    """Return one zero point for each scale; 0 if the file has none."""
    return np.resize(quantization.zero_point, quantization.scale.size)


def dtype_limits(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest integer of ``dtype``; raise ModelError if it is not an integer."""
    if dtype.bits == 0 or not dtype.is_integer:
        raise ModelError(f"expected an integer dtype for quantized data, got {dtype.short}")
    return dtype.limits


def have_same_quantization(a: Value, b: Value) -> bool:
    """Return whether kernels may treat equal integers in ``a`` and ``b`` as equal real numbers.

    If there are several scales, the quantized dimensions may differ, because an operator may move them.
    """
    if not (is_quantized_8_or_16_bits(a) or is_quantized_8_or_16_bits(b)):
        return True  # kernels that move or compare data ignore the scales of all other dtypes
    first, second = a.quantization, b.quantization
    return (
        first is not None
        and second is not None
        and np.array_equal(first.scale, second.scale)
        and np.array_equal(_zero_points(first), _zero_points(second))
    )


def followed_operand(op: Op) -> Value | None:
    """Return the operand whose scale and zero point the results must have; None if there is none.

    For RESHAPE, for example, that is its input.
    """
    rule = op.quantization_rule
    return getattr(op, rule.results_follow) if rule is not None and rule.results_follow else None


def per_tensor_quantization(value: Value) -> Quantization | None:
    """Return the quantization of ``value`` if it has exactly one scale, else None."""
    quantization = value.quantization
    return None if quantization is None or quantization.scale.size != 1 else quantization


def rearranged_type(value: Value, shape: Shape | None) -> TensorType:
    """Return the type of a result of ``shape`` that has the elements of ``value`` in any order.

    The result has the quantization of ``value`` if that is one scale for the whole tensor.  Several scales
    are left out, because their quantized dimension may have moved.
    """
    return TensorType(value.dtype, shape, per_tensor_quantization(value))
