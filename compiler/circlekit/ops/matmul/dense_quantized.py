# SPDX-License-Identifier: Apache-2.0
"""Quantized matrix products of integer data, and of float data that the kernel quantizes itself (hybrid).

In shapes, R is the number of rows, K the depth (the number of products in a sum), U the number of units (rows
of the weights of FULLY_CONNECTED), C the number of columns.  ``op``: the operator, for its attributes and
scales.
Source: TFLite fully_connected.cc, batch_matmul.cc and their reference kernels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8
from circlekit.ir.value import Array, Value
from circlekit.ops.checks import require_float
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.numerics.fixed_point import Ints, quantized_activation_range
from circlekit.ops.numerics.output_stage import Arithmetic, OutputStage, follows_optimized_kernels
from circlekit.ops.numerics.quantized_layers import (
    LARGEST_HYBRID_PRODUCT,
    as_matrix,
    centered_weights,
    channel_scales,
    effective_scale,
    exact_float_dtype,
    greatest_magnitude,
    has_int64_sums,
    integer_bias,
    integer_product,
    is_dynamically_quantized,
    quantize_rows,
    quantized_product,
    weight_zero_points,
)
from circlekit.ops.quantized_values import dtype_limits, is_per_channel, zero_point_of

# -- FULLY_CONNECTED ---------------------------------------------------------------------------


def quantized_dense(op: Any, x: Array, weights: Array, bias: Array | None) -> Array:
    """Return [R, U]: ``x`` [R, K] times the transpose of integer ``weights`` [U, K], plus ``bias`` [U].

    ``op``: the FULLY_CONNECTED, whose quantization parameters and activation apply.  For integer ``x`` the
    result has the dtype of the operator's result; for float ``x`` (hybrid) it is float32.
    Raise UnsupportedError if there is no kernel for the dtypes.
    """
    # as in ONE's interpreter; LiteRT has no such kernel
    if op.input.dtype is f32 and op.weights.dtype is DType.UINT4:
        zeros = weight_zero_points(op.weights, len(weights)).reshape(-1, 1)
        scale = channel_scales(op.weights, len(weights)).reshape(-1, 1)
        return _finished(op, x @ ((weights - zeros).astype(np.float32) * scale).T, bias)
    if not is_dynamically_quantized(op, op.input, op.weights):
        stage = dense_output_stage(op, bias, len(weights))
        return integer_dense(op, x, exact_dense_weights(op, weights), stage)
    scales = block_scales(op)
    if scales is None:
        return hybrid_dense(op, x, exact_dense_weights(op, weights), bias)
    rows = quantize_rows(x, asymmetric=True)
    real_weights = (weights.reshape(*scales.shape, -1) * scales[..., None]).reshape(weights.shape)
    return _finished(op, np.asarray((rows.data - rows.offset) @ real_weights.T * rows.scale), bias)


def exact_dense_weights(op: Any, weights: Array) -> Array:
    """Return ``weights`` [U, K] minus their zero points, in a float dtype in which the sums are exact."""
    if is_dynamically_quantized(op, op.input, op.weights):
        # as in LiteRT, zero points of the weights are ignored, and uint8 weights are read as int8
        # ``largest``: the largest magnitude of a quantized number of the data minus its zero point
        largest = 255 if _is_asymmetric(op, weights.shape) else 127
        return centered_weights(weights.view(np.int8), np.zeros((), np.int64), 0, largest)
    magnitude = greatest_magnitude(op.input, zero_point_of(op.input))
    return centered_weights(weights, dense_zero_points(op, len(weights)), 0, magnitude)


def dense_zero_points(op: Any, units: int) -> Ints:
    """Return the zero points of the weights of a FULLY_CONNECTED on integers, a scalar or [units]."""
    if is_per_channel(op.weights):
        return weight_zero_points(op.weights, units)
    # old models have signed weights with a zero point, which ``weight_zero_points`` would ignore
    return np.asarray(zero_point_of(op.weights))


def integer_dense(op: Any, x: Array, exact_weights: Array, stage: OutputStage) -> Array:
    """Return the result of ``quantized_dense`` for integer ``x``.

    ``exact_weights``, ``stage``: the results of ``exact_dense_weights`` and ``dense_output_stage``.
    """
    rows = x.astype(exact_weights.dtype)
    rows -= zero_point_of(op.input)
    return stage(rows @ exact_weights.T)


def dense_output_stage(op: Any, bias: Array | None, units: int) -> OutputStage:
    """Return the output stage of a FULLY_CONNECTED on integers.

    It is that of LiteRT's reference kernel, or of the optimized one if ``follows_optimized_kernels()``.  For
    int16 or sparse weights, both multiply the sums by the scale in fixed point.  For other weights,

    - the reference kernel multiplies in float64;
    - the optimized kernel multiplies in float64 if the sums are int64 and the bias or the attribute
      ``quantized_bias_type`` is int64.  Otherwise it multiplies in fixed point and rounds a half up.

    ``units``: the number of rows of the weights.
    """
    int64_sums = has_int64_sums(op, op.input)
    in_double = op.weights.dtype is not i16 and "sparsity" not in op.weights.extra
    half_up = in_double and follows_optimized_kernels() and not (int64_sums and _has_int64_bias(op))
    if in_double and not half_up:
        rounded = False  # whether the product of the scales of data and weights is rounded to float32
        arithmetic = Arithmetic.WIDE_DOUBLE if int64_sums else Arithmetic.DOUBLE
    else:
        rounded = not is_per_channel(op.weights)
        arithmetic = Arithmetic.WIDE_FIXED_POINT if op.weights.dtype is i16 else Arithmetic.FIXED_POINT
    return OutputStage(
        integer_bias(op, op.input, bias),
        effective_scale(op.input, op.weights, op.output, units, rounded),
        zero_point_of(op.output),
        quantized_activation_range(op.act, op.output),
        op.output.dtype.numpy,
        arithmetic,
        half_up,
    )


def _has_int64_bias(op: Any) -> bool:
    """Return whether the bias is int64, or the attribute ``quantized_bias_type`` says so."""
    return i64 in (op.quantized_bias_type, op.bias.dtype if op.bias is not None else None)


def hybrid_dense(op: Any, x: Array, exact_weights: Array, bias: Array | None) -> Array:
    """Return the result of ``quantized_dense`` for float ``x``; each row of ``x`` is quantized to 8 bits.

    ``exact_weights``: the result of ``exact_dense_weights``.
    On x86, LiteRT gives the product of a negative number and a weight of -128 the wrong sign, in rows of 16
    or more weights; its optimized kernel does so for int4 weights of -8, too.  This function does not.
    """
    rows = quantize_rows(x, _is_asymmetric(op, exact_weights.shape))
    out = quantized_product(rows, exact_weights, channel_scales(op.weights, len(exact_weights)))
    return _finished(op, out, bias)


def _is_asymmetric(op: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a hybrid FULLY_CONNECTED with weights of ``shape`` quantizes its data with zero points.

    LiteRT's optimized kernel for int4 weights has no zero points.  It takes weights of at least 4 units, and
    an even depth of at least 32.
    """
    units, depth = shape
    is_large = units >= 4 and depth >= 32 and depth % 2 == 0
    is_int4_kernel = follows_optimized_kernels() and op.weights.dtype is DType.INT4 and is_large
    return bool(op.asymmetric_quantize_inputs) and not is_int4_kernel


def _finished(op: Any, out: Array, bias: Array | None) -> Array:
    """Return float ``out`` plus ``bias``, after the activation of ``op``; ``out`` may be overwritten."""
    require_float(op, out, bias)
    if bias is not None:
        out += bias.reshape(-1)
    return apply_activation(out, op.act, out=out)


def block_scales(op: Any) -> Array | None:
    """Return the scales of weights that are quantized in blocks, float32 [U, blocks]; None for other weights.

    A block has K / blocks neighboring weights of one row.  Raise ModelError if the scales are not constant.
    In LiteRT, only the optimized kernel uses such scales, for rows of 32 or more weights and 4 or more units.
    """
    quantization = op.weights.quantization
    if quantization is None or not quantization.is_blockwise:
        return None
    scales = quantization.details.get("scales")
    if not isinstance(scales, Value) or scales.data is None:
        raise ModelError(f"expected constant block scales of %{op.weights.name}, got {scales}")
    units = op.weights.static_shape[0]
    return np.asarray(constant_elements(scales), np.float32).reshape(units, -1)


def shuffled_dense(op: Any, x: Array, weights: Array, bias: Array | None) -> tuple[Array, Array]:
    """Return the results of a FULLY_CONNECTED with SHUFFLED4x16INT8 weights.

    They are the products, int16 [R, U], and the shuffled data, uint8 [R, K].  Data and weights have the zero
    point 128.  The weights are stored as uint8 with their sign bit flipped, in tiles of 4 rows by 16
    columns.  ``x`` must be uint8 with 1 or 4 rows, U a multiple of 4, and K a multiple of 16; otherwise raise
    UnsupportedError.
    """
    units, depth = weights.shape
    if op.input.dtype is not u8 or units % 4 or depth % 16 or len(x) not in (1, 4):
        raise UnsupportedError(
            f"{op.code} with shuffled weights has no kernel for {op.input!r} and {op.weights!r}"
        )
    tiles = weights.view(np.int8).reshape(units // 4, depth // 16, 4, 16)
    plain = tiles.transpose(0, 2, 1, 3).reshape(units, depth)
    flipped = x ^ 0x80
    scale = effective_scale(op.input, op.weights, op.output, units, rounded=True)
    limits = quantized_activation_range(op.act, op.output)
    bias = integer_bias(op, op.input, bias)
    stage = OutputStage(bias, scale, 0, limits, np.dtype(np.int16), Arithmetic.FIXED_POINT)
    out = stage(integer_product(flipped.view(np.int8), plain))
    shuffled = flipped.reshape(len(x), depth // 16, 16).transpose(1, 0, 2)
    return out, np.ascontiguousarray(shuffled).reshape(x.shape)


# -- BATCH_MATMUL ------------------------------------------------------------------------------


def quantized_matmul(op: Any, x: Array, y: Array) -> Array:
    """Return [..., R, C]: integer ``x`` [..., R, K] times ``y`` [..., K, C], requantized.

    An int32 result of int8 operands is the product of the stored integers, without zero points and scales.
    In all other cases, the result has the dtype of x, and y may have a scale for each column.  LiteRT 2.3
    reads such scales as 0, so its results are all zero; here the result follows the definition, as in the
    kernels of FULLY_CONNECTED.
    The dtypes must be i8 by i8, i16 by i16 or i16 by i8; otherwise raise UnsupportedError.  Raise ModelError
    if y has scales along another axis.
    """
    pair, output = (op.x.dtype, op.y.dtype), op.output.dtype
    is_plain = output is i32 and pair == (i8, i8)
    if not is_plain and (pair not in ((i8, i8), (i16, i16), (i16, i8)) or output is not op.x.dtype):
        names = f"{op.x.dtype.short} by {op.y.dtype.short} to {output.short}"
        raise UnsupportedError(f"{op.code} on {names} has no kernel")
    x_zero, y_zeros = (0, np.zeros(1)) if is_plain else (zero_point_of(op.x), _column_zero_points(op, y))
    y_magnitude = max(greatest_magnitude(op.y, int(zero)) for zero in (y_zeros.min(), y_zeros.max()))
    dtype = exact_float_dtype(x.shape[-1] * greatest_magnitude(op.x, x_zero) * y_magnitude)
    sums = (x.astype(dtype) - dtype.type(x_zero)) @ (y.astype(dtype) - y_zeros.astype(dtype))
    if is_plain:
        return np.asarray(sums.astype(np.int64).astype(np.int32))
    return OutputStage(
        None,
        effective_scale(op.x, op.y, op.output, y.shape[-1], rounded=not is_per_channel(op.y)),
        zero_point_of(op.output),
        dtype_limits(output),
        x.dtype,
        Arithmetic.WIDE_FIXED_POINT if op.x.dtype is i16 else Arithmetic.FIXED_POINT,
    )(sums)


def _column_zero_points(op: Any, y: Array) -> Array:
    """Return the zero points of ``y`` [..., K, C]: int64 [C] if it has a scale per column, else [1].

    Raise ModelError if the scales belong to another axis.
    """
    quantization = op.y.quantization
    if quantization is None or quantization.scale.size <= 1:
        return np.array([zero_point_of(op.y)])
    columns = y.ndim - (2 if op.adj_y else 1)  # the axis in the operand, before ``adj_y`` transposes it
    if quantization.quantized_dimension != columns:
        raise ModelError(
            f"%{op.y.name}: expected scales along axis {columns}, the columns, got axis "
            f"{quantization.quantized_dimension}"
        )
    zero_points = quantization.zero_point if quantization.zero_point.size else np.zeros(1)
    return np.asarray(np.broadcast_to(zero_points, y.shape[-1:]), np.int64)


def dynamically_quantized_matmul(op: Any, x: Array, y: Array) -> Array:
    """Return [..., R, C]: float ``x`` [..., R, K], quantized by rows, times int8 ``y`` [..., K, C].

    ``y`` has one scale or C scales.  As in LiteRT, C scales belong to the columns, whatever the quantized
    dimension is.
    LiteRT finds the row scales of a matrix of x by the sum of its batch indices: for matrix [i, j], it takes
    the scales of matrix number i + j.  So if several batch dimensions exceed 1, LiteRT uses the scales of
    wrong rows, and this function does the same.  If the last batch dimension of y is 1 and ``adj_x`` is
    false, LiteRT first merges the last batch axis of x with the rows of x.
    """
    if x.ndim > 2 and y.ndim > 2 and y.shape[-3] == 1 and not op.adj_x:
        merged = x.reshape(*x.shape[:-3], x.shape[-3] * x.shape[-2], x.shape[-1])
        out = _matmul_of_rows(op, merged, y.reshape(*y.shape[:-3], *y.shape[-2:]))
        return out.reshape(*out.shape[:-2], *x.shape[-3:-1], y.shape[-1])
    return _matmul_of_rows(op, x, y)


def _matmul_of_rows(op: Any, x: Array, y: Array) -> Array:
    """Return the result of ``dynamically_quantized_matmul`` without merging axes first."""
    scales = channel_scales(op.y, y.shape[-1])
    rows = quantize_rows(as_matrix(x), op.asymmetric_quantize_inputs)
    weights = y.astype(exact_float_dtype(x.shape[-1] * LARGEST_HYBRID_PRODUCT))
    sums = np.matmul(rows.data.reshape(x.shape).astype(weights.dtype, copy=False), weights)
    scales_of = _matrix_numbers(x.shape[:-2])  # for each matrix of x, the matrix whose row scales it takes
    by_matrix = (math.prod(x.shape[:-2]), x.shape[-2], 1)  # the row scales in the shape [matrix, row, 1]
    if op.asymmetric_quantize_inputs:
        column_sums = as_matrix(weights.sum(axis=-2))[:, None][_matrix_numbers(y.shape[:-2])]
        sums -= rows.offset.reshape(by_matrix)[scales_of] * column_sums
    out = sums.astype(np.float32, copy=False)
    out *= rows.scale.reshape(by_matrix)[scales_of] * scales
    return np.asarray(out)


def _matrix_numbers(batch: tuple[int, ...]) -> Array:
    """Return int64 of the shape ``batch``: the number by which LiteRT finds the scales of each matrix.

    For example, (2, 3) gives [[0, 1, 2], [1, 2, 3]].
    """
    return np.asarray(np.indices(batch, sparse=False).sum(axis=0, dtype=np.int64)).reshape(batch)
