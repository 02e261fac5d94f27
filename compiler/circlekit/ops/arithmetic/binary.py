# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on two operands that broadcast.

Source: TFLite add, sub, mul, maximum_minimum, pow, squared_difference, atan2, add_n.
Integers wrap around.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f16, i8, i16, i64, u8, u32
from circlekit.ir.enums import Activation
from circlekit.ir.op import attribute, variadic_operand
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops.checks import reject_quantized, require_numpy_kind, require_same_dtype
from circlekit.ops.common import write_fused
from circlekit.ops.dimensions import merge_dims
from circlekit.ops.elementwise import Binary
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.fixed_point import (
    QuantizedMultiplier,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    quantized_activation_range,
    requantize,
    rounding_divide_by_pot,
)
from circlekit.ops.numerics.lookup_tables import power_of_two, tabulated, tabulated_pairs
from circlekit.ops.numerics.pairs import Pairwise, Product, Sketch
from circlekit.ops.numerics.requantize import fixed_point
from circlekit.ops.numerics.stores import Span
from circlekit.ops.quantization import is_quantized, is_quantized_8_or_16_bits, scale_of, zero_point_of
from circlekit.ops.versions import VersionedByDtype


class Fused(Binary):
    """A binary operator that applies an activation to its result."""

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    fuses_activation = True

    def kernel(self, lhs: Array, rhs: Array) -> Array:
        out = super().kernel(lhs, rhs)
        return out if is_quantized_8_or_16_bits(self.lhs) else apply_fused_activation(out, self.act)

    def bind(self, tape: Tape, lhs: Array, rhs: Array) -> Array | None:
        out = super().bind(tape, lhs, rhs)
        if out is not None and not is_quantized_8_or_16_bits(self.lhs):
            write_fused(tape, out, self.act, self.reached(tape.reach(lhs), tape.reach(rhs)))
        return out

    def reached(self, lhs: float, rhs: float) -> float:
        """A magnitude that no result but NaN exceeds, where none of the operands' exceeds theirs."""
        return np.inf

    def ended(self, accumulators: Array, by: QuantizedMultiplier) -> Array:
        """int32 ``accumulators`` (as int64) times ``by``, as the quantized result, the activation applied."""
        limits, dtype = quantized_activation_range(self.act, self.output), self.output.dtype.numpy
        assert dtype is not None  # quantized in 8 or 16 bits
        return requantize(accumulators, by, zero_point_of(self.output), limits, dtype)


class Sum(Fused):
    """ADD and SUB.  Quantized operands are brought to twice the greater scale, with 15 or 20 bits more.

    int16 with ``pot_scale_int16`` and scales that are powers of two is only shifted: one operand has the
    scale of the result, the other a smaller one.
    """

    pot_scale_int16: bool = attribute(True, quantized_only=True)

    kinds = "fiuc"
    sign: ClassVar[int] = 1

    def reached(self, lhs: float, rhs: float) -> float:
        return lhs + rhs

    def quantized(self, x: Array, y: Array) -> Array:
        shifts = self.shifts()
        if shifts is not None:
            return self.shifted(x, y, shifts)
        bits = 15 if x.dtype == np.int16 else 20
        scales = [scale_of(v) for v in (self.lhs, self.rhs, self.output)]
        unit = 2 * float(max(scales[:2]))
        by = quantize_multiplier(unit / ((1 << bits) * float(scales[2])))

        def term(array: Array, value: Value, scale: np.float32) -> Array:
            real = quantize_multiplier(float(scale) / unit)
            return tabulated(array, lambda part: widened(part, value, bits, real))

        def total(a: Array, b: Array) -> Array:
            first, second = term(a, self.lhs, scales[0]), term(b, self.rhs, scales[1])
            return self.ended(first + self.sign * second, by)

        return total(x, y) if bits == 15 else tabulated_pairs(x, y, total)

    def sketch(self) -> Pairwise | None:
        if not all(is_quantized(v) for v in (self.lhs, self.rhs, self.output)):
            return None
        values = (self.lhs, self.rhs, self.output)
        scales, zeros = [float(scale_of(v)) for v in values], [zero_point_of(v) for v in values]
        left, right = scales[0] / scales[2], self.sign * scales[1] / scales[2]
        offset = zeros[2] - zeros[0] * left - zeros[1] * right
        return Sketch(left, right, offset, quantized_activation_range(self.act, self.output))

    def shifts(self) -> list[int] | None:
        """How far each operand is shifted to the right where scales are powers of two; else None."""
        if self.lhs.dtype is not i16 or not self.pot_scale_int16:
            return None
        powers = [power_of_two(scale_of(v)) for v in (self.lhs, self.rhs, self.output)]
        known = [p for p in powers if p is not None]
        if len(known) < len(powers):
            return None
        shifts = [known[2] - p for p in known[:2]]
        if min(shifts) != 0:
            raise UnsupportedError(
                f"{self.code} of int16 with scales 2^{known[0]} and 2^{known[1]} to 2^{known[2]}: "
                "the greater scale of the operands is wanted for the result"
            )
        return shifts

    def shifted(self, x: Array, y: Array, shifts: Sequence[int]) -> Array:
        first, second = (
            rounding_divide_by_pot(a, s) if s else a.astype(np.int32)
            for a, s in zip((x, y), shifts, strict=True)
        )
        limits = quantized_activation_range(self.act, self.output)
        return np.asarray(np.clip(first + self.sign * second, *limits), np.int16)


def widened(x: Array, value: Value, bits: int, by: QuantizedMultiplier) -> Array:
    """(x - zero point) * 2^bits * ``by`` of elements of ``value``, rounded twice; int32."""
    return multiply_by_quantized_multiplier((x.astype(np.int64) - zero_point_of(value)) << bits, by).astype(
        np.int32
    )


class Add(Sum, code="ADD", commutative=True, reference_version=5):
    """lhs + rhs."""

    function = np.add

    def required_version(self) -> int:
        dtype = self.lhs.dtype
        if dtype is i16:
            if not is_quantized(self.lhs):
                return 5
            return 1 if self.pot_scale_int16 else 3
        return {f16: 6, i64: 4, i8: 2}.get(dtype, 1)


class Sub(Sum, code="SUB"):
    """lhs - rhs."""

    function = np.subtract
    sign = -1

    def required_version(self) -> int:
        dtype = self.lhs.dtype
        if dtype is i16 and not self.pot_scale_int16:
            return 5
        if dtype is i64:
            return 4
        if self.broadcasts_beyond_4d():
            return 3
        return 2 if dtype is i8 else 1


class Mul(Fused, code="MUL", commutative=True, reference_version=7):
    """lhs * rhs.  int16 operands may have a result of 8 bits: both then count as fractions of 15 bits."""

    kinds = "fiuc"

    def infer(self) -> TensorType:
        inferred = super().infer()
        if self.narrows():
            return TensorType(self.results[0].dtype, inferred.shape, self.results[0].quantization)
        return inferred

    def narrows(self) -> bool:
        """Whether int16 operands have a result of 8 bits."""
        return self.lhs.dtype is i16 and bool(self.results) and self.results[0].dtype in (i8, u8)

    function = np.multiply

    def reached(self, lhs: float, rhs: float) -> float:
        return lhs * rhs

    def quantized(self, x: Array, y: Array) -> Array:
        if self.narrows():
            return self.narrowed(x, y)
        by = quantize_multiplier(self.rescale())
        return tabulated_pairs(x, y, lambda a, b: self.ended(centred(a, self.lhs) * centred(b, self.rhs), by))

    def sketch(self) -> Pairwise | None:
        if not self.rescale() or self.output.dtype.bits != 8:
            return None
        limits = quantized_activation_range(self.act, self.output)
        end = fixed_point(
            quantize_multiplier(self.rescale()),
            None,
            Span(zero_point_of(self.output), limits, 1 << 16),
            False,
        )
        return Product((zero_point_of(self.lhs), zero_point_of(self.rhs)), end)

    def narrowed(self, x: Array, y: Array) -> Array:
        fraction = (x.astype(np.int32) * y + (1 << 14)) >> 15
        limits = quantized_activation_range(self.act, self.output)
        shifted = rounding_divide_by_pot(np.minimum(fraction, (1 << 15) - 1), 8) + zero_point_of(self.output)
        return np.clip(shifted, *limits).astype(self.output.dtype.numpy)

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
        """Lhs scale * rhs scale / output scale in float32; 0 where one of them has none."""
        values = (self.lhs, self.rhs, self.output)
        scales = [v.quantization.scale[0] for v in values if is_quantized(v) and v.quantization]
        return 0.0 if len(scales) < 3 or 0.0 in scales else float(scales[0] * scales[1] / scales[2])


def centred(x: Array, value: Value) -> Array:
    """Elements of ``value`` without its zero point, int32."""
    return x.astype(np.int32) - zero_point_of(value)


class Extremum(Binary, options="MaximumMinimumOptions"):
    """MAXIMUM and MINIMUM: the first wins only where it is truly beyond the second (NaN is not).

    Quantized integers are compared as they are, whatever their scales, as in LiteRT.
    """

    versions: ClassVar = {i8: 2, i16: 4}

    def infer(self) -> TensorType:
        inferred = super().infer()
        return TensorType(inferred.dtype, inferred.shape, self.lhs.quantization)

    def quantized(self, x: Array, y: Array) -> Array:
        return self.compute(x, y)

    def required_version(self) -> int:
        if self.lhs.dtype is not i16 and self.broadcasts_beyond_4d():
            return 3
        return super().required_version()


def has_nan(x: Array) -> bool:
    """Whether there is NaN among floats."""
    return x.dtype.kind == "f" and bool(np.isnan(x).any())


class Maximum(Extremum, code="MAXIMUM", options="MaximumMinimumOptions", commutative=True):
    """The greater of both."""

    def compute(self, x: Array, y: Array) -> Array:
        greatest = np.maximum(x, y)
        return np.where(x > y, x, y) if has_nan(greatest) else greatest


class Minimum(Extremum, code="MINIMUM", options="MaximumMinimumOptions", commutative=True):
    """The lesser of both."""

    def compute(self, x: Array, y: Array) -> Array:
        least = np.minimum(x, y)
        return np.where(x < y, x, y) if has_nan(least) else least


class Pow(Binary, code="POW"):
    """lhs to the power of rhs.

    An int32 that leaves its range becomes the least one, as on x86, but wraps where all elements have one
    exponent: LiteRT then multiplies.
    """

    def compute(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "i" and np.any(y < 0):
            raise ModelError("POW: an integer to a negative power has no value")
        one = y.size == 1 and x.shape != y.shape and y.reshape(-1)[0] > 0
        if x.dtype == np.int32 and not one:
            exact = np.power(x.astype(np.float64), y)
            return np.where(np.abs(exact) < 2.0**31, exact, -(2.0**31)).astype(np.int32)
        return np.asarray(np.power(x, y))


class SquaredDifference(Binary, code="SQUARED_DIFFERENCE", commutative=True, versions={i8: 2}):
    """(lhs - rhs)^2.  LiteRT has no quantized form but int8."""

    def quantized(self, x: Array, y: Array) -> Array:
        if self.lhs.dtype is not i8:
            return super().quantized(x, y)
        scales = [scale_of(v) for v in (self.lhs, self.rhs, self.output)]
        unit = 2 * float(max(scales[:2]))
        first, second = (quantize_multiplier(float(s) / unit) for s in scales[:2])
        by = quantize_multiplier(unit * unit / ((1 << 14) * float(scales[2])))

        def square(a: Array, b: Array) -> Array:
            difference = widened(a, self.lhs, 7, first) - widened(b, self.rhs, 7, second)
            return requantize(
                difference * difference, by, zero_point_of(self.output), (-128, 127), np.dtype(np.int8)
            )

        return tabulated_pairs(x, y, square)

    def write(self, tape: Tape, x: Array, y: Array, out: Array) -> None:
        tape.do(np.subtract, x, y, out)
        tape.do(np.multiply, out, out, out)


class Atan2(Binary, code="ATAN2", options="ATan2Options"):
    """The angle of the point (rhs, lhs), in radians."""

    kinds = "f"

    function = np.arctan2


class AddN(VersionedByDtype, code="ADD_N"):
    """The sum of any number of tensors of one shape; each sum on the way is finite, as that of ADD."""

    terms = variadic_operand()

    layout_operands = ("terms",)

    def infer(self) -> TensorType:
        terms = self.terms
        if not terms:
            raise ShapeError("ADD_N has no operand, at least one is wanted")
        shape = terms[0].shape
        for term in terms[1:]:
            require_same_dtype("the first operand", terms[0], "another", term)
            if shape is not None and term.shape is not None:
                if len(shape) != len(term.shape):
                    raise ShapeError(f"ranks {len(shape)} and {len(term.shape)}, equal ones are wanted")
                shape = tuple(merge_dims(a, b) for a, b in zip(shape, term.shape, strict=True))
        return TensorType(terms[0].dtype, shape)

    @np.errstate(all="ignore")
    def kernel(self, *terms: Array) -> Array:
        require_numpy_kind(self, terms[0], "fi")
        reject_quantized(self)
        total: Array = terms[0].copy()
        for term in terms[1:]:
            total = apply_fused_activation(np.add(total, term, out=total), Activation.NONE)
        return total

    def permuted(self, perm: tuple[int, ...]) -> dict[str, object] | None:
        return {}
