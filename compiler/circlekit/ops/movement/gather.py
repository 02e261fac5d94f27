# SPDX-License-Identifier: Apache-2.0
"""Operators that read elements by index.

Class arguments: ``data_movement``: results are copies of elements.  ``layout_operands``: the operands whose
axes are those of the result; ``axis_numbers``: the attributes and operands that hold numbers of these axes.
``versions``: the operator version for data of a dtype.  In a quantization rule, ``results_follow`` names the
operand whose scale the result has, and ``operands_follow`` the operands that have the scale of the result.
``table``: the operand whose rows are looked up; a constant one may be stored like weights.
Source: TFLite gather, gather_nd, one_hot, embedding_lookup, reverse, reverse_sequence, topk_v2.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError, counted
from circlekit.ir.dtypes import DType, boolean, f16, f32, i8, i16, i32, i64
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, TensorType, format_shape
from circlekit.ops.checks import require_one_element, require_rank, require_same_dtype
from circlekit.ops.constant_operands import int_list, static_int, static_int_vector, vector_length
from circlekit.ops.dimensions import Dim, dims_differ, merge_dims, normalized_axis
from circlekit.ops.operand_dtypes import ANY, NUMBERS
from circlekit.ops.quantized_values import is_per_channel, quantization_of, rearranged_type


def require_in_range(op: Op, indices: Array, sizes: Any) -> None:
    """Raise ModelError unless all ``indices`` are integers from 0 to ``sizes`` - 1.

    ``sizes``: a number, or an array that broadcasts to the shape of ``indices``.
    """
    if indices.dtype.kind not in "iu":
        raise ModelError(f"{op.code}: expected integers as indices, got {indices.dtype}")
    is_outside = (indices < 0) | (indices >= sizes)
    if np.any(is_outside):
        first, size = int(indices[is_outside][0]), int(np.broadcast_to(sizes, indices.shape)[is_outside][0])
        raise ModelError(f"{op.code}: index {first} is out of range for {counted(size, 'entry', 'entries')}")


class Gather(Op, code="GATHER", data_movement=True, layout_operands=("params",), axis_numbers=("axis",)):
    """Slices of ``params`` at ``indices`` along ``axis``.

    The first ``batch_dims`` axes are a batch: they are equal in both operands, and each element of the batch
    is gathered on its own.
    """

    quantization_rule = QuantizationRule(results_follow="params", table="params")

    params = operand(*ANY)
    indices = operand(i32, i64, i16)

    axis: int = attribute(0)
    batch_dims: int = attribute(0)

    versions: ClassVar = {i8: 2, boolean: 3, i16: 4, DType.INT4: 7}

    def infer(self) -> TensorType:
        params, indices = self.params.shape, self.indices.shape
        if params is None or indices is None:
            return rearranged_type(self.params, None)
        axis, batch = self.axis_and_batch(len(params), len(indices))
        pairs = list(zip(params[:batch], indices[:batch], strict=True))
        for i, (size, count) in enumerate(pairs):
            if dims_differ(size, count):
                raise ShapeError(f"indices: expected dimension {size} along batch axis {i}, got {count}")
        head = (merge_dims(*pair) for pair in pairs)
        shape = (*head, *params[batch:axis], *indices[batch:], *params[axis + 1 :])
        return rearranged_type(self.params, shape)

    def axis_and_batch(self, rank: int, index_rank: int) -> tuple[int, int]:
        """Return ``axis`` and ``batch_dims`` as numbers >= 0; raise ShapeError if they are out of range."""
        axis = normalized_axis(self.axis, rank)
        batch = self.batch_dims + index_rank if self.batch_dims < 0 else self.batch_dims
        if not 0 <= batch <= min(axis, index_rank):
            limits = f"axis {axis} and index rank {index_rank}"
            raise ShapeError(f"batch_dims: expected from 0 to the lower of {limits}, got {batch}")
        return axis, batch

    def kernel(self, params: Array, indices: Array) -> Array:
        axis, batch = self.axis_and_batch(params.ndim, indices.ndim)
        require_in_range(self, indices, params.shape[axis])
        if batch == 0:
            return np.take(params, indices, axis)
        # one grid of numbers for each batch axis, in shapes that broadcast with ``indices``
        trailing = (1,) * (indices.ndim - batch)
        grids = np.ogrid[tuple(map(slice, params.shape[:batch]))]
        index: Any = (*(grid.reshape(grid.shape + trailing) for grid in grids), indices)
        taken = np.moveaxis(params, axis, batch)[index]
        # ``taken`` has the axes of ``indices``, then the axes of ``params`` between the batch and ``axis``,
        # then those after ``axis``; in the result, the axes before ``axis`` stand directly behind the batch
        axes_before = range(indices.ndim, indices.ndim + axis - batch)
        return np.moveaxis(taken, axes_before, range(batch, axis))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        # with a vector of indices, the result has the axes of ``params``
        return None if self.indices.rank != 1 or self.batch_dims else super().permuted(perm)

    def required_version(self) -> int:
        minimum = 6 if self.indices.dtype is i16 else 5 if self.batch_dims else 1
        return max(super().required_version(), minimum)


class GatherNd(Op, code="GATHER_ND", versions={DType.STRING: 2, i16: 3, boolean: 5}, data_movement=True):
    """Slices of ``params``; their leading indices are the vectors along the last axis of ``indices``.

    Example: the indices [[2, 0], [1, 5]] give the slices params[2, 0] and params[1, 5].
    """

    quantization_rule = QuantizationRule(results_follow="params")

    params = operand(*ANY)
    indices = operand(i32, i64, i16)

    def infer(self) -> TensorType:
        params, indices = self.params.shape, self.indices.shape
        if params is None or indices is None:
            return rearranged_type(self.params, None)
        if not indices or not params:
            raise ShapeError("params, indices: expected rank 1 or more, got a scalar")
        depth = indices[-1]
        if depth is None:
            return rearranged_type(self.params, None)
        if depth > len(params):
            raise ShapeError(f"indices: expected at most {counted(len(params), 'coordinate')}, got {depth}")
        return rearranged_type(self.params, (*indices[:-1], *params[depth:]))

    def kernel(self, params: Array, indices: Array) -> Array:
        sizes = np.asarray(params.shape[: indices.shape[-1]])
        require_in_range(self, indices, sizes)
        if not sizes.size:  # each slice is all of ``params``
            return np.broadcast_to(params, (*indices.shape[:-1], *params.shape))
        return np.asarray(params[tuple(np.moveaxis(indices, -1, 0))])

    def required_version(self) -> int:
        return max(super().required_version(), 4 if self.indices.dtype is i16 else 1)


class OneHot(Op, code="ONE_HOT"):
    """Vectors of ``depth`` elements along the new ``axis``: ``on_value`` at the index, else ``off_value``."""

    quantization_rule = QuantizationRule(operands_follow=("on_value", "off_value"))

    indices = operand(i32, i64)
    depth = operand(i32)
    on_value = operand(*ANY)
    off_value = operand(*ANY)

    axis: int = attribute(0)

    def infer(self) -> TensorType:
        require_same_dtype("on_value", self.on_value, "off_value", self.off_value)
        require_one_element(self.on_value, "on_value")
        require_one_element(self.off_value, "off_value")
        shape = self.indices.shape
        if shape is None:
            return TensorType(self.on_value.dtype, None)
        axis, depth = normalized_axis(self.axis, len(shape) + 1), static_int(self.depth, "depth")
        return TensorType(self.on_value.dtype, (*shape[:axis], depth, *shape[axis:]))

    def kernel(self, indices: Array, depth: Array, on_value: Array, off_value: Array) -> Array:
        axis, size = normalized_axis(self.axis, indices.ndim + 1), int(depth.reshape(-1)[0])
        if size < 0:
            raise ShapeError(f"depth: expected at least 0, got {size}")
        positions = np.arange(size).reshape((-1,) + (1,) * (indices.ndim - axis))
        is_on = np.expand_dims(indices, axis) == positions
        return np.where(is_on, on_value.reshape(()), off_value.reshape(()))


class EmbeddingLookup(Op, code="EMBEDDING_LOOKUP", options=None):
    """The rows of ``value`` at ``lookup``.

    If the rows are quantized and the result is a float (hybrid), the rows are dequantized.  uint8 rows are
    then read as int8, as in LiteRT.  There may be one scale or one for each row, and all zero points must be
    0; otherwise the kernel raises UnsupportedError.
    """

    quantization_rule = QuantizationRule(results_follow="value", table="value")

    lookup = operand(i32)
    value = operand(*ANY)

    def infer(self) -> TensorType:
        require_rank(self.lookup, "lookup", 1)
        value = self.value.shape
        if value is not None and len(value) < 2:
            raise ShapeError(f"value: expected rank 2 or more, got shape {format_shape(value)}")
        shape = None if value is None else (vector_length(self.lookup), *value[1:])
        if self.is_hybrid():
            return TensorType(self.results[0].dtype, shape)
        return rearranged_type(self.value, shape)

    def is_hybrid(self) -> bool:
        """Return whether quantized rows are dequantized to floats."""
        return bool(self.results) and self.results[0].dtype in (f32, f16) and self.value.dtype.is_integer

    def kernel(self, lookup: Array, value: Array) -> Array:
        if self.output.dtype is not self.value.dtype and not self.is_hybrid():
            pair = f"{self.value.dtype.short} to {self.output.dtype.short}"
            raise UnsupportedError(f"EMBEDDING_LOOKUP from {pair} has no kernel")
        require_in_range(self, lookup, value.shape[0])
        rows = np.take(value, lookup, axis=0)
        if not self.is_hybrid():
            return rows
        quantization = quantization_of(self.value)
        has_column_scales = is_per_channel(self.value) and quantization.quantized_dimension
        if np.any(quantization.zero_point) or has_column_scales:
            raise UnsupportedError(f"{self.code} to floats with zero points or column scales has no kernel")
        scale = quantization.scale[lookup] if is_per_channel(self.value) else quantization.scale
        signed = rows.view(np.int8) if rows.dtype == np.uint8 else rows
        product = signed.astype(np.float32) * scale.reshape(-1, *([1] * (rows.ndim - 1)))
        return np.asarray(product, self.output.dtype.numpy)

    def required_version(self) -> int:
        if self.value.dtype is DType.INT4 or is_per_channel(self.value):
            return 4
        return 5 if self.value.dtype is DType.INT2 else 1


class ReverseV2(Op, code="REVERSE_V2", versions={boolean: 2, i8: 3}, data_movement=True):
    """``input`` reversed along each axis that ``axis`` lists."""

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    axis = operand(i32)

    layout_operands = ("input",)
    axis_numbers = ("axis",)

    def infer(self) -> TensorType:
        axes = static_int_vector(self.axis)
        if axes is not None and self.input.shape is not None:
            distinct = {normalized_axis(axis, len(self.input.shape)) for axis in axes}
            if len(distinct) < len(axes):
                raise ShapeError(f"axis: expected each axis once, got {axes}")
        return rearranged_type(self.input, self.input.shape)

    def kernel(self, input: Array, axis: Array) -> Array:
        return np.flip(input, tuple(int_list(axis)))


class ReverseSequence(Op, code="REVERSE_SEQUENCE", data_movement=True, layout_operands=("input",)):
    """``input``, with the first elements along the axis ``seq_dim`` in reverse order.

    At index b along the axis ``batch_dim``, these are the first ``seq_lengths[b]`` elements.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    seq_lengths = operand(i32, i64)

    seq_dim: int = attribute(0)
    batch_dim: int = attribute(0)

    axis_numbers = ("seq_dim", "batch_dim")

    def infer(self) -> TensorType:
        shape = self.input.shape
        if shape is not None:
            axes = [normalized_axis(a, len(shape)) for a in (self.seq_dim, self.batch_dim)]
            if axes[0] == axes[1]:
                raise ShapeError(f"expected different axes seq_dim and batch_dim, got {axes[0]} for both")
            self.require_lengths(shape[axes[1]], vector_length(self.seq_lengths))
        return rearranged_type(self.input, shape)

    def require_lengths(self, batch: Dim, count: Dim) -> None:
        """Raise ShapeError if ``count``, the number of lengths, is not ``batch``, the size of ``batch_dim``.

        Unknown numbers are no error.
        """
        if dims_differ(batch, count):
            expected = f"{counted(batch, 'element')}, one for each index along batch_dim"
            raise ShapeError(f"seq_lengths: expected {expected}, got {count}")

    def kernel(self, input: Array, seq_lengths: Array) -> Array:
        axes = (self.batch_dim, self.seq_dim)
        data = np.moveaxis(input, axes, (0, 1))  # [batch, sequence, others]
        lengths = seq_lengths.reshape(-1, 1)
        self.require_lengths(len(data), len(lengths))
        if np.any(lengths > data.shape[1]):
            raise ModelError(f"seq_lengths: expected at most {data.shape[1]}, got {lengths.max()}")
        positions = np.arange(data.shape[1])
        order = np.where(positions < lengths, lengths - 1 - positions, positions)
        return np.moveaxis(data[np.arange(data.shape[0])[:, None], order], (0, 1), axes)


class TopKV2(Op, code="TOPK_V2", results=("values", "indices"), versions={i8: 2, i16: 3}):
    """The ``k`` largest elements along the last axis, in descending order, and their indices.

    Equal elements keep their order.  NaN counts as less than all numbers, as in LiteRT.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*NUMBERS)
    k = operand(i32, i16)

    def infer(self) -> tuple[TensorType, ...]:
        shape = self.input.shape
        index_type = self.results[1].dtype if len(self.results) > 1 else i32
        if shape is None:
            return rearranged_type(self.input, None), TensorType(index_type, None)
        if not shape:
            raise ShapeError("expected input of rank 1 or more, got a scalar")
        k = static_int(self.k, "k")
        if k is not None and shape[-1] is not None and not 0 <= k <= shape[-1]:
            raise ShapeError(f"k: expected from 0 to the last dimension of {format_shape(shape)}, got {k}")
        return rearranged_type(self.input, (*shape[:-1], k)), TensorType(index_type, (*shape[:-1], k))

    def kernel(self, input: Array, k: Array) -> tuple[Array, Array]:
        count = int(k.reshape(-1)[0])
        if not 0 <= count <= input.shape[-1]:
            raise ShapeError(
                f"k: expected from 0 to the last dimension of {format_shape(input.shape)}, got {count}"
            )
        descending = ~input if input.dtype.kind in "iu" else -input  # -input would overflow for some integers
        indices = np.argsort(descending, axis=-1, kind="stable")[..., :count]
        values = np.take_along_axis(input, indices, axis=-1)
        return values, indices.astype(self.results[1].dtype.numpy)

    def required_version(self) -> int:
        return 3 if i16 in (self.k.dtype, self.results[1].dtype) else super().required_version()
