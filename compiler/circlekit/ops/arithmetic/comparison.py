# SPDX-License-Identifier: Apache-2.0
"""Comparison, logic and choice.  Source: TFLite comparisons, logical, select, where."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, boolean, f32, i8, i16, i32, i64, u8, u32
from circlekit.ir.op import operand
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import require_same_dtype
from circlekit.ops.constant_operands import plain_data
from circlekit.ops.dimensions import broadcast_shapes, common_shape
from circlekit.ops.elementwise import Binary, Unary
from circlekit.ops.numerics.fixed_point import multiply_by_quantized_multiplier, quantize_multiplier
from circlekit.ops.numerics.lookup_tables import tabulated_pairs
from circlekit.ops.quantization import per_tensor_quantization, scale_of, zero_point_of
from circlekit.ops.versions import VersionedByDtype


class Comparison(Binary):
    """A truth value for every two elements.

    Quantized ones are compared as real numbers, which are rounded to 1/256.
    """

    versions: ClassVar = {i8: 2}

    def compute(self, x: Array, y: Array) -> Array:
        assert self.function is not None  # every comparison has one
        return np.asarray(self.function(x, y), np.bool_)

    def quantized(self, x: Array, y: Array) -> Array:
        return tabulated_pairs(x, y, self.compare_real)

    def compare_real(self, x: Array, y: Array) -> Array:
        return self.compute(self.in_256ths(x, self.lhs), self.in_256ths(y, self.rhs))

    def in_256ths(self, x: Array, value: Value) -> Array:
        scale = quantize_multiplier(scale_of(value))
        return multiply_by_quantized_multiplier((x.astype(np.int32) - zero_point_of(value)) << 8, scale)

    def infer(self) -> TensorType:
        return TensorType(boolean, super().infer().shape)


class Order(Comparison):
    """An order of two elements; LiteRT compares int16 as plain integers, whatever their scales."""

    def quantized(self, x: Array, y: Array) -> Array:
        return self.compute(x, y) if self.lhs.dtype is i16 else super().quantized(x, y)


class Less(Order, code="LESS", versions={i8: 2, i16: 3}):
    """lhs < rhs."""

    function = np.less


class LessEqual(Order, code="LESS_EQUAL"):
    """lhs <= rhs."""

    function = np.less_equal


class Greater(Order, code="GREATER"):
    """lhs > rhs."""

    function = np.greater


class GreaterEqual(Order, code="GREATER_EQUAL", versions={i8: 2, i16: 3}):
    """lhs >= rhs."""

    function = np.greater_equal


class Equal(Comparison, code="EQUAL", commutative=True):
    """lhs == rhs."""

    versions: ClassVar = {i8: 2, DType.STRING: 3, i16: 5}
    kinds = "fiubO"  # strings are objects

    function = np.equal


class NotEqual(Comparison, code="NOT_EQUAL", commutative=True):
    """lhs != rhs."""

    versions: ClassVar = {i8: 2, DType.STRING: 3, i16: 4}
    kinds = "fiubO"  # strings are objects

    function = np.not_equal


class LogicalAnd(Binary, code="LOGICAL_AND", commutative=True):
    """Both."""

    kinds = "b"

    function = np.logical_and


class LogicalOr(Binary, code="LOGICAL_OR", commutative=True):
    """Either."""

    kinds = "b"

    function = np.logical_or


class LogicalNot(Unary, code="LOGICAL_NOT"):
    """The other truth value."""

    kinds = "b"

    function = np.logical_not


def _check_choice(condition: Value, x: Value, y: Value) -> None:
    require_same_dtype("x", x, "y", y)
    if condition.dtype is not boolean:
        raise ShapeError(f"condition is {condition.dtype.short}, bool is wanted")


def chosen(tape: Tape, condition: Array, x: Array, y: Array) -> Array:
    """``x`` where the condition holds, else ``y``; all three broadcast."""
    out = tape.empty(common_shape(condition, x, y), x.dtype)
    tape.copy(y, out)
    tape.do(np.copyto, out, x, "no", condition)
    return out


class Select(VersionedByDtype, code="SELECT"):
    """x where the condition holds, else y, both of one shape.

    The condition has that shape too, or is a scalar, or is a vector that chooses along axis 0.
    """

    condition = operand(boolean)
    x = operand()
    y = operand()

    layout_operands = ("condition", "x", "y")

    def infer(self) -> TensorType:
        _check_choice(self.condition, self.x, self.y)
        shapes = [self.x.shape, self.y.shape]
        known = [s for s in shapes if s is not None]
        if len({len(s) for s in known}) > 1:
            raise ShapeError(
                f"x has shape {format_shape(shapes[0])}, y {format_shape(shapes[1])}, equal ones are wanted"
            )
        condition = self.condition.shape
        if not self.chooses_rows() and condition is not None and len(condition):
            known.append(condition)
        return TensorType(
            self.x.dtype, broadcast_shapes(*known) if known else None, per_tensor_quantization(self.x)
        )

    def chooses_rows(self) -> bool:
        """Whether the condition is a vector over axis 0 of x and y of a higher rank."""
        return self.condition.rank == 1 and max(self.x.rank or 0, self.y.rank or 0) > 1

    def bind(self, tape: Tape, condition: Array, x: Array, y: Array) -> Array:
        if condition.ndim == 1 and x.ndim > 1:
            condition = tape.reshaped(condition, (-1,) + (1,) * (x.ndim - 1))
        return chosen(tape, condition, x, y)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return None if self.chooses_rows() else {}

    def required_version(self) -> int:
        if 5 in [v.rank for v in (self.condition, self.x, self.y)]:
            return 3
        return 1


class SelectV2(VersionedByDtype, code="SELECT_V2"):
    """x where the condition holds, else y; all three broadcast."""

    condition = operand(boolean)
    x = operand()
    y = operand()

    layout_operands = ("condition", "x", "y")

    def infer(self) -> TensorType:
        _check_choice(self.condition, self.x, self.y)
        shape = broadcast_shapes(self.condition.shape, self.x.shape, self.y.shape)
        return TensorType(self.x.dtype, shape, per_tensor_quantization(self.x))

    def bind(self, tape: Tape, condition: Array, x: Array, y: Array) -> Array:
        return chosen(tape, condition, x, y)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}

    def required_version(self) -> int:
        return 2 if self.x.dtype is u32 else 1


class Where(VersionedByDtype, code="WHERE"):
    """The indices of all elements that are not zero, i64[count, rank], in order."""

    condition = operand(boolean, f32, i64, i32, i8, u8, u32)

    def infer(self) -> TensorType:
        data = plain_data(self.condition)
        count = None if data is None else int(np.count_nonzero(data))
        shape: Shape = (count, self.condition.rank)
        return TensorType(i64, shape)

    def kernel(self, condition: Array) -> Array:
        return np.argwhere(condition).astype(np.int64, copy=False)

    def required_version(self) -> int:
        return 1 if self.condition.dtype is boolean else 2
