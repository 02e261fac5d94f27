# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators of one operand, parts of complex numbers, and the Fourier transform.

``compute`` or ``function`` gives the results for data without a scale, ``quantized`` for 8-bit and 16-bit
data with a scale.  By default, ``quantized`` applies ``real`` to the dequantized numbers, and quantizes the
results; in int16, it does so for 513 numbers and interpolates between their results, as LiteRT does.

Class arguments: ``kinds`` are numpy's letters of the dtypes that ``compute`` takes, ``quantized_dtypes`` the
dtypes for which LiteRT has quantized kernels.  ``versions`` is the operator version for data of a dtype,
``reference_version`` the newest version that LiteRT's reference kernels implement (0: none).
Source: TFLite elementwise, exp, neg, floor, ceil, round, sign, complex_support, rfft2d.
"""

from __future__ import annotations

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, f32, f64, i8, i16, i32, u8
from circlekit.ir.op import Op, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, TensorType, format_shape
from circlekit.ops.checks import require_float, require_length
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.elementwise import Unary
from circlekit.ops.numerics.fixed_point import (
    QuantizedMultiplier,
    centered,
    clamp_to_dtype,
    get_inv_sqrt_quantized_multiplier,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rescaled,
    rounding_divide_by_pot_on_x86,
)
from circlekit.ops.operand_dtypes import COMPLEX, NUMBERS
from circlekit.ops.quantized_values import dtype_limits, is_quantized, scale_of, zero_point_of


class Abs(Unary, code="ABS", reference_version=3, versions={i32: 5, i16: 4, i8: 2, u8: 2}, kinds="fi"):
    """The magnitude of each number."""

    input = operand(*NUMBERS)

    function = np.absolute
    quantized_dtypes = (i8, i16)

    def quantized(self, x: Array) -> Array:
        ratio = scale_of(self.input) / scale_of(self.output)
        return clamp_to_dtype(rescaled(np.abs(centered(x, self.input)), ratio), self.output)

    def required_version(self) -> int:
        return 3 if self.input.dtype is i16 and is_quantized(self.input) else super().required_version()


class Neg(Unary, code="NEG", kinds="fi", function=np.negative, quantized_dtypes=(i8, i16)):
    """-x.  For quantized data, the stored integer is negated; the zero point is ignored, as in LiteRT."""

    quantization_rule = None  # the kernel ignores scales and wraps: quantization replaces NEG by MUL

    input = operand(*NUMBERS)

    def quantized(self, x: Array) -> Array:
        return np.negative(x)


class Exp(Unary, code="EXP", versions={i8: 2, i16: 2}, function=np.exp, quantized_dtypes=(i8, i16)):
    """e to the power of x."""


class Log(Unary, code="LOG", options=None, versions={i8: 2, i16: 2}, function=np.log):
    """The natural logarithm.

    In int8, an operand of 0 or less gives the lowest integer.  In int16, the result is interpolated in a
    table, so the result for 0 or an operand just below 0 may be greater than the lowest integer.
    """

    quantized_dtypes = (i8, i16)

    def real(self, x: Array) -> Array:
        lowest = np.float32(dtype_limits(self.output.dtype)[0] - zero_point_of(self.output))
        return np.where(x <= 0, lowest * scale_of(self.output), super().real(x))


class Sqrt(Unary, code="SQRT", options=None, versions={i8: 2, i16: 2}, function=np.sqrt):
    """The square root.  Quantized results are rounded towards zero; a quantized x < 0 raises ModelError."""

    quantization_rule = QuantizationRule(not_negative=("input",))

    quantized_dtypes = (i8, i16)
    rejects_negative = True

    def quantized(self, x: Array) -> Array:  # in float32 throughout, as in LiteRT
        real = scale_of(self.input) * centered(x, self.input).astype(np.float32)
        root = np.sqrt(np.maximum(real, np.float32(0))) / scale_of(self.output)
        return clamp_to_dtype(root.astype(np.int64), self.output)


class Rsqrt(Unary, code="RSQRT", options=None, versions={i8: 2, i16: 3}, quantized_dtypes=(i8, i16)):
    """1 / sqrt(x).  Quantized operands < 0 raise ModelError.

    In int8, the operand 0 gives the largest integer.  In int16, the result is interpolated between operands
    that are 128 integers apart.  So the result for 0 may be less than the largest integer, and the results
    for the integers 1 to 127 are mostly far off.
    """

    quantization_rule = QuantizationRule(not_negative=("input",))

    rejects_negative = True

    def compute(self, x: Array) -> Array:
        return np.asarray(1 / np.sqrt(x))

    def quantized(self, x: Array) -> Array:
        if self.input.dtype is i16:
            return super().quantized(x)
        # the operand is scale * steps, so its inverse root is (1 / sqrt(steps)) / sqrt(scale);
        # ``inverse_roots`` is 1 / sqrt(steps), in units of 2^-20
        steps = np.maximum(centered(x, self.input), 0)
        root_multiplier = get_inv_sqrt_quantized_multiplier(steps)
        with_20_bits = QuantizedMultiplier(root_multiplier.mantissa, root_multiplier.shift + 20)
        inverse_roots = multiply_by_quantized_multiplier(np.ones_like(steps), with_20_bits)
        scale = float(np.sqrt(scale_of(self.input)) * scale_of(self.output))
        mantissa, shift = quantize_multiplier(1 / scale)
        left_shift = QuantizedMultiplier(mantissa, np.maximum(shift - 20, 0))
        product = multiply_by_quantized_multiplier(inverse_roots, left_shift)
        result = rounding_divide_by_pot_on_x86(product, np.maximum(20 - shift, 0))
        return np.asarray(np.where(steps == 0, 127, clamp_to_dtype(result, self.output)), np.int8)

    def integer_caution(self) -> str | None:
        if self.input.dtype is not i16 or not is_quantized(self.input):
            return None
        return "RSQRT of int16 is far off in LiteRT where operands are below 1/256 of their range"

    def real(self, x: Array) -> Array:  # only for int16, with the zero point 0
        largest = np.float32((1 << 15) - 1) * scale_of(self.output)
        return np.where(x <= 0, largest, 1 / np.sqrt(np.maximum(x, 0)))


class Square(Unary, code="SQUARE", function=np.square):
    """x * x."""


class Sin(Unary, code="SIN", options=None, reference_version=1, function=np.sin):
    """The sine of x in radians."""


class Cos(Unary, code="COS", reference_version=1, function=np.cos):
    """The cosine of x in radians."""


class Floor(Unary, code="FLOOR", options=None, function=np.floor):
    """The largest integer not above x."""


class Ceil(Unary, code="CEIL", options=None, reference_version=0, function=np.ceil):
    """The smallest integer not below x."""


class Round(Unary, code="ROUND", options=None, reference_version=0, function=np.rint):
    """The nearest integer; a half is rounded to the even integer."""


class Sign(Unary, code="SIGN", versions={i32: 2}, kinds="fi", function=np.sign):
    """-1 for x < 0, 0 for x = 0, 1 for x > 0."""

    input = operand(*NUMBERS)


class ZerosLike(Unary, code="ZEROS_LIKE", kinds="fiu", function=np.zeros_like):
    """Zeros in the shape of the operand."""

    input = operand(*NUMBERS)


class ComplexToReal(Unary, kinds="c"):
    """Base class of functions of complex numbers with real results: complex64 to f32, complex128 to f64."""

    quantization_rule = None  # never quantized: the operand is complex

    input = operand(*COMPLEX)

    def infer(self) -> TensorType:
        parts = {DType.COMPLEX64: f32, DType.COMPLEX128: f64}
        dtype = parts.get(self.input.dtype)
        if dtype is None:
            raise ShapeError(f"expected complex numbers for input, got {self.input.dtype.short}")
        return TensorType(dtype, self.input.shape)


class Real(ComplexToReal, code="REAL", options=None, function=np.real):
    """The real part of each number."""


class Imag(ComplexToReal, code="IMAG", options=None, function=np.imag):
    """The imaginary part of each number."""


class ComplexAbs(ComplexToReal, code="COMPLEX_ABS", options=None, function=np.abs):
    """The magnitude of each complex number."""


class Rfft2d(Op, code="RFFT2D"):
    """The 2-D Fourier transform of real data along the last two axes, as complex64.

    The input is cropped, or padded with 0, to ``fft_length`` = [height, width].  Both must be powers of
    two.  The last axis of the result has the first width // 2 + 1 frequencies.  For the width 1, LiteRT's
    results are not the transform.
    """

    input = operand(f32)
    fft_length = operand(i32)

    def infer(self) -> TensorType:
        require_length(self.fft_length.shape, 2, "fft_length")
        shape = self.input.shape
        if shape is None:
            return TensorType(DType.COMPLEX64, None)
        if len(shape) < 2:
            raise ShapeError(f"expected input of rank 2 or more, got shape {format_shape(shape)}")
        sizes = static_int_vector(self.fft_length)
        if sizes is None:
            return TensorType(DType.COMPLEX64, (*shape[:-2], None, None))
        _require_powers_of_two(sizes)
        return TensorType(DType.COMPLEX64, (*shape[:-2], sizes[0], sizes[1] // 2 + 1))

    def kernel(self, input: Array, fft_length: Array) -> Array:
        require_float(self, input)
        sizes = int_list(fft_length)
        _require_powers_of_two(sizes)
        return np.fft.rfft2(input.astype(np.float64), s=sizes, axes=(-2, -1)).astype(np.complex64)


def _require_powers_of_two(sizes: list[int]) -> None:
    """Raise ShapeError unless ``sizes``, the elements of ``fft_length``, are powers of two."""
    if any(n < 1 or n & (n - 1) for n in sizes):
        raise ShapeError(f"expected powers of two for fft_length, got {sizes}")
