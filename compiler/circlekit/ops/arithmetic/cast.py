# SPDX-License-Identifier: Apache-2.0
"""Changes of dtype.  Source: TFLite cast, quantize, dequantize, fake_quant."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, bf16, f16, f32, f64, i8, i16, i32, u8, u16, u32
from circlekit.ir.op import attribute, operand
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array, Quantization, TensorType, Value
from circlekit.ops.common import clip
from circlekit.ops.elementwise import Unary
from circlekit.ops.numerics.bfloat16 import round_to_bfloat16
from circlekit.ops.numerics.fixed_point import quantize_multiplier, requantize, round_half_away, wrap_int32
from circlekit.ops.numerics.lookup import BLOCK, FEWEST
from circlekit.ops.numerics.lookup_tables import tabulated
from circlekit.ops.numerics.narrow import bound_narrow
from circlekit.ops.quantization import (
    dtype_limits,
    is_per_channel,
    is_quantized,
    is_quantized_8_or_16_bits,
    scale_of,
    zero_point_of,
)
from circlekit.ops.versions import VersionedByDtype


class Cast(VersionedByDtype, code="CAST"):
    """The numbers in another dtype; where there is a result already, its dtype decides.

    From float to integer: towards zero, limited to what the dtype holds, NaN to the greatest.  Integers wrap.
    Kernels hold bfloat16 in float32, and integers of fewer than 8 bits in bytes.
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
        target = self.output.dtype
        if input.dtype.kind == "c" and target not in (DType.COMPLEX64, DType.COMPLEX128):
            input = input.real
        if target is bf16:
            return round_to_bfloat16(input.astype(np.float32))
        if target in HELD_IN_BYTES:
            return self.cut(input)
        if target.numpy is None:
            raise UnsupportedError(f"CAST to {target.short} has no kernel")
        if input.dtype.kind == "f" and target.numpy.kind in "iu":
            return saturated(input, target.numpy)
        return input.astype(target.numpy)

    def cut(self, x: Array) -> Array:
        """float32 as integers of fewer than 8 bits; LiteRT takes no other dtype."""
        if x.dtype != np.float32:
            raise UnsupportedError(
                f"CAST from {x.dtype} to {self.output.dtype.short} has no kernel, only from f32"
            )
        low, high = dtype_limits(self.output.dtype)
        limited_ = np.clip(np.where(np.isnan(x), np.float32(high), x), np.float32(low), np.float32(high))
        return limited_.astype(HELD_IN_BYTES[self.output.dtype])

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


HELD_IN_BYTES: dict[DType, type[np.integer[Any]]] = {
    DType.INT4: np.int8,
    DType.UINT4: np.uint8,
    DType.INT2: np.int8,
}
"""What kernels take for integers that are packed in a file."""


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
        raise ModelError(f"expected quantization, %{value.name} is {value.dtype.short} without a scale")
    zero = quantization.zero_point if quantization.zero_point.size else np.zeros(1, np.int64)
    return _along_axis(quantization.scale, quantization, rank), _along_axis(zero, quantization, rank)


BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))


def stepped(x: Array, zero: Array, dtype: DType) -> Array:
    """float32 numbers of steps, rounded, halves away from zero, plus ``zero``, limited to ``dtype``.

    Works in ``x``.  Added to what is below a half, BELOW_HALF does not carry, where 0.5 would.
    """
    wild = None if np.abs(x).max(initial=0) < 2**31 else ~(np.abs(x) < np.float32(2**31))
    x += np.copysign(BELOW_HALF, x)
    np.trunc(x, out=x)
    x += zero.astype(np.float32)
    if wild is not None:
        x = np.where(wild, wrap_int32(zero - (1 << 31)).astype(np.float32), x)
    low, high = dtype_limits(dtype)
    return np.clip(x, np.float32(low), np.float32(high), out=x)


def mend_wild(x: Array, out: Array, zero: Array, limits: tuple[np.float32, np.float32]) -> None:
    """Put into ``out`` what becomes of numbers of steps ``x`` that are no int32, as ``stepped`` has it."""
    if x.size and x.min() > -(2**31) and x.max() < 2**31:  # which no NaN is
        return
    wild = ~(np.abs(x) < np.float32(2**31))
    least = wrap_int32(zero - (1 << 31)).astype(np.float32)
    out[wild] = np.broadcast_to(least.clip(*limits), x.shape)[wild]


REQUANTIZED = {i8: (i8, u8, i16), u8: (i8, u8, i16), i16: (i8, i16, i32), i32: (i8, i16)}
"""From and to which quantized integers LiteRT rescales."""


class Quantize(VersionedByDtype, code="QUANTIZE"):
    """round(x / scale) + zero_point, halves away from zero, limited to the dtype of the result.

    NaN, and what is no int32, is -2^31 before the zero point is added modulo 2^32: as on x86.  Quantized
    integers are rescaled: between 8 and 16 bits, 16 to 32, and 32 to 8 or 16.
    """

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
        if input.dtype == np.float32 and dtype in (i8, u8, i16, DType.INT4, DType.UINT4):
            return self.rounded(input)
        if dtype not in REQUANTIZED.get(self.input.dtype, ()):
            pair = f"{self.input.dtype.short} to {dtype.short}"
            raise UnsupportedError(f"QUANTIZE from {pair} has no kernel, nor has LiteRT")
        return self.requantized(input) if input.dtype.itemsize > 2 else tabulated(input, self.requantized)

    def bind(self, tape: Tape, input: Array) -> Array | None:
        dtype = self.output.dtype
        if input.dtype == np.float32 and dtype in (i8, u8, i16):
            return self.stepped(tape, input)
        if dtype not in REQUANTIZED.get(self.input.dtype, ()):
            return None
        return bound_narrow(tape, self, self.requantized, input)

    def stepped(self, tape: Tape, x: Array) -> Array:
        """``rounded`` on a tape."""
        out = tape.empty(x.shape, self.output.dtype.numpy)
        scale, zero = parameters(self.output, x.ndim)
        low, high = (np.float32(n) for n in dtype_limits(self.output.dtype))
        data, result = tape.contiguous(x), out
        if not scale.ndim:
            data, result = data.reshape(-1), out.reshape(-1)
        zeros = zero.astype(np.float32) if zero.any() else None
        most = max(FEWEST, min(BLOCK, tape.scratch // 4 // (2 * data.itemsize)))
        step = min(max(1, most // max(1, data[:1].size)), max(len(data), 1))

        def run(real: Array, half: Array) -> None:
            for first in range(0, len(data), step):
                part = data[first : first + step]
                steps, halves = real[: len(part)], half[: len(part)]
                np.divide(part, scale, steps)
                clip(steps, -BELOW_HALF, BELOW_HALF, halves)
                np.add(halves, steps, halves)
                np.trunc(halves, halves)
                if zeros is not None:
                    np.add(halves, zeros, halves)
                clip(halves, low, high, halves)
                mend_wild(steps, halves, zero, (low, high))
                result[first : first + step] = halves

        need = (step, *data.shape[1:]), np.dtype(np.float32)
        tape.work(run, need, need)
        return out

    def requantized(self, x: Array) -> Array:
        """Of quantized integers."""
        by = quantize_multiplier(float(scale_of(self.input)) / float(scale_of(self.output)))
        distance = (x.astype(np.int64) - zero_point_of(self.input)).astype(np.int32)
        limits, kept = dtype_limits(self.output.dtype), np.dtype(self.output.dtype.numpy)
        return requantize(distance, by, zero_point_of(self.output), limits, kept)

    def rounded(self, x: Array) -> Array:
        """The nearest integers of float32 numbers."""
        dtype = self.output.dtype
        out = np.empty(x.shape, HELD_IN_BYTES.get(dtype, dtype.numpy))
        scale, zero = parameters(self.output, x.ndim)
        if scale.ndim:
            out[...] = stepped(x / scale, zero, dtype)
            return out
        real, flat = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
        for start in range(0, x.size, BLOCK):
            part = slice(start, start + BLOCK)
            flat[part] = stepped(real[part] / scale, zero, dtype)
        return out

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}

    def required_version(self) -> int:
        if DType.INT4 in (self.input.dtype, self.output.dtype):
            return 4
        quantization = self.output.quantization
        if quantization is not None and quantization.is_per_channel:
            return 3
        return 2 if self.output.dtype is i16 else 1


class Dequantize(VersionedByDtype, code="DEQUANTIZE"):
    """scale * (x - zero_point); of float16, the same number in float32."""

    input = operand()

    layout_operands = ("input",)
    versions: ClassVar = {i8: 2, i16: 3, f16: 3, DType.INT4: 6, DType.INT2: 7, DType.UINT4: 8}

    def infer(self) -> TensorType:
        if not self.input.dtype.is_integer and self.input.dtype not in (f16, bf16):
            raise ShapeError(f"input is {self.input.dtype.short}, quantized integers or f16 are wanted")
        return TensorType(f32, self.input.shape)

    def kernel(self, input: Array) -> Array:
        if input.dtype.kind == "f":
            return input.astype(np.float32)
        if (
            is_quantized_8_or_16_bits(self.input)
            and input.dtype.itemsize == 1
            and not is_per_channel(self.input)
        ):
            return tabulated(input, self.real)
        return self.real(input)

    def bind(self, tape: Tape, input: Array) -> Array | None:
        if input.dtype.kind == "f" or input.dtype.itemsize > 2:
            return None
        scale, zero = parameters(self.input, input.ndim)
        out = tape.empty(input.shape, np.float32)
        tape.copy(input, out)
        if zero.any():
            tape.do(np.subtract, out, zero.astype(np.float32), out)
        tape.do(np.multiply, out, scale, out)
        return out

    def real(self, x: Array) -> Array:
        scale, zero = parameters(self.input, x.ndim)
        exact = np.float32 if x.dtype.itemsize < 4 else np.float64
        return np.asarray((x - zero).astype(exact) * scale, np.float32)

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
        zero = np.clip(round_half_away(low - least / scale), low, high)
        first, last = (low - zero) * scale, (high - zero) * scale
        limited = np.minimum(np.fmax(x, first), last)  # NaN becomes the least
        steps = round_half_away((limited - first) * (np.float32(1) / scale))
        return np.asarray(steps * scale + first, x.dtype)

    def required_version(self) -> int:
        return 2 if self.narrow_range else 1
