# SPDX-License-Identifier: Apache-2.0
"""Operators that normalize, and the rotary position embedding.

Class arguments: ``versions`` is the operator version for data of a dtype, ``reference_version`` the newest
version that LiteRT's reference kernels compute correctly (0: none), ``formats`` the file formats that have
the operator.  The axes of ``layout_operands`` may be permuted as ``permuted`` says.

Source: TFLite softmax, log_softmax, l2norm, local_response_norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.declaration import NEW_AXIS, kept_rank
from circlekit.ir.dtypes import f16, i8, i16, u8
from circlekit.ir.enums import Activation, RoPEMode
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule, from_zero_to_one
from circlekit.ir.value import Array, TensorType, Value, format_shape
from circlekit.ops.checks import require_float, require_rank, require_same_float
from circlekit.ops.dimensions import Dim, dims_differ, product
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.reduction.normalization_quantized import (
    EQUAL_8_BITS,
    SOFTMAX_DTYPES,
    l2_normalization_8_bits,
    largest,
    log_softmax_8_bits,
    require_dtypes,
    softmax_8_bits,
    softmax_16_bits,
)
from circlekit.ops.reduction.reduce import elements_per_result

CIRCLE = frozenset({"circle"})


class _LastAxis(Op, layout_operands=("input",)):
    """Base class of operators that keep the shape and work on each vector along the last axis.

    So the other axes may be permuted, and nothing else of the operator changes.
    """

    input = operand(*REAL)

    def infer(self) -> TensorType:
        if self.input.shape == ():
            raise ShapeError("expected input of rank 1 or more, got a scalar")
        return TensorType(self.input.dtype, self.input.shape)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {} if perm[-1] == kept_rank(perm) - 1 else None


class Softmax(_LastAxis, code="SOFTMAX", versions={f16: 4, i16: 3, i8: 2}, reference_version=3):
    """exp(beta * x) / sum(exp(beta * x)) along the last axis.

    Integers are computed in fixed point, as in LiteRT's reference kernels.  If its optimized kernels are
    followed, 8-bit integers are computed in float32.
    """

    # exp(-10) is about 0, so a mask such as -inf may be stored as a number that is 10 below the others
    quantization_rule = QuantizationRule(fixed=from_zero_to_one(), mask_distance=10.0)

    beta: float = attribute(1.0)

    def infer(self) -> TensorType:
        inferred = super().infer()
        # an 8-bit SOFTMAX may have an int16 result; only the declared dtype of the result shows it
        is_wide = self.input.dtype in (i8, u8) and bool(self.results) and self.results[0].dtype is i16
        return TensorType(i16, inferred.shape) if is_wide else inferred

    def integer_fault(self) -> str | None:
        """Return why the integer kernels of runtimes do not compute this operator; None if they do."""
        if self.beta <= 0:
            return f"{self.code} on integers needs a beta above 0, got {self.beta:g}"
        return None

    def kernel(self, input: Array) -> Array:
        if self.input.dtype.is_integer:
            require_dtypes(self, self.input, self.output, SOFTMAX_DTYPES)
            if input.dtype == np.int16:
                return softmax_16_bits(input, self.input, self.beta)
            return softmax_8_bits(input, self.input, self.output, self.beta)
        x = input.astype(np.float32) if input.dtype == np.float16 else input
        require_float(self, x)
        powers = np.exp((x - largest(x)) * x.dtype.type(self.beta))
        total = powers.sum(axis=-1, keepdims=True)  # before the powers are rounded to float16
        return np.asarray(powers.astype(input.dtype).astype(x.dtype) / total, input.dtype)


class LogSoftmax(_LastAxis, code="LOG_SOFTMAX", versions={i8: 2}):
    """x - log(sum(exp(x))) along the last axis.

    Integers are computed in fixed point, as in LiteRT's reference kernels; if its optimized kernels are
    followed, in float32.
    """

    quantization_rule = QuantizationRule(fixed={i8: (1 / 16, 127), u8: (1 / 16, 255)})  # scale, zero point

    def kernel(self, input: Array) -> Array:
        if self.input.dtype.is_integer:
            require_dtypes(self, self.input, self.output, EQUAL_8_BITS)
            return log_softmax_8_bits(input, self.input)
        require_float(self, input)
        out: Array = input - largest(input)
        out -= np.log(np.exp(out).sum(axis=-1, keepdims=True))
        return out


class L2Normalization(_LastAxis, code="L2_NORMALIZATION", options="L2NormOptions", versions={i8: 2}):
    """x / max(sqrt(sum(x * x)), 1e-6) along the last axis.  No runtime implements its fused activation."""

    quantization_rule = QuantizationRule(fixed={i8: (1 / 128, 0), u8: (1 / 128, 128)})

    act: Activation = attribute(Activation.NONE, "fused_activation_function")

    def kernel(self, input: Array) -> Array:
        if self.act is not Activation.NONE:
            raise UnsupportedError(
                f"{self.code} with the fused activation {self.act!r} has no kernel in any runtime"
            )
        if self.input.dtype.is_integer:
            require_dtypes(self, self.input, self.output, EQUAL_8_BITS)
            return l2_normalization_8_bits(input, self.input)
        require_float(self, input)
        norm = np.sqrt(np.square(input).sum(axis=-1, keepdims=True))
        out: Array = input / np.maximum(norm, norm.dtype.type(1e-6))  # 1e-6 as in TFLite
        return out


class LocalResponseNormalization(_LastAxis, code="LOCAL_RESPONSE_NORMALIZATION", reference_version=0):
    """x * (bias + alpha * sum(x * x)) ** -beta, where the sum is over neighboring channels.

    For x in channel c, the sum is over channels c - radius to c + radius, as in TensorFlow and LiteRT's
    optimized kernel.  LiteRT's reference kernel leaves out channel c + radius.
    """

    quantization_rule = OWN_RANGES

    radius: int = attribute(0)
    bias: float = attribute(0.0)
    alpha: float = attribute(0.0)
    beta: float = attribute(0.0)

    def infer(self) -> TensorType:
        require_rank(self.input, "input", 4)
        return super().infer()

    def kernel(self, input: Array) -> Array:
        require_float(self, input)
        square, depth = np.square(input), input.shape[-1]
        total = np.zeros_like(square)
        # add channel c + offset to the sum of channel c, for all c that have such a neighbor
        for offset in range(max(-self.radius, 1 - depth), min(self.radius + 1, depth)):
            target = slice(max(-offset, 0), depth - max(offset, 0))
            source = slice(max(offset, 0), depth - max(-offset, 0))
            total[..., target] += square[..., source]
        real = input.dtype.type
        out: Array = input * np.power(real(self.bias) + real(self.alpha) * total, real(-self.beta))
        return out


class RmsNorm(_LastAxis, code="RMS_NORM", formats=CIRCLE):
    """gamma * x / sqrt(mean(x * x) + epsilon) along the last axis.

    gamma is [n] or [1], where n is the last dimension.  Source: ONE's interpreter.
    """

    gamma = operand(*REAL)

    epsilon: float = attribute(0.0)

    def infer(self) -> TensorType:
        require_same_float(self)
        _require_per_channel(self.gamma, "gamma", self.input.shape[-1] if self.input.shape else None)
        return super().infer()

    def kernel(self, input: Array, gamma: Array) -> Array:
        require_float(self, input, gamma)
        mean = _mean(np.square(input), (input.ndim - 1,))
        out: Array = input * (1.0 / np.sqrt(mean + self.epsilon)).astype(input.dtype)
        out *= gamma.reshape(-1)
        return out


class InstanceNorm(Op, code="INSTANCE_NORM", formats=CIRCLE, layout_operands=("input",)):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta.

    Mean and variance are computed for each batch element and channel.  As in ONE's interpreter, the channel
    axis is the last one for rank 4 (NHWC), and axis 1 for rank 3 (NCW).  gamma and beta are [C] or [1].
    """

    input = operand(*REAL)
    gamma = operand(*REAL)
    beta = operand(*REAL)

    epsilon: float = attribute(0.0)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    fuses_activation = True

    def infer(self) -> TensorType:
        shape = require_rank(self.input, "input", 3, 4)
        require_same_float(self)
        channels = None if shape is None else shape[_channel_axis(len(shape))]
        _require_per_channel(self.gamma, "gamma", channels)
        _require_per_channel(self.beta, "beta", channels)
        return TensorType(self.input.dtype, shape)

    def kernel(self, input: Array, gamma: Array, beta: Array) -> Array:
        require_float(self, input, gamma, beta)
        channel = _channel_axis(input.ndim)
        spatial_axes = tuple(a for a in range(1, input.ndim) if a != channel)
        mean = _mean(input, spatial_axes)
        out = input - mean.astype(input.dtype)
        variance = _mean(np.square(out), spatial_axes)
        channel_shape = [1] * input.ndim
        channel_shape[channel] = -1
        scale = gamma.reshape(channel_shape) / np.sqrt(variance + self.epsilon)
        out *= scale.astype(input.dtype)
        out += beta.reshape(channel_shape)
        return apply_fused_activation(out, self.act)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        channel = _channel_axis(len(perm))  # it depends on the rank, so there must be no new axis
        return {} if perm[0] == 0 and perm[channel] == channel and NEW_AXIS not in perm else None


class RoPE(_LastAxis, code="ROPE", formats=CIRCLE):
    """The rotary position embedding: rotates the pairs (a, b) of each vector along the last axis.

    A pair becomes (a * cos - b * sin, a * sin + b * cos).  For element i of the result, sin and cos are
    element i of their tables.  Of n elements, the mode GPT_NEOX pairs element i with element i + n / 2; GPT_J
    pairs neighbors.  The tables are [..., n].  As in ONE's runtimes, the first n elements of a table are used
    for every vector, and the others are ignored.  These runtimes have only GPT_NEOX.
    """

    sin_table = operand(*REAL)
    cos_table = operand(*REAL)

    mode: RoPEMode = attribute(RoPEMode.GPT_NEOX)

    def infer(self) -> TensorType:
        shape = require_rank(self.input, "input", 4)
        require_same_float(self)
        size = None if shape is None else shape[-1]
        if size is not None and size % 2:
            raise ShapeError(f"expected input with an even last dimension, got shape {format_shape(shape)}")
        for name, table in (("sin_table", self.sin_table), ("cos_table", self.cos_table)):
            table_shape = table.shape
            if table_shape is not None and (not table_shape or dims_differ(table_shape[-1], size)):
                expected = "a last dimension" if size is None else f"a last dimension of {size}"
                raise ShapeError(f"expected {name} with {expected}, got shape {format_shape(table_shape)}")
            if 0 in (table_shape or ())[:-1]:
                raise ShapeError(f"expected {name} with a row or more, got shape {format_shape(table_shape)}")
        return TensorType(self.input.dtype, self.input.shape or (None,) * 4)

    def kernel(self, input: Array, sin_table: Array, cos_table: Array) -> Array:
        require_float(self, input, sin_table, cos_table)
        size = input.shape[-1]
        return rotated(input, sin_table.reshape(-1)[:size], cos_table.reshape(-1)[:size], self.mode)


def rotated(x: Array, sin: Array, cos: Array, mode: RoPEMode) -> Array:
    """Return ``x`` [..., n] with its pairs rotated by the tables ``sin`` and ``cos`` [n]; see ``RoPE``."""
    size = x.shape[-1]
    if mode is RoPEMode.GPT_NEOX:
        first, second = slice(0, size // 2), slice(size // 2, size)
    else:
        first, second = slice(0, size, 2), slice(1, size, 2)
    a, b = x[..., first], x[..., second]
    out = np.empty_like(x, order="C")
    out[..., first] = a * cos[first] - b * sin[first]
    out[..., second] = a * sin[second] + b * cos[second]
    return out


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean along ``axes``, which stay as dimensions of 1, in float64; NaN for no elements."""
    total = np.sum(x, axis=axes, keepdims=True, dtype=np.float64)
    return np.asarray(total / elements_per_result(x, axes))  # np.mean would warn if there are no elements


def _channel_axis(rank: int) -> int:
    return 1 if rank == 3 else rank - 1  # see InstanceNorm


def _require_per_channel(value: Value, name: str, channels: Dim) -> None:
    """Raise ShapeError unless the operand ``name`` is a vector of 1 or ``channels`` elements."""
    shape = require_rank(value, name, 1)
    count = None if shape is None else product(shape)
    if count != 1 and dims_differ(count, channels):
        raise ShapeError(f"expected 1 or {channels} elements in {name}, got {count}")
