# SPDX-License-Identifier: Apache-2.0
"""Operators that write elements by index.  Source: TFLite scatter_nd, dynamic_update_slice.

``operands_follow``: the operands that have the scale and zero point of the result.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, bf16, f16, i16, i32, i64
from circlekit.ir.op import Op, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import (
    NUMERIC_KINDS,
    require_length,
    require_numpy_kind,
    require_same_dtype,
    require_shape,
)
from circlekit.ops.constant_operands import int_list, listed_shape
from circlekit.ops.movement.gather import require_in_range
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.quantized_values import rearranged_type


class ScatterNd(Op, code="SCATTER_ND"):
    """Zeros of ``shape``, to which ``updates`` are added.

    Each vector along the last axis of ``indices`` has the leading indices of a slice of the result.  One
    slice of ``updates`` is added to this slice.  Example: the indices [[2], [0]] add updates[0] to result[2],
    and updates[1] to result[0].
    """

    # the kernel starts with the integer 0, so the zero points must be 0
    quantization_rule = QuantizationRule(operands_follow=("updates",), symmetric=("updates", "output"))

    indices = operand(i32, i64)
    updates = operand(*ANY)
    shape = operand(i32, i64)

    def infer(self) -> TensorType:
        shape = listed_shape(self.shape)
        if self.indices.shape is not None:
            _check_indices(self.indices.shape, self.updates.shape, shape)
        return rearranged_type(self.updates, shape)

    def kernel(self, indices: Array, updates: Array, shape: Array) -> Array:
        require_numpy_kind(self, updates, NUMERIC_KINDS)
        out = np.zeros(int_list(shape), updates.dtype)
        _check_indices(indices.shape, updates.shape, out.shape)
        require_in_range(self, indices, np.asarray(out.shape[: indices.shape[-1]]))
        if not indices.shape[-1]:  # each slice is all of the result
            return np.asarray(updates.sum(axis=tuple(range(indices.ndim - 1)), dtype=out.dtype))
        np.add.at(out, tuple(np.moveaxis(indices, -1, 0)), updates)
        return out


def _check_indices(indices: Shape, updates: Shape | None, shape: Shape | None) -> None:
    """Raise ShapeError if operands of these shapes do not fit a result of ``shape``."""
    if not indices:
        raise ShapeError("expected indices of rank 1 or more, got a scalar")
    *count, depth = indices
    if shape is None or depth is None:
        return
    if depth > len(shape):
        raise ShapeError(f"indices: expected vectors of at most {len(shape)} numbers, got {depth}")
    require_shape(updates, (*count, *shape[depth:]), "updates")


class DynamicUpdateSlice(Op, code="DYNAMIC_UPDATE_SLICE", versions={f16: 3, i16: 4, DType.INT4: 5, bf16: 6}):
    """``input`` with ``update`` written over the part that begins at ``start_indices``.

    The indices are clamped so that the part is inside of the input.
    """

    quantization_rule = QuantizationRule(operands_follow=("input", "update"))

    input = operand(*ANY)
    update = operand(*ANY)
    start_indices = operand(i32, i64)

    layout_operands = ("input", "update")
    per_axis_operands: ClassVar = {"start_indices": 0}

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "update", self.update)
        shape, update = self.input.shape, self.update.shape
        if shape is not None:
            require_length(self.start_indices.shape, len(shape), "start_indices")
        if shape is not None and update is not None:
            pairs = [(d, u) for d, u in zip(shape, update, strict=False) if d is not None and u is not None]
            if len(shape) != len(update) or any(u > d for d, u in pairs):
                raise ShapeError(f"update {format_shape(update)} does not fit into {format_shape(shape)}")
        return rearranged_type(self.input, shape)

    def kernel(self, input: Array, update: Array, start_indices: Array) -> Array:
        out: Array = input.copy()
        ranges = []
        for dim, length, start in zip(input.shape, update.shape, int_list(start_indices), strict=True):
            first = min(max(start, 0), dim - length)
            ranges.append(slice(first, first + length))
        out[tuple(ranges)] = update
        return out

    def required_version(self) -> int:
        return max(super().required_version(), 2 if self.start_indices.dtype is i64 else 1)
