# SPDX-License-Identifier: Apache-2.0
"""Elements by index.

Source: TFLite gather, gather_nd, one_hot, embedding_lookup, reverse, reverse_sequence, scatter_nd, topk_v2,
dynamic_update_slice.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, bf16, boolean, f16, f32, i8, i16, i32, i64
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import require_integer_dtype, require_same_dtype
from circlekit.ops.constant_operands import (
    axis_after_transpose,
    int_list,
    permuted_axes,
    permuted_rows,
    static_int,
    static_int_vector,
    vector_length,
)
from circlekit.ops.dimensions import merge_dims, normalized_axis, unknown_dims
from circlekit.ops.quantization import is_per_channel, rearranged_type, scale_of
from circlekit.ops.versions import VersionedByDtype


def need_in_range(op: Op, indices: Array, sizes: Any) -> None:
    """ModelError where an index is negative or not below ``sizes`` (which broadcast to the indices)."""
    wrong = (indices < 0) | (indices >= sizes)
    if np.any(wrong):
        found = int(indices[wrong].reshape(-1)[0])
        raise ModelError(f"{op.code}: index {found} is outside of {np.asarray(sizes).tolist()} entries")


class Gather(VersionedByDtype, code="GATHER"):
    """Slices of ``params`` along ``axis``; the first ``batch_dims`` axes of both operands go together."""

    params = operand()
    indices = operand(i32, i64, i16)

    axis: int = attribute(0)
    batch_dims: int = attribute(0)

    layout_operands = ("params",)

    def infer(self) -> TensorType:
        params, indices = self.params.shape, self.indices.shape
        require_integer_dtype(self.indices, "indices")
        if params is None or indices is None:
            return rearranged_type(self.params, None)
        axis, batch = self.places(len(params), len(indices))
        heads = zip(params[:batch], indices[:batch], strict=True)
        head = tuple(merge_dims(a, b) for a, b in heads)
        return rearranged_type(
            self.params, (*head, *params[batch:axis], *indices[batch:], *params[axis + 1 :])
        )

    def places(self, rank: int, index_rank: int) -> tuple[int, int]:
        """Axis and count of batch dimensions, neither negative."""
        axis = normalized_axis(self.axis, rank)
        batch = self.batch_dims + index_rank if self.batch_dims < 0 else self.batch_dims
        if not 0 <= batch <= min(axis, index_rank):
            raise ShapeError(
                f"batch_dims is {self.batch_dims}, at most the axis {axis} and {index_rank} is wanted"
            )
        return axis, batch

    def bind(self, tape: Tape, params: Array, indices: Array) -> Array | None:
        axis, batch = self.places(params.ndim, indices.ndim)
        if batch:
            return None
        size, shape = params.shape[axis], (*params.shape[:axis], *indices.shape, *params.shape[axis + 1 :])
        if indices.size == 1 and tape.fixed(indices):
            need_in_range(self, indices, size)
            at = int(indices.reshape(()))
            return tape.reshaped(params[(slice(None),) * axis + (slice(at, at + 1),)], shape)
        out = tape.empty(shape, params.dtype)
        tape.do(need_in_range, self, indices, size)
        tape.do(params.take, indices, axis, out, "clip")  # no index is outside; clip is the fast mode
        tape.limit(out, tape.reach(params))
        return out

    def kernel(self, params: Array, indices: Array) -> Array | None:
        axis, batch = self.places(params.ndim, indices.ndim)
        if batch == 0:
            return self.bind(NOW, params, indices)
        need_in_range(self, indices, params.shape[axis])
        shape = params.shape
        outer = int(np.prod(shape[batch:axis], dtype=np.int64))
        heads, inner = (int(np.prod(s, dtype=np.int64)) for s in (shape[:batch], shape[axis + 1 :]))
        flat = params.reshape(heads, outer, shape[axis], inner)
        rows = indices.reshape(heads, 1, int(np.prod(indices.shape[batch:], dtype=np.int64)))
        first = np.arange(heads).reshape(-1, 1, 1)
        second = np.arange(outer).reshape(1, -1, 1)
        return np.asarray(flat[first, second, rows]).reshape(
            *shape[:axis], *indices.shape[batch:], *shape[axis + 1 :]
        )

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        if self.indices.rank != 1 or self.batch_dims:
            return None
        return {"axis": axis_after_transpose(self.axis, perm)}

    def required_version(self) -> int:
        if self.params.dtype is DType.INT4:
            return 7
        if self.indices.dtype is i16:
            return 6
        return 5 if self.batch_dims else {i16: 4, boolean: 3, i8: 2}.get(self.params.dtype, 1)


class GatherNd(VersionedByDtype, code="GATHER_ND"):
    """Slices of ``params`` by index vectors (the last axis of ``indices``) over its first axes."""

    params = operand()
    indices = operand(i32, i64, i16)

    def infer(self) -> TensorType:
        params, indices = self.params.shape, self.indices.shape
        require_integer_dtype(self.indices, "indices")
        if params is None or indices is None:
            return rearranged_type(self.params, None)
        if not indices or not params:
            raise ShapeError("params or indices is a scalar, rank 1 or more is wanted")
        depth = indices[-1]
        if depth is None:
            return rearranged_type(self.params, None)
        if depth > len(params):
            raise ShapeError(f"indices have {depth} coordinates, params has rank {len(params)}")
        return rearranged_type(self.params, (*indices[:-1], *params[depth:]))

    def kernel(self, params: Array, indices: Array) -> Array:
        sizes = np.asarray(params.shape[: indices.shape[-1]])
        need_in_range(self, indices, sizes)
        return np.asarray(params[tuple(np.moveaxis(indices, -1, 0))])

    def required_version(self) -> int:
        if self.params.dtype is boolean:
            return 5
        if self.indices.dtype is i16:
            return 4
        return {i16: 3, DType.STRING: 2}.get(self.params.dtype, 1)


class OneHot(VersionedByDtype, code="ONE_HOT"):
    """``on_value`` where the place on a new ``axis`` of ``depth`` is the index, elsewhere ``off_value``."""

    indices = operand(i32, i64)
    depth = operand(i32)
    on_value = operand()
    off_value = operand()

    axis: int = attribute(0)

    def infer(self) -> TensorType:
        require_same_dtype("on_value", self.on_value, "off_value", self.off_value)
        shape = self.indices.shape
        if shape is None:
            return TensorType(self.on_value.dtype, None)
        at = normalized_axis(self.axis, len(shape) + 1)
        return TensorType(self.on_value.dtype, (*shape[:at], static_int(self.depth, "depth"), *shape[at:]))

    def kernel(self, indices: Array, depth: Array, on_value: Array, off_value: Array) -> Array:
        at = normalized_axis(self.axis, indices.ndim + 1)
        places = np.arange(int(depth.reshape(-1)[0])).reshape((-1,) + (1,) * (indices.ndim - at))
        hot = np.expand_dims(indices, at) == places
        return np.where(hot, on_value.reshape(()), off_value.reshape(()))


class EmbeddingLookup(VersionedByDtype, code="EMBEDDING_LOOKUP", options=None):
    """Rows of ``value`` by number; quantized rows may become floats, times their scale.

    Rows of uint8 are then read as int8, as in LiteRT.
    """

    lookup = operand(i32)
    value = operand()

    def infer(self) -> TensorType:
        lookup, value = self.lookup.shape, self.value.shape
        if lookup is not None and len(lookup) != 1:
            raise ShapeError(f"lookup has shape {format_shape(lookup)}, rank 1 is wanted")
        if value is not None and len(value) < 2:
            raise ShapeError(f"value has shape {format_shape(value)}, rank 2 or more is wanted")
        shape = None if value is None else (vector_length(self.lookup), *value[1:])
        return (
            TensorType(self.results[0].dtype, shape)
            if self.is_hybrid()
            else rearranged_type(self.value, shape)
        )

    def is_hybrid(self) -> bool:
        """Whether quantized rows become floats."""
        return bool(self.results) and self.results[0].dtype in (f32, f16) and self.value.dtype.is_integer

    def kernel(self, lookup: Array, value: Array) -> Array:
        if self.output.dtype is not self.value.dtype and not self.is_hybrid():
            kinds = f"{self.value.dtype.short} rows to {self.output.dtype.short}"
            raise UnsupportedError(f"EMBEDDING_LOOKUP of {kinds} has no kernel, only to floats")
        need_in_range(self, lookup, value.shape[0])
        rows = np.take(value, lookup, axis=0)
        return self.real(rows, lookup) if self.is_hybrid() else rows

    def real(self, rows: Array, lookup: Array) -> Array:
        """Quantized ``rows`` times their scales, in float32, as the result's type."""
        scale_of(self.value)  # or there is an error
        quantization = self.value.quantization
        assert quantization is not None  # it has a scale
        if np.any(quantization.zero_point) or (
            is_per_channel(self.value) and quantization.quantized_dimension
        ):
            raise UnsupportedError(
                "EMBEDDING_LOOKUP to floats has no kernel for zero points or scales of columns"
            )
        scale = quantization.scale[lookup] if is_per_channel(self.value) else quantization.scale
        signed = rows.view(np.int8) if rows.dtype == np.uint8 else rows
        product = signed.astype(np.float32) * scale.reshape(-1, *([1] * (rows.ndim - 1)))
        return np.asarray(product, self.output.dtype.numpy)

    def required_version(self) -> int:
        if self.value.dtype is DType.INT4 or is_per_channel(self.value):
            return 4
        return 5 if self.value.dtype is DType.INT2 else 1


class ReverseV2(VersionedByDtype, code="REVERSE_V2", versions={boolean: 2, i8: 3}):
    """The elements in the opposite order along the axes."""

    input = operand()
    axis = operand(i32)

    layout_operands = ("input",)

    def infer(self) -> TensorType:
        axes = static_int_vector(self.axis)
        if axes is not None and self.input.shape is not None:
            for axis in axes:
                normalized_axis(axis, len(self.input.shape))
        return rearranged_type(self.input, self.input.shape)

    def kernel(self, input: Array, axis: Array) -> Array:
        return np.flip(input, tuple(int_list(axis)))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        axes = permuted_axes(self.axis, perm)
        return None if axes is None else {"axis": axes}


class ReverseSequence(VersionedByDtype, code="REVERSE_SEQUENCE"):
    """The first ``seq_lengths[b]`` elements along ``seq_dim`` backwards, for each b of ``batch_dim``."""

    input = operand()
    seq_lengths = operand(i32, i64)

    seq_dim: int = attribute(0)
    batch_dim: int = attribute(0)

    layout_operands = ("input",)

    def infer(self) -> TensorType:
        shape = self.input.shape
        if shape is not None:
            axes = [normalized_axis(a, len(shape)) for a in (self.seq_dim, self.batch_dim)]
            merge_dims(shape[axes[1]], vector_length(self.seq_lengths))
        return rearranged_type(self.input, shape)

    def kernel(self, input: Array, seq_lengths: Array) -> Array:
        axes = (self.batch_dim, self.seq_dim)
        data = np.moveaxis(input, axes, (0, 1))
        lengths = seq_lengths.reshape(-1, 1)
        if np.any(lengths > data.shape[1]):
            raise ModelError(f"seq_lengths has {lengths.max()}, at most {data.shape[1]} is wanted")
        places = np.arange(data.shape[1])
        order = np.where(places < lengths, lengths - 1 - places, places)
        return np.moveaxis(data[np.arange(data.shape[0])[:, None], order], (0, 1), axes)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {
            "seq_dim": axis_after_transpose(self.seq_dim, perm),
            "batch_dim": axis_after_transpose(self.batch_dim, perm),
        }


class ScatterNd(VersionedByDtype, code="SCATTER_ND"):
    """Zeros of ``shape``, and each of ``updates`` added at its index vector, quantized or not."""

    indices = operand(i32, i64)
    updates = operand()
    shape = operand(i32, i64)

    def infer(self) -> TensorType:
        require_integer_dtype(self.indices, "indices")
        dims = static_int_vector(self.shape)
        shape: Shape | None = unknown_dims(vector_length(self.shape)) if dims is None else tuple(dims)
        return rearranged_type(self.updates, shape)

    def kernel(self, indices: Array, updates: Array, shape: Array) -> Array:
        out = np.zeros(int_list(shape), updates.dtype)
        need_in_range(self, indices, np.asarray(out.shape[: indices.shape[-1]]))
        np.add.at(out, tuple(np.moveaxis(indices, -1, 0)), updates)
        return out


class TopKV2(VersionedByDtype, code="TOPK_V2", results=("values", "indices")):
    """The ``k`` greatest elements along the last axis, falling, of equal ones the first, and their places."""

    input = operand()
    k = operand(i32, i16)

    def infer(self) -> tuple[TensorType, ...]:
        shape = self.input.shape
        index_type = self.results[1].dtype if len(self.results) > 1 else i32
        if shape is None:
            return rearranged_type(self.input, None), TensorType(index_type, None)
        k = static_int(self.k, "k")
        if not shape or (k is not None and shape[-1] is not None and not 0 <= k <= shape[-1]):
            raise ShapeError(f"k is {k}, at most the last dimension of {format_shape(shape)} is wanted")
        return rearranged_type(self.input, (*shape[:-1], k)), TensorType(index_type, (*shape[:-1], k))

    def kernel(self, input: Array, k: Array) -> tuple[Array, Array]:
        count = int(k.reshape(-1)[0])
        # a stable sort of the mirrored row keeps the first of equal elements last, hence first from behind
        order = input.shape[-1] - 1 - np.argsort(input[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        indices = order[..., :count]
        values = np.take_along_axis(input, indices, axis=-1)
        return values, indices.astype(self.results[1].dtype.numpy)

    def required_version(self) -> int:
        if i16 in (self.input.dtype, self.k.dtype, self.results[1].dtype):
            return 3
        return 2 if self.input.dtype is i8 else 1


class DynamicUpdateSlice(VersionedByDtype, code="DYNAMIC_UPDATE_SLICE"):
    """``input`` with ``update`` in place of the box at ``start_indices``, which is moved so that it fits."""

    input = operand()
    update = operand()
    start_indices = operand(i32, i64)

    versions: ClassVar = {f16: 3, i16: 4, DType.INT4: 5, bf16: 6}
    layout_operands = ("input", "update")

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "update", self.update)
        shape, update = self.input.shape, self.update.shape
        if shape is not None and update is not None:
            pairs = [(d, u) for d, u in zip(shape, update, strict=False) if d is not None and u is not None]
            if len(shape) != len(update) or any(u > d for d, u in pairs):
                raise ShapeError(f"update {format_shape(update)} does not fit into {format_shape(shape)}")
        return rearranged_type(self.input, shape)

    def kernel(self, input: Array, update: Array, start_indices: Array) -> Array:
        out: Array = input.copy()
        boxes = []
        for dim, length, start in zip(input.shape, update.shape, int_list(start_indices), strict=True):
            first = min(max(start, 0), dim - length)
            boxes.append(slice(first, first + length))
        out[tuple(boxes)] = update
        return out

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        rows = permuted_rows(self.start_indices, perm)
        return None if rows is None else {"start_indices": rows}

    def required_version(self) -> int:
        return max(super().required_version(), 2 if self.start_indices.dtype is i64 else 1)
