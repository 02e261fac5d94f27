# SPDX-License-Identifier: Apache-2.0
"""Comparison, logic and selection.  Source: TFLite comparisons, logical, select, where.

Class arguments or attributes: ``function`` is the numpy function of the elements (``Comparison`` converts
quantized ones first), ``kinds`` are numpy's letters of the dtypes that this function takes, ``versions`` is
{dtype of the data: operator version}, with 1 for other dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ShapeError, counted
from circlekit.ir.dtypes import DType, boolean, f32, i8, i16, i32, i64, u8, u32
from circlekit.ir.op import Op, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import require_same_dtype
from circlekit.ops.constant_operands import plain_data
from circlekit.ops.dimensions import Dim, broadcast_shapes, dims_differ
from circlekit.ops.elementwise import Binary, Unary
from circlekit.ops.numerics.fixed_point import (
    centered,
    quantize_multiplier,
    rounding_divide_by_pot_on_x86,
    saturating_rounding_doubling_high_mul,
)
from circlekit.ops.operand_dtypes import ANY, NUMBERS
from circlekit.ops.quantized_values import per_tensor_quantization, scale_of


class Comparison(Binary, versions={i8: 2}):
    """Base class of comparisons, which give one bool for each pair of elements.

    Quantized data are compared as real numbers, rounded to multiples of 1/256.  LiteRT assumes scales below
    1.  It ends the process for a scale of 1.  For a larger scale its results are wrong, and this kernel gives
    the same wrong results.
    """

    # these operands share one scale, because the result, a bool, has no scale that they could have
    quantization_rule = QuantizationRule(operands_follow=("lhs", "rhs"), scales_below=1.0)

    def infer(self) -> TensorType:
        return TensorType(boolean, super().infer().shape)

    def compute(self, x: Array, y: Array) -> Array:
        return np.asarray(super().compute(x, y), np.bool_)

    def quantized(self, x: Array, y: Array) -> Array:
        return self.compute(_in_256ths(x, self.lhs), _in_256ths(y, self.rhs))


def _in_256ths(x: Array, value: Value) -> Array:
    """Return ``x``, the elements of ``value``, as real numbers in units of 1/256, rounded to int64."""
    multiplier = quantize_multiplier(scale_of(value))
    product = saturating_rounding_doubling_high_mul(centered(x, value) << 8, multiplier.mantissa)
    return rounding_divide_by_pot_on_x86(product, -multiplier.shift)


class Ordering(Comparison):
    """Base class of <, <=, >, >=.  LiteRT compares int16 data as plain integers and ignores their scales."""

    ignores_scales = (i16,)


class Less(Ordering, code="LESS", versions={i8: 2, i16: 3}, function=np.less):
    """lhs < rhs."""


class LessEqual(Ordering, code="LESS_EQUAL", function=np.less_equal):
    """lhs <= rhs."""


class Greater(Ordering, code="GREATER", function=np.greater):
    """lhs > rhs."""


class GreaterEqual(Ordering, code="GREATER_EQUAL", versions={i8: 2, i16: 3}, function=np.greater_equal):
    """lhs >= rhs."""


class Equality(Comparison):
    """Base class of EQUAL and NOT_EQUAL, which compare strings too."""

    lhs = operand(*NUMBERS, boolean, DType.STRING)
    rhs = operand(*NUMBERS, boolean, DType.STRING)

    kinds = "fiubO"  # float, signed, unsigned, bool, Python object (a string)


class Equal(Equality, code="EQUAL", commutative=True, versions={i8: 2, DType.STRING: 3, i16: 5}):
    """lhs == rhs."""

    function = np.equal


class NotEqual(Equality, code="NOT_EQUAL", commutative=True, versions={i8: 2, DType.STRING: 3, i16: 4}):
    """lhs != rhs."""

    function = np.not_equal


class LogicalBinary(Binary, kinds="b"):
    """Base class of functions of two bools."""

    lhs = operand(boolean)
    rhs = operand(boolean)


class LogicalAnd(LogicalBinary, code="LOGICAL_AND", commutative=True, function=np.logical_and):
    """Whether both lhs and rhs are true."""


class LogicalOr(LogicalBinary, code="LOGICAL_OR", commutative=True, function=np.logical_or):
    """Whether at least one of lhs and rhs is true."""


class LogicalNot(Unary, code="LOGICAL_NOT", kinds="b", function=np.logical_not):
    """The negation of each bool."""

    input = operand(boolean)


class Selection(Op, layout_operands=("condition", "x", "y")):
    """Base class of SELECT and SELECT_V2."""

    quantization_rule = QuantizationRule(operands_follow=("x", "y"))

    condition = operand(boolean)
    x = operand(*ANY)
    y = operand(*ANY)

    def selected_type(self, *shapes: Shape | None) -> TensorType:
        """Return the type of the result, with the shape to which ``shapes`` broadcast.

        Without ``shapes``, the rank is unknown.  If operands and result have one element each, the result
        keeps its declared shape, as in LiteRT; so it may be a scalar although an operand has axes.
        Raise ShapeError if dtypes or shapes do not fit.
        """
        require_same_dtype("x", self.x, "y", self.y)
        if self.condition.dtype is not boolean:
            raise ShapeError(f"condition: expected bool, got {self.condition.dtype.short}")
        shape = broadcast_shapes(*shapes) if shapes else None
        operands = self.condition, self.x, self.y
        if self.results and _has_one_element(self.output):
            if all(map(_has_one_element, operands)):
                shape = self.output.shape
            elif shape is not None and len(shape) != self.output.rank and set(shape) <= {None, 1}:
                shape = None  # the unknown dimensions decide which of the two ranks the result has
        return TensorType(self.x.dtype, shape, per_tensor_quantization(self.x))

    def kernel(self, condition: Array, x: Array, y: Array) -> Array:
        out = np.where(condition, x, y)
        keeps_shape = out.size == 1 and _has_one_element(self.output)  # see ``selected_type``
        return out.reshape(self.output.static_shape) if keeps_shape else out


def _has_one_element(value: Value) -> bool:
    return value.is_static and value.numel == 1


class Select(Selection, code="SELECT"):
    """x where the condition is true, else y.

    x and y must have the same rank.  TFLite requires the same shape; here x and y may broadcast.  If x and y
    have two or more axes and the condition is a vector, it has one bool per row (index of axis 0), or one for
    all rows.  Any other condition broadcasts with x and y.
    """

    def infer(self) -> TensorType:
        ranks = {v.rank for v in (self.x, self.y) if v.rank is not None}
        if len(ranks) > 1:
            x, y = map(format_shape, (self.x.shape, self.y.shape))
            raise ShapeError(f"expected x and y of equal rank, got {x} and {y}")
        if not ranks:
            return self.selected_type()
        unknown = (None,) * ranks.pop()
        shapes = [unknown if v.shape is None else v.shape for v in (self.x, self.y)]
        if self.selects_rows():
            self.check_rows(self.condition.known_shape[0], broadcast_shapes(*shapes))
        elif self.condition.shape is not None:
            shapes.append(self.condition.shape)
        return self.selected_type(*shapes)

    def selects_rows(self) -> bool:
        """Return whether the condition selects rows: it is a vector, and x or y has two or more axes."""
        return self.condition.rank == 1 and any(len(v.shape or ()) > 1 for v in (self.x, self.y))

    def check_rows(self, count: Dim, selected: Shape | None) -> None:
        """Raise ShapeError unless ``count`` is 1 or the number of rows in the shape ``selected``."""
        if selected is not None and count != 1 and dims_differ(count, selected[0]):
            expected = f"expected {counted(selected[0], 'element')}, one per row"
            raise ShapeError(f"condition: {expected}, got {count}")

    def kernel(self, condition: Array, x: Array, y: Array) -> Array:
        if condition.ndim == 1 and x.ndim > 1:
            self.check_rows(len(condition), broadcast_shapes(x.shape, y.shape))
            condition = condition.reshape((-1,) + (1,) * (x.ndim - 1))
        return super().kernel(condition, x, y)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return None if self.selects_rows() else {}  # {}: no attribute and no constant has to change

    def required_version(self) -> int:
        return 3 if 5 in [v.rank for v in (self.condition, self.x, self.y)] else 1


class SelectV2(Selection, code="SELECT_V2"):
    """x where the condition is true, else y; the three operands broadcast."""

    def infer(self) -> TensorType:
        return self.selected_type(self.condition.shape, self.x.shape, self.y.shape)

    def required_version(self) -> int:
        return 2 if self.x.dtype is u32 else 1


class Where(Op, code="WHERE"):
    """The indices of all elements of ``condition`` that are not 0: i64[count, rank], in row-major order."""

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
