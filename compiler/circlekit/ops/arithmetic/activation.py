# SPDX-License-Identifier: Apache-2.0
"""Operators that are activation functions, such as RELU and GELU.  Source: TFLite activations.

``compute`` gives the results for data without a scale, ``quantized`` for 8-bit and 16-bit data with a scale.
By default, ``quantized`` dequantizes the data, applies ``real``, and quantizes the results of ``real``.  In
int16, it does so for 513 numbers and interpolates between their results, as LiteRT does.
``real`` maps float32 numbers to float32 numbers; by default it is ``compute`` in float64, rounded.

Class arguments:

- ``versions``: the operator version by the dtype of the data; 1 for other dtypes.
- ``reference_version``: the newest version that LiteRT's reference kernels implement; 0: they lack the
  operator.
- ``quantized_dtypes``: the dtypes for which LiteRT has quantized kernels.
- ``function``: the numpy function that ``compute`` applies, unless the class defines ``compute``.
- ``bounds``: see ``Clamped``.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, f16, i8, i16, u8
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import (
    QuantizationRule,
    from_minus_one_to_one,
    from_zero_to_one,
)
from circlekit.ir.value import Array, TensorType
from circlekit.ops.arithmetic.cast import quantization_arrays
from circlekit.ops.checks import require_numpy_kind, require_same_dtype
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.ops.elementwise import Unary
from circlekit.ops.numerics.fixed_point import (
    centered,
    clamp_to_dtype,
    quantize_multiplier,
    rescaled,
    round_half_away,
    rounding_divide_by_pot,
    saturating_left_shift,
    saturating_rounding_doubling_high_mul,
)
from circlekit.ops.numerics.float_functions import eigen_tanh_plus_one, erfc, fdlibm_tanh, normal_cdf
from circlekit.ops.numerics.lookup_tables import (
    logistic_int16,
    overflow_fault,
    require_output_scale,
    tanh_int16,
)
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.quantized_values import dtype_limits, is_quantized_8_or_16_bits, scale_of, zero_point_of


class Clamped(Unary):
    """x clamped to ``bounds``, the lowest and the highest result; None: no upper bound.

    Quantized data are rescaled, then clamped.
    """

    bounds: ClassVar[tuple[float, float | None]] = (0.0, None)
    quantized_dtypes: ClassVar[tuple[DType, ...]] = (i8, u8)

    def compute(self, x: Array) -> Array:
        low, high = self.bounds
        return np.asarray(x.clip(low, high))

    def quantized(self, x: Array) -> Array:
        scale, zero = scale_of(self.output), zero_point_of(self.output)
        lowest, highest = dtype_limits(self.output.dtype)
        low, high = self.bounds
        lowest = max(lowest, zero + int(round_half_away(np.float32(low) / scale)))
        if high is not None:
            highest = min(highest, zero + int(round_half_away(np.float32(high) / scale)))
        scaled = rescaled(centered(x, self.input), scale_of(self.input) / scale) + zero
        return np.minimum(np.maximum(scaled, lowest), highest).astype(x.dtype)


class Relu(Clamped, code="RELU", options=None, versions={i8: 2, u8: 2, i16: 3}):
    """max(x, 0)."""

    quantized_dtypes = (i8, u8, i16)


# RELU6 takes uint8 from version 1 on, RELU from version 2 on
class Relu6(Clamped, code="RELU6", options=None, versions={i8: 2, i16: 3}, bounds=(0.0, 6.0)):
    """min(max(x, 0), 6)."""

    quantized_dtypes = (i8, u8, i16)


class ReluN1To1(Clamped, code="RELU_N1_TO_1", options=None, bounds=(-1.0, 1.0)):
    """min(max(x, -1), 1)."""


class Relu0To1(Clamped, code="RELU_0_TO_1", options=None, bounds=(0.0, 1.0)):
    """min(max(x, 0), 1)."""


class LeakyRelu(Unary, code="LEAKY_RELU", versions={i16: 2}, quantized_dtypes=(i8, u8, i16)):
    """x for x > 0, else alpha * x."""

    alpha: float = attribute(0.0)

    def compute(self, x: Array) -> Array:
        return np.where(x > 0, x, x * x.dtype.type(self.alpha))

    def quantized(self, x: Array) -> Array:
        slope = scale_of(self.input) * np.float32(self.alpha) / scale_of(self.output)
        distance = centered(x, self.input)
        below = rescaled(distance, np.abs(slope)) * int(np.sign(slope))  # a multiplier must not be negative
        above = rescaled(distance, scale_of(self.input) / scale_of(self.output))
        return clamp_to_dtype(np.where(distance >= 0, above, below), self.output)


class Elu(Unary, code="ELU", options=None, reference_version=0, quantized_dtypes=(i8,)):
    """x for x >= 0, else e^x - 1."""

    def compute(self, x: Array) -> Array:
        return np.where(x < 0, np.expm1(x), x)


class PRelu(Op, code="PRELU", options=None, layout_operands=("input", "alpha")):
    """x for x >= 0, else alpha * x; ``input`` and ``alpha`` broadcast.

    LiteRT requires that the result has the shape of the input; this kernel does not.  ``input`` and ``alpha``
    have the same dtype, or ``input`` is int16 and ``alpha`` int8.
    """

    # a constant alpha gets the dtype of weights: for int16 data, LiteRT reads an int8 alpha
    quantization_rule = QuantizationRule(slopes=("alpha",))

    input = operand(*REAL)
    alpha = operand(*REAL)

    def infer(self) -> TensorType:
        if (self.input.dtype, self.alpha.dtype) != (i16, i8):
            require_same_dtype("input", self.input, "alpha", self.alpha)
        return TensorType(self.input.dtype, broadcast_shapes(self.input.shape, self.alpha.shape))

    def kernel(self, input: Array, alpha: Array) -> Array:
        if is_quantized_8_or_16_bits(self.input):
            return self.quantized(input, alpha)
        require_numpy_kind(self, input, "f")
        return np.where(input >= 0, input, input * alpha)

    def quantized(self, x: Array, alpha: Array) -> Array:
        """Return the results for data quantized in 8 or 16 bits.

        In models of ONE, ``alpha`` may have a scale per channel.
        """
        input_scale, output_scale = scale_of(self.input), scale_of(self.output)
        alpha_scale, alpha_zero_point = quantization_arrays(self.alpha, alpha.ndim)
        distance = centered(x, self.input)
        above = rescaled(distance, input_scale / output_scale)
        slope = alpha.astype(np.int32) - alpha_zero_point.astype(np.int32)
        below = rescaled(distance * slope, input_scale * alpha_scale / output_scale)
        return clamp_to_dtype(np.where(distance >= 0, above, below), self.output)


SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


class Gelu(Unary, code="GELU", versions={f16: 3, i8: 2, u8: 2}, reference_version=2):
    """x * P(X <= x), where X has the standard normal distribution.

    If ``approximate``: x / 2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
    """

    approximate: bool = attribute(False)

    quantized_dtypes = (i8, u8, i16)

    def compute(self, x: Array) -> Array:
        scalar = x.dtype.type
        if not self.approximate:
            if scalar is np.float32:
                return np.asarray(x * normal_cdf(x))
            return np.asarray(scalar(0.5) * x * erfc(x * scalar(-(0.5**0.5))).astype(x.dtype))
        inner = ((x * x * x) * scalar(0.044715) + x) * scalar(SQRT_2_OVER_PI)
        one_plus_tanh = eigen_tanh_plus_one(inner) if scalar is np.float32 else 1 + np.tanh(inner)
        return np.asarray(one_plus_tanh * (x * scalar(0.5)))

    def real(self, x: Array) -> Array:
        # LiteRT computes the lookup tables of its quantized kernels with the C library, and in another order
        # of operations than in ``compute``
        half = np.float32(0.5) * x
        if not self.approximate:
            return np.asarray(half * erfc(x * np.float32(-(0.5**0.5))).astype(np.float32))
        inner = np.float32(SQRT_2_OVER_PI) * (x + np.float32(0.044715) * x * x * x)
        return np.asarray(half * (1 + fdlibm_tanh(inner)))


class HardSwish(Unary, code="HARD_SWISH", quantized_dtypes=(i8, u8)):
    """x * min(max(x + 3, 0), 6) / 6."""

    # the smallest ratio of output scale to input scale; ``quantized`` raises an error for 1 / 128 and below
    quantization_rule = QuantizationRule(least_step={i8: 1 / 127, u8: 1 / 127})

    def compute(self, x: Array) -> Array:
        return np.asarray(x * np.clip(x + 3, 0, 6) / 6, x.dtype)

    def quantized(self, x: Array) -> Array:
        # ``value`` is x in units of input scale / 128.  ``gate`` is x / 3 in units of 2^-15, saturated to 16
        # bits, that is to [-1, 1).  The result is x * (gate + 1) / 2 = x * min(max(x + 3, 0), 6) / 6
        fine_scale = scale_of(self.input) / np.float32(128)
        to_output = quantize_multiplier(fine_scale / scale_of(self.output))
        to_gate = quantize_multiplier(fine_scale / (np.float32(3) / np.float32(32768)))
        if to_output.shift > 0:
            expected = f"expected an output scale above input scale / 128 = {fine_scale:.6g}"
            raise UnsupportedError(f"HARD_SWISH: {expected}, got {scale_of(self.output):.6g}")
        value = centered(x, self.input).astype(np.int64) << 7
        scaled_x = saturating_rounding_doubling_high_mul(value, _mantissa_int16(to_output.mantissa), 16)
        gate = value
        if to_gate.shift > 0:  # as in LiteRT: shift by all bits but one, multiply, shift by the last one
            gate = saturating_left_shift(gate, to_gate.shift - 1, 16)
        gate = saturating_rounding_doubling_high_mul(gate, _mantissa_int16(to_gate.mantissa), 16)
        if to_gate.shift > 0:
            gate = saturating_left_shift(gate, 1, 16)
        if to_gate.shift < 0:
            gate = rounding_divide_by_pot(gate, -to_gate.shift)
        product = ((gate + (1 << 15)) >> 1) * scaled_x
        towards_zero = np.sign(product) * (np.abs(product) >> 15)
        steps = rounding_divide_by_pot(towards_zero, -to_output.shift)
        if to_output.shift < -15:  # LiteRT's rounding mask overflows, and all results are rounded away from 0
            steps = np.where(towards_zero < 0, -1, 1)
        return clamp_to_dtype(steps, self.output)


def _mantissa_int16(mantissa: Array) -> Array:
    """Return mantissas of 31 bits rounded to 15 bits (TFLite DownScaleInt32ToInt16Multiplier)."""
    return np.asarray(np.minimum((mantissa + (1 << 15)) >> 16, (1 << 15) - 1))


class Logistic(Unary, code="LOGISTIC", options=None, versions={i8: 2, i16: 3}):
    """1 / (1 + e^-x).  A quantized result must have scale 1/256, or 1/32768 for int16."""

    quantization_rule = QuantizationRule(fixed=from_zero_to_one())

    quantized_dtypes = (i8, u8, i16)

    def compute(self, x: Array) -> Array:
        real = x.astype(np.float32) if x.dtype == np.float16 else x
        return np.asarray(1 / (1 + np.exp(-real)), x.dtype)

    def quantized(self, x: Array) -> Array:
        if self.input.dtype is i16:
            require_output_scale(self, 2.0**-15)
            return logistic_int16(x, self.input)
        require_output_scale(self, 2.0**-8)
        return super().quantized(x)

    def integer_fault(self) -> str | None:
        return overflow_fault(self)

    def real(self, x: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-x.astype(np.float64)).astype(np.float32)))


class Tanh(Unary, code="TANH", options=None, versions={i8: 2, i16: 3}, function=np.tanh):
    """The hyperbolic tangent.  An int16 result must have the scale 1/32768."""

    quantization_rule = QuantizationRule(fixed=from_minus_one_to_one())

    quantized_dtypes = (i8, u8, i16)

    def quantized(self, x: Array) -> Array:
        if self.input.dtype is i16:
            require_output_scale(self, 2.0**-15)
            return tanh_int16(x, self.input)
        return super().quantized(x)

    def integer_fault(self) -> str | None:
        return overflow_fault(self)

    def real(self, x: Array) -> Array:
        return fdlibm_tanh(x)
