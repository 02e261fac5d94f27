# SPDX-License-Identifier: Apache-2.0
"""Quantized matrix products: integer data, or float rows that are quantized on the way (hybrid).

Source: TFLite fully_connected.cc, batch_matmul.cc and their reference kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import i8, i16, i32, u8
from circlekit.ir.enums import Activation
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_storage import constant_elements
from circlekit.ops.convolution.im2col import multiply_rows
from circlekit.ops.convolution.strips import Ends
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.numerics.dynamic_quantization import quantize_rows
from circlekit.ops.numerics.fixed_point import Ints, quantize_multiplier, quantized_activation_range
from circlekit.ops.numerics.kernel_flavor import rounds_up
from circlekit.ops.numerics.quantized_layers import (
    MOST,
    channel_scales,
    effective_scale,
    exact_floats,
    exact_weights,
    has_wide_sums,
    moved_bias,
    need_form,
    sums_of,
    wide_bias,
)
from circlekit.ops.numerics.requantize import InDoubles, double_scale, fixed_point
from circlekit.ops.numerics.staircase import Staircase, proven
from circlekit.ops.numerics.stores import Span, Store
from circlekit.ops.once import once, room
from circlekit.ops.quantization import dtype_limits, is_per_channel, zero_point_of

LEAST = {Activation.RELU: 0, Activation.RELU6: 0, Activation.RELU_N1_TO_1: -1}
"""The least result of an activation."""

# -- FULLY_CONNECTED ---------------------------------------------------------------------------


def quantized_dense(tape: Tape, op: Any, x: Array, weights: Array, bias: Array | None) -> Array | None:
    """Rows x [R,K] times the transpose of ``weights`` [U,K], plus ``bias``, as ``op`` says: [R,U].

    None where that is not bound.
    """
    if need_form(op, op.input, op.weights):
        return None if tape is not NOW else _hybrid_dense(op, x, weights, bias)
    if not tape.fixed(weights, bias):
        return None
    zeros = np.asarray(0 if is_per_channel(op.weights) else zero_point_of(op.weights), np.float32)
    sums = sums_of(weights, zeros, 0)
    bound = float(MOST[op.input.dtype] * sums.magnitudes)
    wide = has_wide_sums(op, op.input, bias)
    end = _dense_end(op, moved_bias(bias, zero_point_of(op.input), sums), bound, len(weights), wide)
    out = tape.empty((len(x), len(weights)), op.output.dtype.numpy)
    if out.size > FEW or not isinstance(end, InDoubles) or not _few_rows(tape, x, weights, zeros, end, out):
        multiply_rows(tape, x, weights, Ends(exact_floats(bound), 0, 0, end, out.dtype, zeros), out)
    return out


FEW = 1 << 12
"""Results that take less time than the calls that make them."""

WIDENED = 1 << 17
"""Bytes of weights that are widened at a time: they stay in the cache until they are used."""


def _few_rows(tape: Tape, x: Array, weights: Array, zeros: Array, end: InDoubles, out: Array) -> bool:
    """The product of few rows in as few calls as can be; False where that is not possible."""
    units = len(weights)
    bias = np.zeros(units) if end.bias is None else end.bias
    store = proven(end, end.span.bound + float(np.abs(bias).max(initial=0)), out.dtype)
    if store is None:
        return False
    if tape.keeps(4 * (weights.shape[1] + 1) * (len(x) + units)):
        _of_kept(tape, x, weights, zeros, bias, store, out)
    else:
        _of_stored(tape, x, weights, zeros, bias.astype(np.float32), store, out)
    return True


def _of_kept(
    tape: Tape, x: Array, weights: Array, zeros: Array, bias: Array, store: Staircase, out: Array
) -> None:
    """With weights that are widened once.  The bias counts as weights of a number 1 behind each row."""
    (rows, depth), units = x.shape, len(weights)
    matrix, data = np.empty((depth + 1, units), np.float32), np.ones((rows, depth + 1), np.float32)
    np.subtract(weights.T, zeros, out=matrix[:depth])
    matrix[depth] = bias
    sums = tape.empty((rows, units), np.float32)
    tape.copy(x, data[:, :depth])
    one = rows == 1
    tape.do((data[0] if one else data).dot, matrix, sums[0] if one else sums)
    store.note(tape, sums, out)


def _of_stored(
    tape: Tape, x: Array, weights: Array, zeros: Array, bias: Array, store: Staircase, out: Array
) -> None:
    """With weights that are widened in every run, some units at a time."""
    (rows, depth), units, dtype = x.shape, len(weights), bias.dtype
    room = min(WIDENED, tape.scratch - 4 * rows * (depth + units))
    step = min(max(1, room // (4 * depth)), units)

    def write(tape: Tape, data: Array, sums: Array, floats: Array) -> None:
        tape.copy(x, data)
        for first in range(0, units, step):
            part = weights[first : first + step]
            place, target = floats[: len(part)], sums[:, first : first + step]
            tape.copy(part, place)
            if zeros.any():
                tape.do(np.subtract, place, zeros, place)
            if rows == 1:
                tape.do(place.dot, data[0], target[0])
            else:
                tape.do(np.matmul, data, place.T, target)
        tape.do(np.add, sums.reshape(-1), np.tile(bias, rows), sums.reshape(-1))
        store.note(tape, sums, out)

    tape.several(write, ((rows, depth), dtype), ((rows, units), dtype), ((step, depth), dtype))


def _dense_end(op: Any, bias: Ints | None, bound: float, units: int, wide: bool) -> Store:
    """LiteRT's reference rescales in double precision, but for int16 weights and sparse ones."""
    span = Span(zero_point_of(op.output), quantized_activation_range(op.act, op.output), bound)
    plain = op.weights.dtype is not i16 and "sparsity" not in op.weights.extra
    up = plain and not wide and rounds_up()
    if plain and not up:
        by = effective_scale(op.input, op.weights, op.output, units, rounded=False)
        return double_scale(by, bias, span, wide)
    rounded = not is_per_channel(op.weights)
    by_fixed = quantize_multiplier(effective_scale(op.input, op.weights, op.output, units, rounded))
    return fixed_point(by_fixed, bias, span, op.weights.dtype is i16, up)


def _hybrid_dense(op: Any, x: Array, weights: Array, bias: Array | None) -> Array:
    """Each row is quantized in 8 bits by itself.  LiteRT on x86 is wrong for weights of -128."""
    blocks = block_scales(op)
    if blocks is not None:
        out = _blockwise_rows(x, weights, blocks)
    else:
        out = hybrid_rows(x, weights.view(np.int8), channel_scales(op.weights, len(weights)), op)
    if bias is not None:
        out += bias.reshape(-1)
    if op.act in LEAST:
        np.fmax(out, LEAST[op.act], out=out)  # NaN becomes the least number, as in LiteRT
    return apply_activation(out, op.act, out=out)


def hybrid_rows(x: Array, weights: Array, scales: Array, op: Any) -> Array:
    """Float rows x [R,K] times the transpose of int8 ``weights`` [U,K]: float32 [R,U]."""
    rows = quantize_rows(x, op.asymmetric_quantize_inputs)
    no_zeros = np.zeros((), np.float32)
    dtype = exact_floats(
        255.0 * once(op, "most", lambda: sums_of(weights, no_zeros, 0).magnitudes, op.weights)
    )
    numbers = (rows.data - rows.offset).astype(dtype, copy=False)
    if weights.size * dtype.itemsize <= room():
        floats = once(op, "hybrid", lambda: weights.astype(dtype), op.weights)
        sums = np.matmul(numbers, floats.T)
    else:
        sums = np.empty((len(x), len(weights)), dtype)
        step = max(1, max(WIDENED // 4, weights.nbytes // 16) // (dtype.itemsize * max(weights.shape[1], 1)))
        for first in range(0, len(weights), step):
            part = weights[first : first + step].astype(dtype)
            np.matmul(numbers, part.T, sums[:, first : first + step])
    sums = sums.astype(np.float32, copy=False)
    sums *= rows.scale * scales
    return np.asarray(sums)


def block_scales(op: Any) -> Array | None:
    """The scales of blockwise quantized weights, float32 [U, blocks]; None for others.

    ModelError where the scales are no constant.  LiteRT's reference kernel does not know
    blocks; its optimized one does, for rows of at least 32 and 4 units.
    """
    details = op.weights.quantization.details if op.weights.quantization is not None else None
    if not details or details.get("") != "BlockwiseQuantization":
        return None
    scales = details.get("scales")
    if not isinstance(scales, Value) or scales.data is None:
        raise ModelError(f"%{op.weights.name} has its scales in {scales}, which is no constant")
    units = op.weights.static_shape[0]
    return np.asarray(constant_elements(scales), np.float32).reshape(units, -1)


def _blockwise_rows(x: Array, weights: Array, scales: Array) -> Array:
    """Float rows x [R,K] times the transpose of int8 ``weights`` [U,K] with a scale a block of K."""
    rows = quantize_rows(x, asymmetric=True)
    blocks = weights.reshape(*scales.shape, -1) * scales[..., None]
    out = np.matmul(rows.data - rows.offset, blocks.reshape(weights.shape).T)
    out *= rows.scale
    return np.asarray(out)


def shuffled_dense(op: Any, x: Array, weights: Array, bias: Array | None) -> tuple[Array, Array]:
    """The result for SHUFFLED4x16INT8 weights, and the data as the runtime shuffles it.

    Both zero points are 128: the weights are stored as uint8 with their sign bit flipped, in tiles of 4
    rows by 16 columns.  LiteRT takes 1 or 4 rows of data.
    """
    units, depth = weights.shape
    if op.input.dtype is not u8 or units % 4 or depth % 16 or len(x) not in (1, 4):
        raise UnsupportedError(
            f"{op.code} with shuffled weights on {op.input!r} and {op.weights!r} runs nowhere"
        )
    tiles = weights.view(np.int8).reshape(units // 4, depth // 16, 4, 16)
    plain = tiles.transpose(0, 2, 1, 3).reshape(units, depth)
    flipped = x ^ 0x80
    floats, bound = exact_weights(plain, np.zeros((), np.float32), 0, 128)
    by = quantize_multiplier(effective_scale(op.input, op.weights, op.output, units, rounded=True))
    end = fixed_point(
        by, wide_bias(bias), Span(0, quantized_activation_range(op.act, op.output), bound), wide=False
    )
    out = np.empty((len(x), units), np.int16)
    end(np.matmul(flipped.view(np.int8).astype(floats.dtype), floats.T), out)
    workspace = flipped.reshape(len(x), depth // 16, 16).transpose(1, 0, 2)
    return out, np.ascontiguousarray(workspace).reshape(x.shape)


# -- BATCH_MATMUL ------------------------------------------------------------------------------


def quantized_matmul(op: Any, x: Array, y: Array) -> Array:
    """Integer x [..,R,K] times y [..,K,C]: rescaled, or plain sums of what is stored into int32."""
    pair, output = (op.x.dtype, op.y.dtype), op.output.dtype
    plain = output is i32 and pair == (i8, i8)
    if not plain and (pair not in ((i8, i8), (i16, i16), (i16, i8)) or output is not op.x.dtype):
        names = f"{op.x.dtype.short} by {op.y.dtype.short} to {output.short}"
        raise UnsupportedError(f"{op.code} on {names} has no kernel")
    zeros = (0, 0) if plain else (zero_point_of(op.x), zero_point_of(op.y))
    depth = x.shape[-1]
    bound = float(depth) * _most(op.x, zeros[0]) * _most(op.y, zeros[1])
    exact = np.dtype(np.float32 if bound < 1 << 24 else np.float64)
    left, right = (
        np.subtract(a, exact.type(zero), dtype=exact) for a, zero in zip((x, y), zeros, strict=True)
    )
    sums = np.matmul(left, right)
    if plain:
        return np.asarray(sums.astype(np.int64).astype(np.int32))
    by = quantize_multiplier(effective_scale(op.x, op.y, op.output, 1, rounded=True))
    span = Span(zero_point_of(op.output), dtype_limits(output), bound)
    end = fixed_point(by, None, span, wide=op.x.dtype is i16)
    out = np.empty(sums.shape, output.numpy)
    columns = sums.shape[-1]
    end(sums.reshape(-1, columns), out.reshape(-1, columns))
    return out


def _most(value: Value, zero: int) -> int:
    low, high = dtype_limits(value.dtype)
    return max(zero - low, high - zero)


def hybrid_matmul(op: Any, x: Array, y: Array) -> Array:
    """Float x [..,R,K] times int8 y [..,K,C]: every row is quantized in 8 bits by itself.

    LiteRT counts matrices by the sum of their batch indices: with two batch axes beyond 1 it scales rows
    by the parameters of others, and so does this.  Where the last batch axis of y is 1, that of x counts
    as rows, unless x is transposed.
    """
    if x.ndim > 2 and y.ndim > 2 and y.shape[-3] == 1 and not op.adj_x:
        rows_of_all = x.reshape(*x.shape[:-3], -1, x.shape[-1])
        out = _hybrid_matmul(op, rows_of_all, y.reshape(*y.shape[:-3], *y.shape[-2:]))
        return out.reshape(*out.shape[:-2], *x.shape[-3:-1], y.shape[-1])
    return _hybrid_matmul(op, x, y)


def _hybrid_matmul(op: Any, x: Array, y: Array) -> Array:
    scales = channel_scales(op.y, y.shape[-1])
    rows = quantize_rows(x.reshape(-1, x.shape[-1]), op.asymmetric_quantize_inputs)
    exact = np.float32 if x.shape[-1] * 255 * 128 < 1 << 24 else np.float64
    weights = y.astype(exact)
    sums = np.matmul(rows.data.reshape(x.shape).astype(exact, copy=False), weights)
    matrix = _matrix_numbers(x.shape[:-2])
    if op.asymmetric_quantize_inputs:
        column_sums = weights.sum(axis=-2).reshape(-1, 1, y.shape[-1])[_matrix_numbers(y.shape[:-2])]
        sums -= rows.offset.reshape(-1, x.shape[-2], 1)[matrix] * column_sums
    out = sums.astype(np.float32, copy=False)
    out *= rows.scale.reshape(-1, x.shape[-2], 1)[matrix] * scales
    return np.asarray(out)


def _matrix_numbers(batch: tuple[int, ...]) -> Array:
    """The number by which LiteRT finds the parameters of each matrix of ``batch``."""
    return np.asarray(np.indices(batch, sparse=False).sum(axis=0, dtype=np.int64)).reshape(batch)
