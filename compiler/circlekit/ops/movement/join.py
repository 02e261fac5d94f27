# SPDX-License-Identifier: Apache-2.0
"""Operators that join and split tensors.  Source: TFLite concatenation, pack, unpack, split, split_v.

In a quantization rule, ``operands_follow`` names the operands that have the scale and zero point of the
result, and ``results_follow`` the operand whose scale and zero point all results have.  ``rearranged_type``
keeps the dtype of a value, and its quantization if that is one scale for the whole tensor.  ``versions``:
the operator version by dtype.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from circlekit.errors import ShapeError, counted
from circlekit.ir.dtypes import DType, boolean, f16, i8, i16, i32, i64, u8, u32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, variadic_operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, TensorType, Value, format_shape
from circlekit.ops.checks import common_shape, reject_quantized
from circlekit.ops.constant_operands import int_list, static_int, static_int_vector
from circlekit.ops.dimensions import Dim, known_dims, normalized_axis, unknown_dims
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.numerics.fixed_point import clamp_to_dtype, quantized_activation_range, round_half_away
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.quantized_values import (
    have_same_quantization,
    is_quantized_8_or_16_bits,
    rearranged_type,
    scale_of,
    zero_point_of,
)


class Concatenation(
    Op, code="CONCATENATION", data_movement=True, layout_operands=("values",), axis_numbers=("axis",)
):
    """The operands, concatenated along ``axis``.

    As in LiteRT, a uint8 operand is rescaled in float32 if its quantization differs from that of the result.
    An int8 operand must have the quantization of the result.  A quantized int16 operand is copied without
    regard to its scale, but its zero point and that of the result must be 0.  LiteRT rejects a fused
    activation; this kernel applies it.
    """

    quantization_rule = QuantizationRule(operands_follow=("values",))

    values = variadic_operand(*ANY)

    axis: int = attribute(0)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")

    versions: ClassVar = {i8: 2, i16: 3, u32: 4, DType.INT4: 5, f16: 6}

    def infer(self) -> TensorType:
        values = self.values
        shape = common_shape(self, values, self.axis)
        if shape is None:
            return rearranged_type(values[0], None)
        axis = normalized_axis(self.axis, len(shape))
        parts = [None if v.shape is None else v.shape[axis] for v in values]
        shape[axis] = None if None in parts else sum(p for p in parts if p is not None)
        return rearranged_type(values[0], tuple(shape))

    def kernel(self, *values: Array) -> Array:
        parts = [self.requantized(v, x) for v, x in zip(self.values, values, strict=True)]
        out = np.concatenate(parts, axis=normalized_axis(self.axis, values[0].ndim))
        if self.act is Activation.NONE or out.dtype.kind == "b":
            return out
        if is_quantized_8_or_16_bits(self.output):
            return np.asarray(np.clip(out, *quantized_activation_range(self.act, self.output)), out.dtype)
        return apply_activation(out, self.act)

    def requantized(self, value: Value, x: Array) -> Array:
        """Return ``x``, the elements of ``value``, in the quantization of the result.

        Raise UnsupportedError if LiteRT has no kernel for these quantizations.
        """
        if value.dtype is i16 and is_quantized_8_or_16_bits(value):
            if zero_point_of(value) or zero_point_of(self.output):
                reject_quantized(self)  # raises an error
            return x
        if have_same_quantization(value, self.output):
            return x
        if value.dtype is not u8:
            reject_quantized(self)
        # in the order of LiteRT's operations, which decides the rounding
        scale = scale_of(value) * (np.float32(1) / scale_of(self.output))
        bias = np.float32(-zero_point_of(value)) * scale
        return clamp_to_dtype(round_half_away(x.astype(np.float32) * scale + bias), self.output)


class Pack(Op, code="PACK", data_movement=True, versions={i8: 2, i16: 3, u32: 4}):
    """The operands, of equal shape, stacked along the new ``axis`` of the result."""

    quantization_rule = QuantizationRule(operands_follow=("values",))

    values = variadic_operand(*ANY)

    values_count: int = attribute(0)
    axis: int = attribute(0)

    def infer(self) -> TensorType:
        values = self.values
        if self.values_count != len(values):
            raise ShapeError(f"values_count: expected {len(values)}, got {self.values_count}")
        shape = common_shape(self, values)
        if shape is None:
            return rearranged_type(values[0], None)
        axis = normalized_axis(self.axis, len(shape) + 1)
        return rearranged_type(values[0], (*shape[:axis], len(values), *shape[axis:]))

    def kernel(self, *values: Array) -> Array:
        if not all(have_same_quantization(v, self.output) for v in self.values):
            reject_quantized(self)
        if any(x.shape != values[0].shape for x in values):
            raise ShapeError(f"PACK: expected operands of one shape, got {[x.shape for x in values]}")
        return np.stack(values, axis=self.axis)


class Unpack(Op, code="UNPACK", variadic_results=True, data_movement=True):
    """The slices of ``input`` along ``axis``, without that axis: a result for each of its ``num`` indices."""

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)

    num: int = attribute(0)
    axis: int = attribute(0)

    versions: ClassVar = {i8: 2, u8: 2, boolean: 3, i16: 4, f16: 5}

    def infer(self) -> tuple[TensorType, ...]:
        shape = self.input.shape
        if shape is None:
            return (rearranged_type(self.input, None),) * checked_part_count(self.num)
        axis = normalized_axis(self.axis, len(shape))
        if shape[axis] not in (None, self.num):
            dim = f"dimension {axis} of {format_shape(shape)}"
            raise ShapeError(f"num: expected {shape[axis]}, {dim}, got {self.num}")
        part = rearranged_type(self.input, (*shape[:axis], *shape[axis + 1 :]))
        return (part,) * checked_part_count(self.num)

    def kernel(self, input: Array) -> tuple[Array, ...]:
        parts = np.moveaxis(input, self.axis, 0)
        return tuple(parts[i, ...] for i in range(len(parts)))  # with ``...`` a scalar stays an array


MAX_PARTS = 1 << 16
"""The largest number of results of one operator; only damaged files exceed it."""


def checked_part_count(count: int) -> int:
    """Return ``count``, a number of results; raise ShapeError if it exceeds MAX_PARTS."""
    if count > MAX_PARTS:
        raise ShapeError(f"expected at most {MAX_PARTS} parts, got {count}")
    return count


class SplitOperator(Op, layout_operands=("value",), axis_numbers=("split_dim",)):
    """Base class of operators that split ``value`` into ``num_splits`` parts along the axis ``split_dim``."""

    quantization_rule = QuantizationRule(results_follow="value")

    value: Value
    split_dim: Value

    num_splits: int = attribute(0)

    @abstractmethod
    def part_sizes(self, size: Dim) -> Sequence[Dim]:
        """Return the sizes of the parts of a dimension of ``size``; None stands for an unknown size.

        Raise ShapeError if the dimension cannot be split.
        """

    def infer(self) -> tuple[TensorType, ...]:
        shape, axis = self.value.shape, static_int(self.split_dim, "split_dim")
        if shape is None or axis is None:  # no dimension of the parts is known
            return (rearranged_type(self.value, unknown_dims(self.value.rank)),) * len(self.part_sizes(None))
        axis = normalized_axis(axis, len(shape))
        sizes = self.part_sizes(shape[axis])
        return tuple(rearranged_type(self.value, (*shape[:axis], n, *shape[axis + 1 :])) for n in sizes)


class Split(SplitOperator, code="SPLIT", variadic_results=True, version_operand=1, data_movement=True):
    """``value`` split into ``num_splits`` equal parts along the axis ``split_dim``."""

    split_dim = operand(i32)
    value = operand(*ANY)

    versions: ClassVar = {i8: 2, i32: 3, i16: 4}

    def part_sizes(self, size: Dim) -> Sequence[Dim]:
        if self.num_splits < 1:
            raise ShapeError(f"num_splits: expected at least 1, got {self.num_splits}")
        if size is not None and size % self.num_splits:
            raise ShapeError(f"a dimension of {size} cannot be split into {self.num_splits} equal parts")
        return [None if size is None else size // self.num_splits] * checked_part_count(self.num_splits)

    def kernel(self, split_dim: Array, value: Array) -> tuple[Array, ...]:
        axis = normalized_axis(int(split_dim.reshape(-1)[0]), value.ndim)
        return tuple(np.split(value, self.num_splits, axis=axis))


class SplitV(SplitOperator, code="SPLIT_V", variadic_results=True, versions={i8: 2}, data_movement=True):
    """``value`` split along the axis ``split_dim`` into parts of ``size_splits``; -1 means the rest."""

    value = operand(*ANY)
    size_splits = operand(i32, i64)
    split_dim = operand(i32)

    def part_sizes(self, size: Dim) -> Sequence[Dim]:
        sizes = static_int_vector(self.size_splits)
        if sizes is None:
            return [None] * checked_part_count(self.num_splits)
        if len(sizes) != self.num_splits:
            raise ShapeError(f"size_splits: expected {counted(self.num_splits, 'element')}, got {len(sizes)}")
        return _resolved_sizes(sizes, size)

    def kernel(self, value: Array, size_splits: Array, split_dim: Array) -> tuple[Array, ...]:
        return tuple(split_by_sizes(value, size_splits, split_dim))


def split_by_sizes(x: Array, size_splits: Array, split_dim: Array) -> list[Array]:
    """Return ``x`` split along ``split_dim`` into parts of ``size_splits``; -1 means the rest."""
    axis = normalized_axis(int(split_dim.reshape(-1)[0]), x.ndim)
    sizes = _resolved_sizes(int_list(size_splits), x.shape[axis])
    return np.split(x, np.cumsum(known_dims(sizes))[:-1], axis=axis)


def _resolved_sizes(sizes: Sequence[int], size: Dim) -> list[Dim]:
    """Return ``sizes`` with -1 replaced by the rest of ``size``, or by None if ``size`` is unknown.

    Raise ShapeError if they do not fit.
    """
    fixed = sum(s for s in sizes if s != -1)
    if sizes.count(-1) > 1 or any(s < -1 for s in sizes):
        raise ShapeError(f"size_splits: expected at most one -1 and no other negative, got {sizes}")
    if size is not None and (fixed > size if -1 in sizes else fixed != size):
        sum_of = "a sum of at most" if -1 in sizes else "a sum of"
        raise ShapeError(f"size_splits: expected {sum_of} {size}, got {sizes}")
    rest = None if size is None else size - fixed
    return [rest if s == -1 else s for s in sizes]
