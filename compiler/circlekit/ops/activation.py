# SPDX-License-Identifier: Apache-2.0
"""Activation functions.  Source: TFLite activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circlekit.ir.dtypes import f16, i8, i16, u8
from circlekit.ir.enums import Activation
from circlekit.ir.op import attribute, operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.bases import Typed, Unary, need_kind, need_same_dtype, refuse_quantized
from circlekit.ops.common import apply_activation, broadcast_shapes


class Relu(Unary, code="RELU", options=None, versions={i8: 2, u8: 2, i16: 3}):
    """max(x, 0)."""

    def compute(self, x: Array) -> Array:
        return apply_activation(x, Activation.RELU)


class Relu6(Unary, code="RELU6", options=None, versions={i8: 2, i16: 3}):
    """min(max(x, 0), 6)."""

    def compute(self, x: Array) -> Array:
        return apply_activation(x, Activation.RELU6)


class ReluN1To1(Unary, code="RELU_N1_TO_1", options=None):
    """min(max(x, -1), 1)."""

    def compute(self, x: Array) -> Array:
        return apply_activation(x, Activation.RELU_N1_TO_1)


class Relu0To1(Unary, code="RELU_0_TO_1", options=None):
    """min(max(x, 0), 1)."""

    def compute(self, x: Array) -> Array:
        return np.clip(x, 0, 1)


class LeakyRelu(Unary, code="LEAKY_RELU", versions={i16: 2}):
    """x where it is positive, else alpha * x."""

    alpha: float = attribute(0.0)

    def compute(self, x: Array) -> Array:
        return np.where(x > 0, x, x * x.dtype.type(self.alpha))


class Elu(Unary, code="ELU", options=None):
    """x where it is not negative, else e^x - 1."""

    def compute(self, x: Array) -> Array:
        return np.where(x < 0, np.expm1(x), x)


class PRelu(Typed, code="PRELU", options=None):
    """x where it is not negative, else alpha * x; ``alpha`` broadcasts to the input."""

    input = operand()
    alpha = operand()

    layout_operands = ("input", "alpha")

    def infer(self) -> TensorType:
        need_same_dtype("input", self.input, "alpha", self.alpha)
        return TensorType(self.input.dtype, broadcast_shapes(self.input.shape, self.alpha.shape))

    @np.errstate(all="ignore")
    def kernel(self, input: Array, alpha: Array) -> Array:
        need_kind(self, input, "f")
        refuse_quantized(self)
        return np.where(input >= 0, input, input * alpha)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}


class Gelu(Unary, code="GELU", versions={f16: 3, i8: 2, u8: 2}):
    """x * P(X <= x) of a standard normal X; ``approximate``: P by tanh."""

    approximate: bool = attribute(False)

    def compute(self, x: Array) -> Array:
        if not self.approximate:
            return np.asarray(x * (0.5 * erfc(x * -math.sqrt(0.5))), x.dtype)
        inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
        return np.asarray(x.dtype.type(0.5) * x * (1 + np.tanh(inner)))


class HardSwish(Unary, code="HARD_SWISH"):
    """x * min(max(x + 3, 0), 6) / 6."""

    def compute(self, x: Array) -> Array:
        return np.asarray(x * (np.clip(x + 3, 0, 6) / 6), x.dtype)


class Logistic(Unary, code="LOGISTIC", options=None, versions={i8: 2, i16: 3}):
    """1 / (1 + e^-x)."""

    def compute(self, x: Array) -> Array:
        return np.asarray(np.reciprocal(1 + np.exp(-x)))


class Tanh(Unary, code="TANH", options=None, versions={i8: 2, i16: 3}):
    """The hyperbolic tangent."""

    def compute(self, x: Array) -> Array:
        return np.tanh(x)


# -- the error function ------------------------------------------------------------------------

_DEGREE = 22


def _scaled_erfc_coefficients() -> list[float]:
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


_COEFFICIENTS = _scaled_erfc_coefficients()


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
    for coefficient in reversed(_COEFFICIENTS[1:]):  # Clenshaw's recurrence
        np.multiply(twice_u, last, out=spare)
        spare += coefficient - before
        last, before, spare = spare, last, before
    tail = np.exp(-z * z) * (_COEFFICIENTS[0] + 0.5 * twice_u * last - before)
    return np.asarray(np.where(x < 0, 2 - tail, tail), np.float64)
