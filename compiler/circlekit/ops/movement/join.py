# SPDX-License-Identifier: Apache-2.0
"""Tensors put together and taken apart.  Source: TFLite concatenation, pack, unpack, split, split_v."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, boolean, f16, i8, i16, i32, i64, u8, u32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, variadic_operand
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import reject_quantized, require_same_dtype
from circlekit.ops.constant_operands import (
    axis_after_transpose,
    int_list,
    permuted_axes,
    static_int,
    static_int_vector,
)
from circlekit.ops.dimensions import merge_dims, normalized_axis, unknown_dims
from circlekit.ops.fused_activation import apply_activation
from circlekit.ops.numerics.fixed_point import quantized_activation_range, round_half_away
from circlekit.ops.numerics.lookup_tables import limited, tabulated
from circlekit.ops.numerics.narrow import stored
from circlekit.ops.quantization import (
    have_same_quantization,
    is_quantized_8_or_16_bits,
    rearranged_type,
    scale_of,
    zero_point_of,
)
from circlekit.ops.versions import VersionedByDtype, Viewed


def need_operands(op: Op, values: tuple[Value, ...]) -> None:
    """ShapeError unless there are operands, all of one dtype."""
    if not values:
        raise ShapeError(f"{op.code} has no operand, at least one is wanted")
    for i, value in enumerate(values[1:], 1):
        require_same_dtype("operand 0", values[0], f"operand {i}", value)


def merged_shape(values: tuple[Value, ...], skip: int | None) -> list[int | None] | None:
    """What is known of the shape of all ``values`` together, axis ``skip`` left out of the comparison."""
    merged: list[int | None] | None = None
    for value in values:
        if value.shape is None:
            continue
        if merged is None:
            merged = list(value.shape)
            continue
        if len(merged) != len(value.shape):
            raise ShapeError(
                f"operands have ranks {len(merged)} and {len(value.shape)}, equal ones are wanted"
            )
        axis = None if skip is None else normalized_axis(skip, len(merged))
        for i, dim in enumerate(value.shape):
            if i != axis:
                merged[i] = merge_dims(merged[i], dim)
    return merged


class Concatenation(VersionedByDtype, code="CONCATENATION"):
    """The operands one behind the other along ``axis``.

    uint8 of another scale or zero point than the result's is rescaled, in float32.  int8 is not, and
    refused; int16 is taken as it is, if it has no zero point, whatever its scale: as in LiteRT.  LiteRT
    takes no fused activation; here it limits real numbers, those that integers stand for, too.
    """

    values = variadic_operand()

    axis: int = attribute(0)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")

    versions: ClassVar = {i8: 2, i16: 3, u32: 4, DType.INT4: 5, f16: 6}
    layout_operands = ("values",)

    def infer(self) -> TensorType:
        values = self.values
        need_operands(self, values)
        shape = merged_shape(values, self.axis)
        if shape is None:
            return rearranged_type(values[0], None)
        axis = normalized_axis(self.axis, len(shape))
        parts = [None if v.shape is None else v.shape[axis] for v in values]
        shape[axis] = None if None in parts else sum(p for p in parts if p is not None)
        return rearranged_type(values[0], tuple(shape))

    def bind(self, tape: Tape, *values: Array) -> Array:
        axis = normalized_axis(self.axis, values[0].ndim)
        shape = list(values[0].shape)
        shape[axis] = sum(x.shape[axis] for x in values)
        out = tape.empty(shape, values[0].dtype)
        end = 0
        for value, x in zip(self.values, values, strict=True):
            start, end = end, end + x.shape[axis]
            place = out[(slice(None),) * axis + (slice(start, end),)]
            if self.moves(value):
                tape.copy(x, place)
            else:
                tape.do(stored, lambda part, value=value: self.rescaled(value, part), x, place)
        tape.limit(out, max(tape.reach(x) for x in values))
        if self.act is not Activation.NONE and out.dtype.kind != "b":
            if self.output.quantization is not None and out.dtype.kind in "iu":
                least, most = (out.dtype.type(n) for n in quantized_activation_range(self.act, self.output))
                tape.do(np.clip, out, least, most, out)
            else:
                tape.do(apply_activation, out, self.act, out)
        return out

    def moves(self, value: Value) -> bool:
        """Whether elements of ``value`` are those of the result as they are."""
        if value.dtype is i16 and is_quantized_8_or_16_bits(value):
            if zero_point_of(value) or zero_point_of(self.output):
                reject_quantized(self)
            return True
        if have_same_quantization(value, self.output):
            return True
        if value.dtype is not u8:
            reject_quantized(self)
        return False

    def rescaled(self, value: Value, x: Array) -> Array:
        """uint8 elements of ``value``, quantized as the result."""
        scale = scale_of(value) * (np.float32(1) / scale_of(self.output))
        bias = np.float32(-zero_point_of(value)) * scale

        def moved_on(part: Array) -> Array:
            return limited(self.output, round_half_away(part.astype(np.float32) * scale + bias))

        return tabulated(x, moved_on)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {"axis": axis_after_transpose(self.axis, perm)}


class Pack(VersionedByDtype, code="PACK"):
    """The operands, all of one shape, along a new dimension ``axis``."""

    values = variadic_operand()

    values_count: int = attribute(0)
    axis: int = attribute(0)

    versions: ClassVar = {i8: 2, i16: 3, u32: 4}

    def infer(self) -> TensorType:
        values = self.values
        need_operands(self, values)
        if self.values_count != len(values):
            raise ShapeError(f"values_count is {self.values_count}, there are {len(values)} operands")
        shape = merged_shape(values, None)
        if shape is None:
            return rearranged_type(values[0], None)
        at = normalized_axis(self.axis, len(shape) + 1)
        return rearranged_type(values[0], (*shape[:at], len(values), *shape[at:]))

    def bind(self, tape: Tape, *values: Array) -> Array:
        if not all(have_same_quantization(v, self.output) for v in self.values):
            reject_quantized(self)
        if any(x.shape != values[0].shape for x in values):
            raise ShapeError(f"{self.code} of shapes {[x.shape for x in values]}, equal ones are wanted")
        axis = normalized_axis(self.axis, values[0].ndim + 1)
        shape = list(values[0].shape)
        shape.insert(axis, len(values))
        out = tape.empty(shape, values[0].dtype)
        along = np.moveaxis(out, axis, 0)
        for index, x in enumerate(values):
            tape.copy(x, along[index, ...])  # with the dots a view, of scalars too
        return out


class Unpack(Viewed, code="UNPACK", variadic_results=True):
    """The ``num`` slices along ``axis``, without that dimension."""

    input = operand()

    num: int = attribute(0)
    axis: int = attribute(0)

    versions: ClassVar = {i8: 2, u8: 2, boolean: 3, i16: 4, f16: 5}

    def infer(self) -> tuple[TensorType, ...]:
        shape = self.input.shape
        if shape is None:
            return (rearranged_type(self.input, None),) * part_count(self.num)
        axis = normalized_axis(self.axis, len(shape))
        if shape[axis] not in (None, self.num):
            raise ShapeError(f"num is {self.num}, dimension {axis} of {format_shape(shape)} is {shape[axis]}")
        return (rearranged_type(self.input, (*shape[:axis], *shape[axis + 1 :])),) * part_count(self.num)

    def kernel(self, input: Array) -> tuple[Array, ...]:
        parts = np.moveaxis(input, self.axis, 0)
        return tuple(parts[i, ...] for i in range(len(parts)))  # views, of single elements too


MOST_PARTS = 1 << 16
"""Results of one operator."""


def part_count(count: int) -> int:
    """``count``, where an operator can have so many results."""
    if count > MOST_PARTS:
        raise ShapeError(f"{count} parts, at most {MOST_PARTS} can be")
    return count


class Split(Viewed, code="SPLIT", variadic_results=True, typed_by=1):
    """``num_splits`` equal parts along axis ``split_dim``."""

    split_dim = operand(i32)
    value = operand()

    num_splits: int = attribute(0)

    versions: ClassVar = {i8: 2, i32: 3, i16: 4}
    layout_operands = ("value",)

    def infer(self) -> tuple[TensorType, ...]:
        shape, axis = self.value.shape, static_int(self.split_dim, "split_dim")
        if self.num_splits < 1:
            raise ShapeError(f"num_splits is {self.num_splits}, at least 1 is wanted")
        if shape is None or axis is None:
            return (rearranged_type(self.value, unknown_dims(self.value.rank)),) * part_count(self.num_splits)
        at = normalized_axis(axis, len(shape))
        size = shape[at]
        if size is not None and size % self.num_splits:
            raise ShapeError(f"a dimension of {size} does not split into {self.num_splits} equal parts")
        part = None if size is None else size // self.num_splits
        return (rearranged_type(self.value, (*shape[:at], part, *shape[at + 1 :])),) * part_count(
            self.num_splits
        )

    def kernel(self, split_dim: Array, value: Array) -> tuple[Array, ...]:
        axis = normalized_axis(int(split_dim.reshape(-1)[0]), value.ndim)
        return tuple(np.split(value, self.num_splits, axis=axis))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        axis = permuted_axes(self.split_dim, perm)
        return None if axis is None else {"split_dim": axis}


class SplitV(Viewed, code="SPLIT_V", variadic_results=True, versions={i8: 2}):
    """Parts of ``size_splits`` along axis ``split_dim``; one size may be -1: what is left."""

    value = operand()
    size_splits = operand(i32, i64)
    split_dim = operand(i32)

    num_splits: int = attribute(0)

    layout_operands = ("value",)

    def infer(self) -> tuple[TensorType, ...]:
        shape, axis = self.value.shape, static_int(self.split_dim, "split_dim")
        sizes = static_int_vector(self.size_splits)
        if sizes is not None and len(sizes) != self.num_splits:
            raise ShapeError(f"size_splits has {len(sizes)} elements, num_splits is {self.num_splits}")
        if shape is None or axis is None:
            return (rearranged_type(self.value, unknown_dims(self.value.rank)),) * part_count(self.num_splits)
        at = normalized_axis(axis, len(shape))
        parts: Shape = (None,) * part_count(self.num_splits)
        if sizes is not None:
            parts = tuple(self.resolve(sizes, shape[at]))
        return tuple(rearranged_type(self.value, (*shape[:at], p, *shape[at + 1 :])) for p in parts)

    def resolve(self, sizes: list[int], size: int | None) -> list[int | None]:
        """``sizes`` with -1 replaced, where the dimension's ``size`` is known."""
        fixed = sum(s for s in sizes if s != -1)
        if sizes.count(-1) > 1 or min(sizes, default=0) < -1:
            raise ShapeError(f"size_splits is {sizes}, at most one -1 and no other negative is wanted")
        if size is not None and (fixed > size if -1 in sizes else fixed != size):
            raise ShapeError(f"size_splits is {sizes}, a dimension of {size} is to be split")
        left = None if size is None else size - fixed
        return [left if s == -1 else s for s in sizes]

    def kernel(self, value: Array, size_splits: Array, split_dim: Array) -> tuple[Array, ...]:
        axis = normalized_axis(int(split_dim.reshape(-1)[0]), value.ndim)
        sizes = self.resolve(int_list(size_splits), value.shape[axis])
        return tuple(np.split(value, np.cumsum([s or 0 for s in sizes])[:-1], axis=axis))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        axis = permuted_axes(self.split_dim, perm)
        return None if axis is None else {"split_dim": axis}
