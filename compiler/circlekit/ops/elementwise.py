# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on two operands that broadcast.

Source: TFLite add, sub, mul, div, maximum_minimum, pow, squared_difference, floor_div, floor_mod, atan2.
Integers wrap around.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f16, i8, i16, i64, u32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, variadic_operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.bases import Binary, Typed, is_quantized, need_kind, need_same_dtype, refuse_quantized
from circlekit.ops.common import fused, merge_dims


class Fused(Binary):
    """A binary operator that applies an activation to its result."""

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    fuses_activation = True

    def kernel(self, lhs: Array, rhs: Array) -> Array:
        return fused(super().kernel(lhs, rhs), self.act)


class Add(Fused, code="ADD", commutative=True):
    """lhs + rhs."""

    pot_scale_int16: bool = attribute(True, quantized_only=True)

    kinds = "fiuc"

    def compute(self, x: Array, y: Array) -> Array:
        return np.asarray(x + y)

    def required_version(self) -> int:
        dtype = self.lhs.dtype
        if dtype is i16:
            if not is_quantized(self.lhs):
                return 5
            return 1 if self.pot_scale_int16 else 3
        return {f16: 6, i64: 4, i8: 2}.get(dtype, 1)


class Sub(Fused, code="SUB"):
    """lhs - rhs."""

    pot_scale_int16: bool = attribute(True, quantized_only=True)

    kinds = "fiuc"

    def compute(self, x: Array, y: Array) -> Array:
        return np.asarray(x - y)

    def required_version(self) -> int:
        dtype = self.lhs.dtype
        if dtype is i16 and not self.pot_scale_int16:
            return 5
        if dtype is i64:
            return 4
        if self.broadcasts_beyond_4d():
            return 3
        return 2 if dtype is i8 else 1


class Mul(Fused, code="MUL", commutative=True):
    """lhs * rhs."""

    kinds = "fiuc"

    def compute(self, x: Array, y: Array) -> Array:
        return np.asarray(x * y)

    def required_version(self) -> int:
        dtype = self.lhs.dtype
        plain = {u32: 7, DType.COMPLEX64: 6, i64: 5}
        if dtype in plain:
            return plain[dtype]
        if dtype is i16:
            return 4 if is_quantized(self.lhs) else 7
        if self.rescale() >= 1:
            return 3
        return 2 if dtype is i8 else 1

    def rescale(self) -> float:
        """Lhs scale * rhs scale / output scale; 0 where one of them has none."""
        values = (self.lhs, self.rhs, self.output)
        scales = [float(v.quantization.scale[0]) for v in values if is_quantized(v) and v.quantization]
        return 0.0 if len(scales) < 3 or 0.0 in scales else scales[0] * scales[1] / scales[2]


class Div(Fused, code="DIV"):
    """lhs / rhs; integers round towards zero."""

    def compute(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return np.asarray(x / y)
        need_no_zero(self, y)
        floor = x // y
        return np.asarray(floor + ((x % y != 0) & ((x < 0) != (y < 0))).astype(x.dtype))

    def required_version(self) -> int:
        return 2 if self.broadcasts_beyond_4d() else 1


def need_no_zero(op: Op, divisors: Array) -> None:
    """UnsupportedError where an integer would be divided by zero."""
    if divisors.dtype.kind in "iu" and not np.all(divisors):
        raise UnsupportedError(f"{op.code}: an integer divided by 0 has no value")


class Extremum(Binary, options="MaximumMinimumOptions"):
    """MAXIMUM and MINIMUM: the first wins only where it is truly beyond the second (NaN is not)."""

    versions: ClassVar = {i8: 2, i16: 4}

    def infer(self) -> TensorType:
        inferred = super().infer()
        return TensorType(inferred.dtype, inferred.shape, self.lhs.quantization)

    def kernel(self, lhs: Array, rhs: Array) -> Array:
        if (
            is_quantized(self.lhs)
            and not self.lhs.quantization == self.rhs.quantization == self.output.quantization
        ):
            refuse_quantized(self)
        need_kind(self, lhs, self.kinds)
        return np.asarray(self.compute(lhs, rhs))

    def required_version(self) -> int:
        if self.lhs.dtype is not i16 and self.broadcasts_beyond_4d():
            return 3
        return super().required_version()


class Maximum(Extremum, code="MAXIMUM", options="MaximumMinimumOptions", commutative=True):
    """The greater of both."""

    def compute(self, x: Array, y: Array) -> Array:
        return np.where(x > y, x, y)


class Minimum(Extremum, code="MINIMUM", options="MaximumMinimumOptions", commutative=True):
    """The lesser of both."""

    def compute(self, x: Array, y: Array) -> Array:
        return np.where(x < y, x, y)


class Pow(Binary, code="POW"):
    """lhs to the power of rhs."""

    def compute(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "i" and np.any(y < 0):
            raise UnsupportedError("POW: an integer to a negative power has no value")
        return np.asarray(np.power(x, y))


class SquaredDifference(Binary, code="SQUARED_DIFFERENCE", commutative=True, versions={i8: 2}):
    """(lhs - rhs)^2."""

    def compute(self, x: Array, y: Array) -> Array:
        difference = x - y
        return np.asarray(difference * difference)


class FloorDiv(Binary, code="FLOOR_DIV"):
    """floor(lhs / rhs)."""

    versions: ClassVar = {DType.FLOAT32: 2, i8: 3, i16: 3}

    def compute(self, x: Array, y: Array) -> Array:
        need_no_zero(self, y)
        return np.asarray(np.floor(x / y) if x.dtype.kind == "f" else x // y)


class FloorMod(Binary, code="FLOOR_MOD", versions={i8: 2, i16: 2}):
    """lhs - floor(lhs / rhs) * rhs: the remainder with the sign of rhs."""

    def compute(self, x: Array, y: Array) -> Array:
        need_no_zero(self, y)
        return np.asarray(np.mod(x, y))


class Atan2(Binary, code="ATAN2", options="ATan2Options"):
    """The angle of the point (rhs, lhs), in radians."""

    kinds = "f"

    def compute(self, x: Array, y: Array) -> Array:
        return np.asarray(np.arctan2(x, y))


class AddN(Typed, code="ADD_N"):
    """The sum of any number of tensors of one shape."""

    terms = variadic_operand()

    layout_operands = ("terms",)

    def infer(self) -> TensorType:
        terms = self.terms
        if not terms:
            raise ShapeError("ADD_N has no operand, at least one is wanted")
        shape = terms[0].shape
        for term in terms[1:]:
            need_same_dtype("the first operand", terms[0], "another", term)
            if shape is not None and term.shape is not None:
                if len(shape) != len(term.shape):
                    raise ShapeError(f"ranks {len(shape)} and {len(term.shape)}, equal ones are wanted")
                shape = tuple(merge_dims(a, b) for a, b in zip(shape, term.shape, strict=True))
        return TensorType(terms[0].dtype, shape)

    @np.errstate(all="ignore")
    def kernel(self, *terms: Array) -> Array:
        need_kind(self, terms[0], "fi")
        refuse_quantized(self)
        total: Array = terms[0].copy()
        for term in terms[1:]:
            np.add(total, term, out=total)
        return total

    def permuted(self, perm: tuple[int, ...]) -> dict[str, object] | None:
        return {}
