# SPDX-License-Identifier: Apache-2.0
"""Conversions between dtypes.  Source: TFLite cast, quantize, dequantize, fake_quant."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, bf16, f16, f32, f64, i8, i16, i32, u8, u16, u32
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.value import Array, Quantization, TensorType, Value
from circlekit.ops.elementwise import Unary
from circlekit.ops.numerics.fixed_point import (
    centered,
    clamp_to_dtype,
    multiply_by_quantized_multiplier_half_up,
    quantize_multiplier,
    rescaled,
    round_half_away,
    wrap_int32,
)
from circlekit.ops.numerics.float_functions import round_to_bfloat16
from circlekit.ops.numerics.output_stage import follows_optimized_kernels
from circlekit.ops.operand_dtypes import ANY, REAL
from circlekit.ops.quantized_values import (
    dtype_limits,
    is_per_channel,
    is_quantized,
    quantization_of,
    scale_of,
)

UNPACKED_DTYPES: dict[DType, type[np.integer[Any]]] = {
    DType.INT4: np.int8,
    DType.UINT4: np.uint8,
    DType.INT2: np.int8,
}
"""The numpy dtypes in which kernels hold integers of fewer than 8 bits."""


class Cast(Op, code="CAST", layout_operands=("input",)):
    """The input converted to the dtype of the result, or to ``out_data_type`` if no result is declared yet.

    A float becomes an integer by truncation towards zero and saturation; NaN becomes the largest integer.  An
    integer out of range wraps around.  A complex number loses its imaginary part if the result is not
    complex.  Kernels hold bfloat16 as float32, and integers of less than 8 bits as int8 or uint8.  As in
    LiteRT, only float32 can be converted to integers of less than 8 bits.
    """

    input = operand(*ANY)

    in_data_type: DType = attribute(DType.FLOAT32)
    out_data_type: DType = attribute(DType.FLOAT32)

    def implied_attributes(self) -> dict[str, DType]:
        """Return the dtypes of operand and result; {} if one of these is missing.

        With the defaults, both attributes would be equal, and ONE removes a Cast with equal attributes.
        """
        if not self.results or not self.inputs or self.inputs[0] is None:
            return {}
        return {"in_data_type": self.inputs[0].dtype, "out_data_type": self.output.dtype}

    def infer(self) -> TensorType:
        dtype = self.results[0].dtype if self.results else self.out_data_type
        return TensorType(dtype, self.input.shape)

    def kernel(self, input: Array) -> Array:
        target = self.output.dtype
        if input.dtype.hasobject:
            raise UnsupportedError("CAST from str has no kernel")
        if input.dtype.kind == "c" and target not in (DType.COMPLEX64, DType.COMPLEX128):
            input = input.real
        if target is bf16:
            return round_to_bfloat16(input.astype(np.float32))
        if target in UNPACKED_DTYPES:
            if (source := self.input.dtype) is not f32:  # LiteRT casts from no other dtype
                raise UnsupportedError(
                    f"CAST from {source.short} to {target.short} has no kernel, only from f32"
                )
            low, high = map(np.float32, dtype_limits(target))
            return np.clip(np.where(np.isnan(input), high, input), low, high).astype(UNPACKED_DTYPES[target])
        if target.numpy is None:
            raise UnsupportedError(f"CAST to {target.short} has no kernel")
        if input.dtype.kind == "f" and target.numpy.kind in "iu":
            return saturated(input, target.numpy)
        return input.astype(target.numpy)

    def required_version(self) -> int:
        if self.input.dtype is DType.INT4 and self.output.dtype is f32:
            return 6
        by_dtype = {DType.INT2: 8, DType.UINT4: 8, bf16: 7, f64: 5, f16: 5, u16: 4, i8: 3, u32: 2}
        return max(by_dtype.get(dtype, 1) for dtype in (self.input.dtype, self.output.dtype))


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return floats truncated to integers and saturated to ``dtype``; NaN becomes the largest integer."""
    limits = np.iinfo(dtype)
    # float64 holds the power of two max + 1 exactly, but not the max of int64; NaN counts as above
    above = ~(x.astype(np.float64) < float(limits.max) + 1)
    below = x.astype(np.float64) <= limits.min
    inside = np.where(above | below, 0, x).astype(dtype)
    return np.where(above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), inside))


# -- quantization ------------------------------------------------------------------------------


def _along_axis(parameters: Array, quantization: Quantization, rank: int) -> Array:
    """Return scales or zero points in a shape that broadcasts with a tensor of ``rank``."""
    trailing = [1] * (rank - 1 - quantization.quantized_dimension)
    return parameters.reshape(() if parameters.size == 1 else (-1, *trailing))


def quantization_arrays(value: Value, rank: int) -> tuple[Array, Array]:
    """Return scales (float32) and zero points (int64) in shapes that broadcast with a tensor of ``rank``.

    A single scale or zero point has rank 0.  Raise ModelError if ``value`` has no scale.
    """
    quantization = quantization_of(value)
    zero = quantization.zero_point if quantization.zero_point.size else np.zeros(1, np.int64)
    return _along_axis(quantization.scale, quantization, rank), _along_axis(zero, quantization, rank)


REQUANTIZED = {i8: (i8, u8, i16), u8: (i8, u8, i16), i16: (i8, i16, i32), i32: (i8, i16)}
"""For each dtype of quantized integers, the dtypes to which LiteRT requantizes them."""

ONE_REQUANTIZED = (i16, u8)
"""ONE's mixed precision requantizes the first dtype to the second; LiteRT has no kernel for this."""


class Quantize(Op, code="QUANTIZE", layout_operands=("input",)):
    """round(x / scale) + zero_point, clamped to the dtype of the declared result.

    A half is rounded away from zero, as in LiteRT's reference kernels; its optimized kernels round some
    halves differently (see ``numerics.output_stage.Kernels``).  If x / scale is NaN or outside of int32, it
    becomes -2^31; then the zero point is added modulo 2^32, as on x86.

    float32 becomes int8, uint8, int16, int4 or uint4.  Quantized integers are requantized if ``REQUANTIZED``
    or ``ONE_REQUANTIZED`` has the pair of their dtype and that of the result.  All other pairs of dtypes have
    no kernel.
    """

    input = operand(*REAL, i32)

    def infer(self) -> TensorType:
        if not self.results:
            raise ModelError("QUANTIZE: expected a declared result, as its dtype cannot be inferred")
        result = self.results[0]
        return TensorType(result.dtype, self.input.shape, result.quantization)

    def kernel(self, input: Array) -> Array:
        dtype = self.output.dtype
        if self.input.dtype is f32 and dtype in (i8, u8, i16, DType.INT4, DType.UINT4):
            return self._rounded(input)
        pair = (self.input.dtype, dtype)
        if dtype not in REQUANTIZED.get(pair[0], ()) and pair != ONE_REQUANTIZED:
            names = f"{self.input.dtype.short} to {dtype.short}"
            raise UnsupportedError(f"QUANTIZE from {names} has no kernel, and LiteRT has none either")
        real = float(scale_of(self.input)) / float(scale_of(self.output))
        steps = np.asarray(centered(input, self.input), order="C")
        result = rescaled(steps, real)
        # in whole groups of 16 elements, the optimized kernel rounds a half up
        if follows_optimized_kernels() and {*pair} <= {i8, u8}:
            first = steps.reshape(-1)[: steps.size // 16 * 16]
            half_up = multiply_by_quantized_multiplier_half_up(first, quantize_multiplier(np.asarray(real)))
            result.reshape(-1)[: first.size] = half_up
        return clamp_to_dtype(result, self.output)

    def _rounded(self, x: Array) -> Array:
        """Return float32 ``x`` in the quantization of the result."""
        dtype = self.output.dtype
        scale, zero = quantization_arrays(self.output, x.ndim)
        steps = np.asarray(x / scale, order="C")
        wraps = ~(np.abs(steps) < np.float32(2**31))  # NaN, or outside of int32
        rounded = round_half_away(steps)
        # in whole groups of 8, the optimized kernel multiplies by 1 / scale and rounds a half to even; it
        # divides the other elements in float64
        if follows_optimized_kernels() and not scale.ndim:
            whole, flat = x.size // 8 * 8, x.reshape(-1)
            rounded.reshape(-1)[:whole] = np.rint(flat[:whole] * (np.float32(1) / scale))
            rounded.reshape(-1)[whole:] = round_half_away(flat[whole:].astype(np.float64) / scale)
        out = rounded + zero.astype(np.float32)
        if wraps.any():
            out = np.where(wraps, wrap_int32(zero - (1 << 31)).astype(np.float32), out)
        low, high = dtype_limits(dtype)
        return np.asarray(np.clip(out, low, high), UNPACKED_DTYPES.get(dtype, dtype.numpy))

    def required_version(self) -> int:
        if DType.INT4 in (self.input.dtype, self.output.dtype):
            return 4
        if is_per_channel(self.output):
            return 3
        return 2 if self.output.dtype is i16 else 1


NOT_INTEGER = (f16, bf16, DType.MXINT8, DType.MXFP4)
"""The dtypes besides integers that DEQUANTIZE takes; the last two have scales in the data, and no kernel."""


class Dequantize(Op, code="DEQUANTIZE", layout_operands=("input",)):
    """scale * (x - zero_point) as float32.  float16 and bfloat16 are converted to float32 without a scale."""

    input = operand(i8, u8, i16, i32, *UNPACKED_DTYPES, *NOT_INTEGER)

    versions: ClassVar = {i8: 2, i16: 3, f16: 3, DType.INT4: 6, DType.INT2: 7, DType.UINT4: 8}

    def infer(self) -> TensorType:
        if not self.input.dtype.is_integer and self.input.dtype not in NOT_INTEGER:
            found = self.input.dtype.short
            raise ShapeError(f"expected input of quantized numbers, f16 or bf16, got {found}")
        return TensorType(f32, self.input.shape)

    def kernel(self, input: Array) -> Array:
        if input.dtype.kind == "f":
            return input.astype(np.float32)
        scale, zero = quantization_arrays(self.input, input.ndim)
        # the difference of an int32 and its zero point may need more bits than float32 has
        exact_dtype = np.float32 if input.dtype.itemsize < 4 else np.float64
        real = (input.astype(exact_dtype) - zero.astype(exact_dtype)) * scale
        result = np.asarray(real, np.float32, order="C")
        # in whole groups of 8 elements, the optimized kernel subtracts the zero point after scaling
        if follows_optimized_kernels() and self.input.dtype in (i8, u8) and not scale.ndim:
            first = input.reshape(-1)[: input.size // 8 * 8].astype(np.float32)
            result.reshape(-1)[: first.size] = first * scale + np.float32(-zero) * scale
        return result

    def required_version(self) -> int:
        if self.input.dtype is i8 and is_quantized(self.input) and is_per_channel(self.input):
            return 5
        return super().required_version()


class FakeQuant(Unary, code="FAKE_QUANT"):
    """x rounded to the nearest of 2^``num_bits`` evenly spaced numbers from about ``min`` to about ``max``.

    All these numbers are shifted by the same distance, so that 0.0 is one of them.  With ``narrow_range``
    there is one number less.  As TensorFlow requires, ``num_bits`` is 2 to 16, and ``min`` less than ``max``;
    only ``num_bits`` is checked.
    """

    min: float = attribute(0.0)
    max: float = attribute(0.0)
    num_bits: int = attribute(0)
    narrow_range: bool = attribute(False)

    def grid(self) -> tuple[np.float32, np.float32]:
        """Return scale and zero point of the numbers to which x is rounded, computed in float32.

        The integers that stand for them are 0 (1 with ``narrow_range``) to 2^``num_bits`` - 1.
        Raise ModelError for an invalid ``num_bits``.
        """
        if not 2 <= self.num_bits <= 16:
            raise ModelError(f"FAKE_QUANT: expected num_bits from 2 to 16, got {self.num_bits}")
        low, high = np.float32(self.narrow_range), np.float32(2**self.num_bits - 1)
        lowest, highest = np.float32(self.min), np.float32(self.max)
        scale = (highest - lowest) / (high - low)
        return scale, np.float32(np.clip(round_half_away(low - lowest / scale), low, high))

    def compute(self, x: Array) -> Array:
        scale, zero_point = self.grid()
        low, high = np.float32(self.narrow_range), np.float32(2**self.num_bits - 1)  # as in ``grid``
        first, last = (low - zero_point) * scale, (high - zero_point) * scale
        clamped = np.minimum(np.fmax(x, first), last)  # NaN gives ``first``
        steps = round_half_away((clamped - first) * (np.float32(1) / scale))
        return np.asarray(steps * scale + first, x.dtype)

    def required_version(self) -> int:
        return 2 if self.narrow_range else 1
