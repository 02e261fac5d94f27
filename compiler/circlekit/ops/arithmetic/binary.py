# SPDX-License-Identifier: Apache-2.0
"""Arithmetic operators on two operands that broadcast, and ADD_N.

Plain integers (without a scale) wrap around on overflow; those of POW do so in some cases only.  Quantized
results are clamped.  ``compute`` or ``function`` gives the results for plain integers and floats,
``quantized`` for 8-bit and 16-bit data with a scale.

Class arguments: ``kinds`` are numpy's letters of the dtypes that ``compute`` takes (f, i, u and c: complex),
``versions`` is the operator version for data of a dtype, ``reference_version`` the newest version that
LiteRT's reference kernels implement.
Source: TFLite add, sub, mul, maximum_minimum, pow, squared_difference, atan2, add_n.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f16, i8, i16, i64, u8, u32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, variadic_operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, TensorType
from circlekit.ops.arithmetic.optimized_add import with_vector_sums
from circlekit.ops.checks import common_shape, reject_quantized, require_numpy_kind
from circlekit.ops.elementwise import Binary
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.fixed_point import centered, clamp_to_dtype, rescaled, rounding_divide_by_pot
from circlekit.ops.numerics.lookup_tables import checked_log2
from circlekit.ops.numerics.output_stage import follows_optimized_kernels
from circlekit.ops.operand_dtypes import COMPLEX, NUMBERS, REAL
from circlekit.ops.quantized_values import is_quantized, is_quantized_8_or_16_bits, scale_of


class BinaryWithActivation(Binary, fuses_activation=True):
    """A binary operator that applies an activation to its result.

    Infinite floats become the largest or the lowest finite number, even without an activation, as in LiteRT.
    """

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")

    def kernel(self, lhs: Array, rhs: Array) -> Array:
        out = super().kernel(lhs, rhs)
        if is_quantized_8_or_16_bits(self.lhs):
            return out  # ``quantized`` has clamped it
        return apply_fused_activation(out, self.act)


def in_one_scale(op: Binary, x: Array, y: Array, bits: int) -> tuple[Array, Array, float]:
    """Return both operands as int32 in units of unit / 2^``bits``, and the number ``unit``.

    ``x``, ``y``: the elements of the operands of ``op``.  ``unit`` is twice the larger of their scales.
    """
    unit = 2 * max(float(scale_of(op.lhs)), float(scale_of(op.rhs)))
    first, second = (
        rescaled(centered(a, v).astype(np.int64) << bits, float(scale_of(v)) / unit).astype(np.int32)
        for a, v in ((x, op.lhs), (y, op.rhs))
    )
    return first, second, unit


class AddOrSub(BinaryWithActivation, kinds="fiuc"):
    """Base class of ADD and SUB: lhs + ``sign`` * rhs.

    Quantized operands are rescaled to a common scale, twice the larger of their scales, with 20 fraction bits
    (15 for int16), and added.

    Int16 operands are added in another way if ``pot_scale_int16`` is true and the scales of operands and
    result are powers of two.  Then the operand with the smaller scale is shifted right to the larger scale.
    If the result does not have the larger scale, the kernel raises UnsupportedError.
    """

    # ``least_step``: the smallest ratios of the result's scale to the larger operand scale.  They keep
    # ``to_output``, the last factor in ``quantized``, below 1: from 1 on, LiteRT aborts (ADD), or its results
    # are wrong (SUB)
    quantization_rule = QuantizationRule(
        attributes={"pot_scale_int16": False}, least_step={i8: 2**-18, u8: 2**-18, i16: 2**-13}
    )

    lhs = operand(*NUMBERS, *COMPLEX, DType.STRING)
    rhs = operand(*NUMBERS, *COMPLEX, DType.STRING)

    pot_scale_int16: bool = attribute(True, quantized_only=True)

    sign: ClassVar[int] = 1

    def quantized(self, x: Array, y: Array) -> Array:
        shifts = self._power_of_two_shifts()
        if shifts is not None:
            parts = zip((x, y), shifts, strict=True)
            first, second = (rounding_divide_by_pot(a, s) if s else a.astype(np.int32) for a, s in parts)
            return clamp_to_dtype(first + self.sign * second, self.output, self.act)
        bits = 15 if x.dtype == np.int16 else 20
        first, second, unit = in_one_scale(self, x, y, bits)
        sums = first + self.sign * second
        if self.sign == 1 and follows_optimized_kernels():
            lhs, rhs = (
                (centered(a, v), float(scale_of(v)) / unit) for a, v in ((x, self.lhs), (y, self.rhs))
            )
            sums = with_vector_sums(sums, lhs, rhs, bits, x.dtype)
        to_output = unit / ((1 << bits) * float(scale_of(self.output)))
        return clamp_to_dtype(rescaled(sums, to_output), self.output, self.act)

    def _power_of_two_shifts(self) -> list[int] | None:
        """Return the right shift of each operand if int16 data are added by shifts; else None.

        Raise UnsupportedError if the result does not have the larger scale of the operands.
        """
        if self.lhs.dtype is not i16 or not self.pot_scale_int16:
            return None
        lhs, rhs, out = (checked_log2(scale_of(v)) for v in (self.lhs, self.rhs, self.output))
        if lhs is None or rhs is None or out is None:
            return None
        if max(lhs, rhs) != out:
            raise UnsupportedError(
                f"{self.code} of int16 with scales 2^{lhs} and 2^{rhs}: "
                f"expected the larger one as result scale, got 2^{out}"
            )
        return [out - lhs, out - rhs]


class Add(AddOrSub, code="ADD", commutative=True, reference_version=5, function=np.add):
    """lhs + rhs."""

    def depends_on_position(self) -> bool:
        return follows_optimized_kernels()  # they round only whole groups of numbers in another way

    def required_version(self) -> int:
        dtype = self.lhs.dtype
        if dtype is i16:
            if not is_quantized(self.lhs):
                return 5
            return 1 if self.pot_scale_int16 else 3
        return {f16: 6, i64: 4, i8: 2}.get(dtype, 1)


class Sub(AddOrSub, code="SUB", function=np.subtract, sign=-1):
    """lhs - rhs."""

    def required_version(self) -> int:
        dtype = self.lhs.dtype
        if dtype is i16 and not self.pot_scale_int16:
            return 5
        if dtype is i64:
            return 4
        if self.broadcasts_beyond_4d():
            return 3
        return 2 if dtype is i8 else 1


class Mul(BinaryWithActivation, code="MUL", commutative=True, reference_version=7, kinds="fiuc"):
    """lhs * rhs.

    If the operands are quantized int16 and the result has 8 bits, the declared scales are ignored.  The
    kernel then takes 2^-15 as the scale of the operands, and 2^-7 as the scale of the result.
    """

    lhs = operand(*NUMBERS, *COMPLEX)
    rhs = operand(*NUMBERS, *COMPLEX)

    function = np.multiply

    def infer(self) -> TensorType:
        inferred = super().infer()
        if self._is_int16_to_8_bits():  # the operands do not say which of the 8-bit dtypes
            return TensorType(self.results[0].dtype, inferred.shape, self.results[0].quantization)
        return inferred

    def _is_int16_to_8_bits(self) -> bool:
        """Return whether the operands are int16 and the result has 8 bits."""
        return self.lhs.dtype is i16 and bool(self.results) and self.results[0].dtype in (i8, u8)

    def quantized(self, x: Array, y: Array) -> Array:
        if self._is_int16_to_8_bits():
            fraction = np.minimum((x.astype(np.int32) * y + (1 << 14)) >> 15, (1 << 15) - 1)
            return clamp_to_dtype(rounding_divide_by_pot(fraction, 8), self.output, self.act)
        product = centered(x, self.lhs) * centered(y, self.rhs)
        return clamp_to_dtype(rescaled(product, self.rescale()), self.output, self.act)

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
        """Return scale of lhs * scale of rhs / scale of output, in float32; 0 if a scale is missing or 0."""
        values = (self.lhs, self.rhs, self.output)
        scales = [v.quantization.scale[0] for v in values if is_quantized(v) and v.quantization]
        return 0.0 if len(scales) < 3 or 0.0 in scales else float(scales[0] * scales[1] / scales[2])


class MaximumMinimum(Binary, versions={i8: 2, i16: 4}):
    """Base class of MAXIMUM and MINIMUM.

    The result is lhs if lhs > rhs (for MINIMUM: lhs < rhs), else rhs; so it is rhs if an operand is NaN.
    Quantized data are compared as plain integers without regard to their scales, as in LiteRT.
    """

    quantization_rule = QuantizationRule(operands_follow=("lhs", "rhs"))  # all have the scale of the result

    ignores_scales = (i8, u8, i16)  # ``compute`` gets these dtypes even with a scale

    def infer(self) -> TensorType:
        inferred = super().infer()
        return TensorType(inferred.dtype, inferred.shape, self.lhs.quantization)

    def required_version(self) -> int:
        if self.lhs.dtype is not i16 and self.broadcasts_beyond_4d():
            return 3
        return super().required_version()


class Maximum(MaximumMinimum, code="MAXIMUM", options="MaximumMinimumOptions", commutative=True):
    """The greater of lhs and rhs."""

    def compute(self, x: Array, y: Array) -> Array:
        return np.where(x > y, x, y)


class Minimum(MaximumMinimum, code="MINIMUM", options="MaximumMinimumOptions", commutative=True):
    """The lesser of lhs and rhs."""

    def compute(self, x: Array, y: Array) -> Array:
        return np.where(x < y, x, y)


class Pow(Binary, code="POW"):
    """lhs to the power of rhs.

    An int32 result out of range becomes the lowest int32, as on x86.  There is one exception: if a single
    positive exponent is broadcast to all elements, LiteRT multiplies, so int32 results wrap around.
    LiteRT also multiplies floats if such an exponent is within 1e-5 of a whole number.  The exponent is then
    rounded, and each product clamps infinities to the largest finite numbers.
    For integers with a negative exponent, the kernel raises ModelError.
    """

    def compute(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "i" and np.any(y < 0):
            raise ModelError("POW: expected no negative exponent for integers")
        is_broadcast = y.size == 1 and x.shape != y.shape and y.reshape(-1)[0] > 0
        if x.dtype == np.int32 and not is_broadcast:
            exact = np.power(x.astype(np.float64), y)
            return np.where(np.abs(exact) < 2.0**31, exact, -(2.0**31)).astype(np.int32)
        is_float = x.dtype.kind == "f"
        if is_float and is_broadcast and (whole := np.rint(y.item())) >= 1 and abs(y.item() - whole) < 1e-5:
            limit = np.finfo(x.dtype).max if whole > 1 else np.inf  # without a product, nothing is clamped
            return np.asarray(np.clip(np.power(x, np.full_like(y, whole)), -limit, limit))
        result = np.asarray(np.power(x, y))
        if is_float and y.size == 1 and y.item() == 0.5:
            # numpy computes sqrt(x) for this exponent, which differs from the power for -0 and -inf
            result = np.where(x == -np.inf, x.dtype.type(np.inf), result + x.dtype.type(0))
        return result


class SquaredDifference(Binary, code="SQUARED_DIFFERENCE", commutative=True, versions={i8: 2}):
    """(lhs - rhs)^2.  LiteRT has a quantized kernel for int8 only."""

    # keeps ``to_output`` at most 1 / 2: from 1 on, LiteRT aborts
    quantization_rule = QuantizationRule(least_square_step={i8: 2**-11})

    def compute(self, x: Array, y: Array) -> Array:
        return np.asarray(np.square(x - y))

    def quantized(self, x: Array, y: Array) -> Array:
        if self.lhs.dtype is not i8:
            return super().quantized(x, y)
        first, second, unit = in_one_scale(self, x, y, 7)  # the square is in units of (unit / 2^7)^2
        to_output = unit * unit / ((1 << 14) * float(scale_of(self.output)))
        return clamp_to_dtype(rescaled(np.square(first - second), to_output), self.output)


class Atan2(Binary, code="ATAN2", options="ATan2Options", kinds="f", function=np.arctan2):
    """The angle of the point (rhs, lhs), in radians."""

    lhs = operand(*REAL)
    rhs = operand(*REAL)


class AddN(Op, code="ADD_N", layout_operands=("terms",)):
    """The sum of tensors of equal shape.

    After each addition of floats, infinities become the largest or the lowest finite number.
    """

    terms = variadic_operand(*NUMBERS)

    def infer(self) -> TensorType:
        shape = common_shape(self, self.terms)
        return TensorType(self.terms[0].dtype, None if shape is None else tuple(shape))

    def kernel(self, *terms: Array) -> Array:
        require_numpy_kind(self, terms[0], "fi")
        reject_quantized(self)
        total: Array = terms[0].copy()
        for term in terms[1:]:
            total = apply_fused_activation(np.add(total, term, out=total), Activation.NONE)
        return total
