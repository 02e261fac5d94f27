# SPDX-License-Identifier: Apache-2.0
"""Activation functions.  Source: TFLite activations."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, f16, i8, i16, u8
from circlekit.ir.op import attribute, operand
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import reject_quantized, require_numpy_kind, require_same_dtype
from circlekit.ops.common import clip
from circlekit.ops.dimensions import broadcast_shapes, common_shape
from circlekit.ops.elementwise import Unary
from circlekit.ops.numerics.fixed_point import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    round_half_away,
    rounding_divide_by_pot,
    saturating_left_shift,
)
from circlekit.ops.numerics.gelu_tanh import write_gelu
from circlekit.ops.numerics.logistic_int16 import logistic_16, need_fraction, tanh_16
from circlekit.ops.numerics.lookup_tables import (
    in_float64,
    limited,
    real_function,
    tabulated,
    tabulated_pairs,
)
from circlekit.ops.numerics.narrow import bound_pairs
from circlekit.ops.numerics.tanh_float32 import tanh_32
from circlekit.ops.quantization import dtype_limits, is_quantized_8_or_16_bits, scale_of, zero_point_of
from circlekit.ops.versions import VersionedByDtype


class Clamped(Unary):
    """x limited to ``bounds``; quantized, x is rescaled, then limited to what the bounds round to."""

    bounds: ClassVar[tuple[float, float | None]] = (0.0, None)
    narrow: ClassVar[frozenset[DType]] = frozenset({i8, u8})
    """The quantized types that LiteRT has."""

    def write(self, tape: Tape, x: Array, out: Array) -> None:
        low, high = self.bounds
        most = np.inf if high is None else high
        tape.do(clip, x, np.asarray(low, x.dtype), np.asarray(most, x.dtype), out)

    def reached(self, reach: float) -> float:
        return reach if self.bounds[1] is None else min(reach, self.bounds[1])

    def quantized(self, x: Array) -> Array:
        if self.input.dtype not in self.narrow:
            reject_quantized(self)
        scale, zero = scale_of(self.output), zero_point_of(self.output)
        least, most = dtype_limits(self.output.dtype)
        low, high = self.bounds
        least = max(least, zero + int(round_half_away(np.float32(low) / scale)))
        if high is not None:
            most = min(most, zero + int(round_half_away(np.float32(high) / scale)))
        by = quantize_multiplier(scale_of(self.input) / scale)

        def clamped(part: Array) -> Array:
            scaled = (
                multiply_by_quantized_multiplier(part.astype(np.int32) - zero_point_of(self.input), by) + zero
            )
            return np.minimum(np.maximum(scaled, least), most).astype(x.dtype)

        return tabulated(x, clamped)


class Relu(Clamped, code="RELU", options=None, versions={i8: 2, u8: 2, i16: 3}):
    """max(x, 0)."""

    narrow = frozenset({i8, u8, i16})


class Relu6(Clamped, code="RELU6", options=None, versions={i8: 2, i16: 3}):
    """min(max(x, 0), 6)."""

    bounds = (0.0, 6.0)
    narrow = frozenset({i8, u8, i16})


class ReluN1To1(Clamped, code="RELU_N1_TO_1", options=None):
    """min(max(x, -1), 1)."""

    bounds = (-1.0, 1.0)


class Relu0To1(Clamped, code="RELU_0_TO_1", options=None):
    """min(max(x, 0), 1)."""

    bounds = (0.0, 1.0)


class LeakyRelu(Unary, code="LEAKY_RELU", versions={i16: 2}):
    """x where it is positive, else alpha * x."""

    alpha: float = attribute(0.0)

    def write(self, tape: Tape, x: Array, out: Array) -> None:
        tape.do(np.multiply, x, np.asarray(self.alpha, x.dtype), out)
        if 0 < self.alpha <= 1:
            tape.do(np.maximum, x, out, out=out)
        else:
            positive = tape.empty(x.shape, np.bool_)
            tape.do(np.greater, x, np.zeros((), x.dtype), positive)
            tape.do(np.copyto, out, x, "same_kind", positive)

    def quantized(self, x: Array) -> Array:
        ratio = scale_of(self.input) / scale_of(self.output)
        slope = scale_of(self.input) * np.float32(self.alpha) / scale_of(self.output)
        same, leak = quantize_multiplier(ratio), quantize_multiplier(np.abs(slope))

        def leaky(part: Array) -> Array:
            real = part.astype(np.int32) - zero_point_of(self.input)
            below = multiply_by_quantized_multiplier(real, leak) * (-1 if slope < 0 else 1)
            return limited(
                self.output, np.where(real >= 0, multiply_by_quantized_multiplier(real, same), below)
            )

        return tabulated(x, leaky)


class Elu(Unary, code="ELU", options=None, reference_version=0):
    """x where it is not negative, else e^x - 1."""

    def compute(self, x: Array) -> Array:
        return np.where(x < 0, np.expm1(x), x)

    def quantized(self, x: Array) -> Array:
        if self.input.dtype is not i8:
            reject_quantized(self)
        return real_function(x, self.input, self.output, in_float64(self.compute))


class PRelu(VersionedByDtype, code="PRELU", options=None):
    """x where it is not negative, else alpha * x; ``alpha`` broadcasts to the input.

    An input of int16 has an alpha of int8.
    """

    input = operand()
    alpha = operand()

    layout_operands = ("input", "alpha")

    def infer(self) -> TensorType:
        if (self.input.dtype, self.alpha.dtype) != (i16, i8):
            require_same_dtype("input", self.input, "alpha", self.alpha)
        return TensorType(self.input.dtype, broadcast_shapes(self.input.shape, self.alpha.shape))

    @np.errstate(all="ignore")
    def kernel(self, input: Array, alpha: Array) -> Any:
        if is_quantized_8_or_16_bits(self.input):
            return tabulated_pairs(input, alpha, self.quantized)
        return self.bind(NOW, input, alpha)

    def bind(self, tape: Tape, input: Array, alpha: Array) -> Array | None:
        if is_quantized_8_or_16_bits(self.input):
            return bound_pairs(tape, self, self.quantized, input, alpha)
        require_numpy_kind(self, input, "f")
        out = tape.empty(common_shape(input, alpha), input.dtype)
        positive = tape.empty(input.shape, np.bool_)
        tape.do(np.multiply, input, alpha, out)
        tape.do(np.greater_equal, input, np.zeros((), input.dtype), positive)
        tape.do(np.copyto, out, input, "same_kind", positive)
        return out

    def quantized(self, x: Array, alpha: Array) -> Array:
        """Of elements quantized in 8 or 16 bits."""
        scales = [scale_of(v) for v in (self.input, self.alpha, self.output)]
        same = quantize_multiplier(scales[0] / scales[2])
        leak = quantize_multiplier(scales[0] * scales[1] / scales[2])
        real = x.astype(np.int32) - zero_point_of(self.input)
        below = multiply_by_quantized_multiplier(
            real * (alpha.astype(np.int32) - zero_point_of(self.alpha)), leak
        )
        return limited(self.output, np.where(real >= 0, multiply_by_quantized_multiplier(real, same), below))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}


class Gelu(Unary, code="GELU", versions={f16: 3, i8: 2, u8: 2}, reference_version=2):
    """x * P(X <= x) of a standard normal X; ``approximate``: P by tanh."""

    approximate: bool = attribute(False)

    def write(self, tape: Tape, x: Array, out: Array) -> None:
        if x.dtype != np.float32:
            super().write(tape, x, out)
        elif self.approximate:
            write_gelu(tape, x, out)
        else:
            write_normal(tape, x, out)
            tape.do(np.multiply, x, out, out)

    def compute(self, x: Array) -> Array:
        if x.dtype == np.float32:
            return super().compute(x)
        if not self.approximate:
            return np.asarray(x.dtype.type(0.5) * x * erfc(x * x.dtype.type(-(0.5**0.5))).astype(x.dtype))
        inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * (x * x * x))
        return np.asarray(x.dtype.type(0.5) * x * (1 + np.tanh(inner)))

    def quantized(self, x: Array) -> Array:
        def gelu(real: Array) -> Array:
            if not self.approximate:
                return np.asarray(np.float32(0.5) * real * in_float64(erfc)(real * np.float32(-(0.5**0.5))))
            inner = np.float32(math.sqrt(2 / math.pi)) * (real + np.float32(0.044715) * real * real * real)
            return np.asarray(np.float32(0.5) * real * (1 + tanh_32(inner)))

        return real_function(x, self.input, self.output, gelu)


class HardSwish(Unary, code="HARD_SWISH"):
    """x * min(max(x + 3, 0), 6) / 6."""

    def compute(self, x: Array) -> Array:
        return np.asarray(x * np.clip(x + 3, 0, 6) / 6, x.dtype)

    def quantized(self, x: Array) -> Array:
        if self.input.dtype is i16:
            reject_quantized(self)
        return tabulated(x, self.swished)

    def swished(self, x: Array) -> Array:
        """In 16 bits: x + 3 as a fraction of 6, times x."""
        fine = scale_of(self.input) / np.float32(128)
        out = quantize_multiplier(fine / scale_of(self.output))
        relu = quantize_multiplier(fine / (np.float32(3) / np.float32(32768)))
        if out.shift > 0:
            raise UnsupportedError("HARD_SWISH with a result far finer than its input has no kernel")
        value = (x.astype(np.int64) - zero_point_of(self.input)) << 7
        product = _high_mul_16(value, out.mantissa)
        gate = value
        if relu.shift > 0:
            gate = saturating_left_shift(gate, relu.shift - 1, 16)
        gate = _high_mul_16(gate, relu.mantissa)
        if relu.shift > 0:
            gate = saturating_left_shift(gate, 1, 16)
        if relu.shift < 0:
            gate = rounding_divide_by_pot(gate, -relu.shift)
        total = ((gate + (1 << 15)) >> 1) * product
        fraction = np.sign(total) * (np.abs(total) >> 15)
        return limited(self.output, rounding_divide_by_pot(fraction, -out.shift))


def _high_mul_16(x: Array, mantissa: Array) -> Array:
    """round(x * m / 2^15), halves up, of int16 numbers and a ``mantissa`` of 31 bits, rounded to m of 15."""
    short = np.where(mantissa >= (1 << 31) - 1 - (1 << 15), (1 << 15) - 1, (mantissa + (1 << 15)) >> 16)
    return np.asarray(np.minimum((x * short + (1 << 14)) >> 15, (1 << 15) - 1))


class Logistic(Unary, code="LOGISTIC", options=None, versions={i8: 2, i16: 3}):
    """1 / (1 + e^-x).  Quantized, the result has a scale of 1/256, or 1/32768 of int16."""

    def write(self, tape: Tape, x: Array, out: Array) -> None:
        real = out if x.dtype != np.float16 else tape.empty(x.shape, np.float32)
        tape.do(np.negative, x, real)
        tape.do(np.exp, real, real)
        tape.do(np.add, real, np.ones((), real.dtype), real)
        tape.do(np.reciprocal, real, real)
        if real is not out:
            tape.copy(real, out)

    def reached(self, reach: float) -> float:
        return 1.0

    def quantized(self, x: Array) -> Array:
        if self.input.dtype is i16:
            need_fraction(self, 2.0**-15)
            return tabulated(x, lambda part: logistic_16(part, self.input))
        need_fraction(self, 2.0**-8)
        return real_function(x, self.input, self.output, lambda real: 1 / (1 + in_float64(np.exp)(-real)))


class Tanh(Unary, code="TANH", options=None, versions={i8: 2, i16: 3}):
    """The hyperbolic tangent.  The result of int16 has a scale of 1/32768."""

    function = np.tanh

    def reached(self, reach: float) -> float:
        return 1.0

    def quantized(self, x: Array) -> Array:
        if self.input.dtype is i16:
            need_fraction(self, 2.0**-15)
            return tabulated(x, lambda part: tanh_16(part, self.input))
        return real_function(x, self.input, self.output, tanh_32)


# -- the error function ------------------------------------------------------------------------

_DEGREE = 22


@cache
def _coefficients() -> list[float]:
    """Chebyshev coefficients of e^(z^2) erfc(z) in u = 2t - 1, t = 1 / (1 + z/2): smooth on -1 < u <= 1.

    They are taken from the standard library's erfc at the Chebyshev nodes; the last are below 1e-13.
    """
    angles = [math.pi * (k + 0.5) / _DEGREE for k in range(_DEGREE)]
    samples = []
    for angle in angles:
        z = 2 * (2 / (math.cos(angle) + 1) - 1)
        # e^(z^2) overflows, and erfc(z) vanishes, where z is large: the asymptotic series there
        if z < 20:
            samples.append(math.exp(z * z) * math.erfc(z))
        else:
            samples.append((1 - 0.5 / z**2 + 0.75 / z**4) / (z * math.sqrt(math.pi)))
    weights = [2 / _DEGREE] * _DEGREE
    weights[0] /= 2
    return [
        w * sum(s * math.cos(j * a) for s, a in zip(samples, angles, strict=True))
        for j, w in enumerate(weights)
    ]


@cache
def _single() -> list[float]:
    """Of half of it, the coefficients of powers of u, to the precision of float32."""
    powers = _in_powers(_coefficients()[:11])
    return list((powers / 2).tolist())


def _in_powers(coefficients: list[float]) -> NDArray[np.float64]:
    """A sum of Chebyshev polynomials as one of powers."""
    size = len(coefficients)
    total, last, before = np.zeros(size), np.eye(1, size)[0], np.zeros(size)
    for index, coefficient in enumerate(coefficients):
        total += coefficient * last
        last, before = (2 if index else 1) * np.roll(last, 1) - before, last
    return total


def write_normal(tape: Tape, x: Array, out: Array) -> None:
    """The calls for P(X <= x) of a standard normal X, float32."""
    u, positive = tape.empty(x.shape, np.float32), tape.empty(x.shape, np.bool_)
    tape.do(np.absolute, x, u)
    tape.do(np.multiply, u, np.asarray(0.5**0.5 / 2, np.float32), u)
    tape.do(np.add, u, np.ones((), np.float32), u)
    tape.do(np.divide, np.asarray(2, np.float32), u, u)
    tape.do(np.subtract, u, np.ones((), np.float32), u)
    last, *others = (np.asarray(c, np.float32) for c in _single()[::-1])
    tape.do(np.multiply, u, last, out)
    for coefficient in others[:-1]:
        tape.do(np.add, out, coefficient, out)
        tape.do(np.multiply, out, u, out)
    tape.do(np.add, out, others[-1], out)
    tape.do(np.multiply, x, x, u)
    tape.do(np.multiply, u, np.asarray(-0.5, np.float32), u)
    tape.do(np.exp, u, u)
    tape.do(np.multiply, out, u, out)
    tape.do(np.greater, x, np.zeros((), np.float32), positive)
    tape.do(np.subtract, np.ones((), np.float32), out, out, where=positive)


_BLOCK = 1 << 14
"""Elements at a time: the temporary arrays of a block stay in the cache."""


def erfc(x: Array) -> NDArray[np.float64]:
    """1 - erf(x) in float64, to a relative error of 1e-8 in the far tail, 1e-11 elsewhere."""
    flat = np.ravel(x)
    out = np.empty(flat.size, np.float64)
    for start in range(0, flat.size, _BLOCK):
        out[start : start + _BLOCK] = _erfc_block(flat[start : start + _BLOCK].astype(np.float64))
    result: NDArray[np.float64] = out.reshape(x.shape)
    return result


def _erfc_block(x: NDArray[np.float64]) -> NDArray[np.float64]:
    z: NDArray[np.float64] = np.abs(x)
    twice_u = 4 / (1 + 0.5 * z) - 2
    last, before, spare = np.zeros_like(z), np.zeros_like(z), np.empty_like(z)
    first, *others = _coefficients()
    for coefficient in reversed(others):  # Clenshaw's recurrence
        np.multiply(twice_u, last, out=spare)
        spare += coefficient - before
        last, before, spare = spare, last, before
    tail = np.exp(-z * z) * (first + 0.5 * twice_u * last - before)
    return np.asarray(np.where(x < 0, 2 - tail, tail), np.float64)
