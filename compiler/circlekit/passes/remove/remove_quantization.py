# SPDX-License-Identifier: Apache-2.0
"""Remove operators that convert values to a quantization grid or back: Quantize, Dequantize, FakeQuant."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import Dequantize
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.passes.remove.remove_neutral import Removed
from circlekit.rewrite.match import origin
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class DequantizeAndBack(Rewrite):
    """quantize(dequantize(x))  ==  x, if x and the result have the same type and quantization parameters.

    x must be integers of up to 16 bits: float32 does not represent every integer of 32 bits.
    """

    quantized = True
    shared = ("d",)

    before = """
        d = Dequantize(x)
        z = Quantize(d)
    """
    after = "x"

    @condition
    def of_few_bits(self, x: Value) -> str | None:
        """``x`` is of integers of up to 16 bits."""
        dtype = x.dtype.numpy
        if dtype is not None and dtype.kind in "iu" and dtype.itemsize < 4:
            return None
        return f"%{x.name}: expected integers of up to 16 bits, got {x.dtype.short}"

    @condition
    def numbers_are_finite(self, x: Value) -> str | None:
        """All scales are above 0, and all dequantized numbers are finite."""
        scale = np.zeros(0) if x.quantization is None else x.quantization.scale.astype(np.float64)
        # |number - zero point| is below 2^17 for numbers and zero points of up to 16 bits
        if scale.size and (scale > 0).all() and scale.max() * 2.0**17 < float(np.finfo(np.float32).max):
            return None
        return f"%{x.name}: expected scales above 0 for which all values are finite in float32"


class QuantizeTwice(Rewrite):
    """quantize(quantize(x))  ==  quantize(x), if scales are equal and the first range includes the second."""

    quantized = True
    shared = ("y",)

    before = """
        y = Quantize(x)
        z = Quantize(y)
    """
    after = "z = Quantize(x)  {like z}"

    @condition
    def rounds_alike(self, y: Value, z: Value) -> str | None:
        """``y`` and ``z`` have the same scale, and the range of ``y`` includes the range of ``z``."""
        first, second = _steps(y), _steps(z)
        if first is None or second is None or first[0] != second[0]:
            return f"%{y.name}: expected the grid of %{z.name}, got another one"
        (_, low, high), (_, second_low, second_high) = first, second
        if low <= second_low and high >= second_high:
            return None
        other = f"%{z.name} has steps from {second_low} to {second_high}"
        return f"%{y.name}: is clamped to steps from {low} to {high}, {other}"


class RemoveRedundantQuantize(Rules):
    """Remove a QUANTIZE that changes nothing, and a DEQUANTIZE and QUANTIZE that together change nothing.

    Of two QUANTIZE with the same scale, one after the other, remove the first if its range includes the
    range of the second.
    """

    name = "remove_redundant_quantize"
    rules = (QuantizeTwice, Removed.member(call="Quantize(x)"), DequantizeAndBack)


def _steps(value: Value) -> tuple[float, int, int] | None:
    """Return (scale, lowest, highest): ``value`` holds numbers from lowest * scale to highest * scale.

    Return None if the dtype is not an integer, or if ``value`` does not have exactly one scale.
    """
    parameters, dtype = value.quantization, value.dtype.numpy
    if parameters is None or parameters.scale.size != 1 or dtype is None or dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)  # type: ignore[type-var]  # the kind is i or u
    zero = int(parameters.zero_point[0]) if parameters.zero_point.size else 0
    return float(parameters.scale[0]), int(limits.min) - zero, int(limits.max) - zero


class RemoveQdqForMpo(Rewrite):
    """quantize(dequantize(quantize(x)))  becomes  quantize(x), for an x that a matrix product computes.

    All users of the result must be DEQUANTIZE operators.  Values are no longer rounded to the grid of the
    first quantize, or clamped to its range.  In ONE, such a product is called a mixed-precision operator
    (MPO).
    """

    name = "remove_qdq_for_mpo"
    changes_values = True
    quantized = True
    shared = ("q", "d")

    before = """
        q = Quantize(x)
        d = Dequantize(q)
        z = Quantize(d)
    """
    after = "z = Quantize(x)  {like z}"

    @condition
    def is_a_product(self, x: Value) -> str | None:
        """``x`` comes from a FullyConnected or BatchMatMul."""
        if isinstance(x.producer, FullyConnected | BatchMatMul):
            return None
        return f"%{x.name}: comes from {origin(x)}, expected FullyConnected or BatchMatMul"

    @condition
    def is_dequantized(self, z: Value) -> str | None:
        """All users of ``z`` are Dequantize, because the pattern of ONE ends in a Dequantize."""
        has_only_dequantize = all(isinstance(user, Dequantize) for user in z.users)
        return None if has_only_dequantize else f"%{z.name}: has users other than Dequantize"


class RemoveQuantDequant(Rewrite):
    """dequantize(quantize(x))  becomes  x: values are no longer rounded or clamped to a range."""

    name = "remove_quantdequant"
    changes_values = True
    quantized = True
    shared = ("q",)

    before = """
        q = Quantize(x: f32)
        z = Dequantize(q)
    """
    after = "x"


class RemoveFakeQuant(Removed, call="FakeQuant(x)  {min: any, max: any, num_bits: any, narrow_range: any}"):
    """fake_quant(x)  becomes  x: values are no longer rounded to the grid or clamped to its range."""

    name = "remove_fakequant"
    changes_values = True
