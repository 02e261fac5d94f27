# SPDX-License-Identifier: Apache-2.0
"""Changes of dtype.  Source: TFLite cast, quantize, dequantize, fake_quant."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, bf16, f16, f32, f64, i8, i16, u16, u32
from circlekit.ir.op import attribute, operand
from circlekit.ir.value import Array, Quantization, TensorType, Value
from circlekit.ops.bases import Typed, Unary, is_quantized


class Cast(Typed, code="CAST"):
    """The numbers in another dtype; where there is a result already, its dtype decides.

    From float to integer: towards zero, limited to what the dtype holds, NaN to the greatest.  Integers wrap.
    """

    input = operand()

    in_data_type: DType = attribute(DType.FLOAT32)
    out_data_type: DType = attribute(DType.FLOAT32)

    layout_operands = ("input",)

    def infer(self) -> TensorType:
        dtype = self.results[0].dtype if self.results else self.out_data_type
        return TensorType(dtype, self.input.shape)

    @np.errstate(all="ignore")
    def kernel(self, input: Array) -> Array:
        wanted = self.output.dtype.numpy
        if wanted is None:
            raise UnsupportedError(f"CAST to {self.output.dtype.short} has no kernel")
        if input.dtype.kind == "c" and wanted.kind != "c":
            input = input.real
        if input.dtype.kind == "f" and wanted.kind in "iu":
            return saturated(input, wanted)
        return input.astype(wanted)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}

    def required_version(self) -> int:
        kinds = (self.input.dtype, self.output.dtype)
        if DType.INT4 in kinds[:1] and kinds[1] is f32:
            return 6
        steps = (
            (8, {DType.INT2, DType.UINT4}),
            (7, {bf16}),
            (5, {f64, f16}),
            (4, {u16}),
            (3, {i8}),
            (2, {u32}),
        )
        return next((version for version, dtypes in steps if dtypes & set(kinds)), 1)


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers of ``dtype``: towards zero, limited, NaN to the greatest.  Source: LiteRT cast."""
    limits = np.iinfo(dtype)
    # 2^bits is a float of every precision (in float16 infinity); the greatest integer itself is not
    above = ~(x.astype(np.float64) < float(limits.max) + 1)
    below = x.astype(np.float64) <= limits.min
    inside = np.where(above | below, 0, x).astype(dtype)
    return np.where(above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), inside))


def _along_axis(values: Array, quantization: Quantization, rank: int) -> Array:
    """A parameter per channel, shaped to broadcast along its axis; a scalar per tensor."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[quantization.quantized_dimension] = values.size
    return values.reshape(shape)


def parameters(value: Value, rank: int) -> tuple[Array, Array]:
    """Scale (float32) and zero point (int64) of ``value``, shaped to broadcast over a tensor of ``rank``."""
    quantization = value.quantization
    if quantization is None or not quantization.scale.size:
        raise ModelError(f"%{value.name} is {value.dtype.short} without a scale, quantization is wanted")
    zero = quantization.zero_point if quantization.zero_point.size else np.zeros(1, np.int64)
    return _along_axis(quantization.scale, quantization, rank), _along_axis(zero, quantization, rank)


class Quantize(Typed, code="QUANTIZE"):
    """round(x / scale) + zero_point, halves away from zero, limited to the dtype of the result."""

    input = operand()

    layout_operands = ("input",)

    def infer(self) -> TensorType:
        if not self.results:
            raise ModelError("QUANTIZE does not tell its result's type: give it the result")
        result = self.results[0]
        return TensorType(result.dtype, self.input.shape, result.quantization)

    @np.errstate(all="ignore")
    def kernel(self, input: Array) -> Array:
        dtype = self.output.dtype
        if input.dtype.kind != "f" or dtype not in (i8, DType.UINT8, i16):
            pair = f"{self.input.dtype.short} to {dtype.short}"
            raise UnsupportedError(f"QUANTIZE from {pair} has no kernel yet, only from f32 to i8, u8, i16")
        scale, zero = parameters(self.output, input.ndim)
        real = (input / scale).astype(np.float64)
        rounded = np.trunc(real + np.copysign(0.5, real)) + zero
        limits = {i8: (-128, 127), i16: (-(2**15), 2**15 - 1)}.get(dtype, (0, 255))
        return np.asarray(np.clip(rounded, *limits), dtype.numpy)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}

    def required_version(self) -> int:
        if DType.INT4 in (self.input.dtype, self.output.dtype):
            return 4
        quantization = self.output.quantization
        if quantization is not None and quantization.is_per_channel:
            return 3
        return 2 if self.output.dtype is i16 else 1


class Dequantize(Typed, code="DEQUANTIZE"):
    """scale * (x - zero_point); of float16, the same number in float32."""

    input = operand()

    layout_operands = ("input",)
    versions: ClassVar = {i8: 2, i16: 3, f16: 3, DType.INT4: 6, DType.INT2: 7, DType.UINT4: 8}

    def infer(self) -> TensorType:
        if not self.input.dtype.is_integer and self.input.dtype is not f16:
            raise ShapeError(f"input is {self.input.dtype.short}, quantized integers or f16 are wanted")
        return TensorType(f32, self.input.shape)

    def kernel(self, input: Array) -> Array:
        if input.dtype == np.float16:
            return input.astype(np.float32)
        scale, zero = parameters(self.input, input.ndim)
        return np.asarray((input.astype(np.int64) - zero) * scale.astype(np.float64), np.float32)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}

    def required_version(self) -> int:
        quantization = self.input.quantization
        if (
            self.input.dtype is i8
            and is_quantized(self.input)
            and quantization
            and quantization.is_per_channel
        ):
            return 5
        return super().required_version()


class FakeQuant(Unary, code="FAKE_QUANT"):
    """x rounded to the grid of ``num_bits`` between ``min`` and ``max``, which move so that 0 is on it."""

    min: float = attribute(0.0)
    max: float = attribute(0.0)
    num_bits: int = attribute(0)
    narrow_range: bool = attribute(False)

    def compute(self, x: Array) -> Array:
        low, high = np.float32(self.narrow_range), np.float32(2**self.num_bits - 1)
        least, most = np.float32(self.min), np.float32(self.max)
        scale = (most - least) / (high - low)
        zero = np.clip(np.floor(low - least / scale + np.float32(0.5)), low, high)
        first, last = (low - zero) * scale, (high - zero) * scale
        steps = np.floor((np.clip(x, first, last) - first) * (np.float32(1) / scale) + np.float32(0.5))
        return np.asarray(steps * scale + first, x.dtype)

    def required_version(self) -> int:
        return 2 if self.narrow_range else 1
