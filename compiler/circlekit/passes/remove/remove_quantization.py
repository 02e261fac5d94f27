# SPDX-License-Identifier: Apache-2.0
"""Remove operators that convert values to a quantization grid or back: Quantize, Dequantize, FakeQuant."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlekit.errors import counted
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import Dequantize
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.quantized_values import zero_point_of
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
    """quantize(quantize(x))  ==  quantize(x), if scales are equal and the first range includes the second.

    If x is float, both zero points must be negative, or neither (see ``overflows_alike``).
    """

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
        first, second = _range_of(y), _range_of(z)
        if first is None or second is None:
            value = y if first is None else z
            scales = 0 if value.quantization is None else value.quantization.scale.size
            found = f"{value.dtype.short} with {counted(scales, 'scale')}"
            return f"%{value.name}: expected integers of at least 8 bits with one scale, got {found}"
        if first.scale != second.scale:
            return f"%{y.name}: expected {second.scale:g}, the scale of %{z.name}, got {first.scale:g}"
        if first.low <= second.low and first.high >= second.high:
            return None
        other = f"%{z.name} to {second.low} to {second.high}"
        return f"%{y.name}: is clamped to {first.low} to {first.high} times the scale, {other}"

    @condition
    def overflows_alike(self, x: Value, y: Value, z: Value) -> str | None:
        """If ``x`` is float, both zero points are negative, or neither is.

        QUANTIZE of a float that is NaN or too large for int32 gives the highest integer if the zero point is
        negative, otherwise the lowest (see ``Quantize``).
        """
        zero_points = zero_point_of(y), zero_point_of(z)
        if not x.dtype.is_float or len({number < 0 for number in zero_points}) == 1:
            return None
        expected = f"expected both or no zero point below 0, got {zero_points[0]} and {zero_points[1]}"
        return f"%{y.name} and %{z.name}: {expected} (%{x.name} may be NaN or too large for int32)"


class RemoveRedundantQuantize(Rules):
    """Remove a QUANTIZE that changes nothing, and a DEQUANTIZE and QUANTIZE that together change nothing.

    Of two QUANTIZE with the same scale, one after the other, remove the first if its range includes the
    range of the second, and if both treat NaN and overflow alike.
    """

    name = "remove_redundant_quantize"
    rules = (QuantizeTwice, Removed.member(call="Quantize(x)"), DequantizeAndBack)


class _Range(NamedTuple):
    """The numbers that a value can hold: ``scale`` times an integer from ``low`` to ``high``."""

    scale: float
    low: int
    high: int


def _range_of(value: Value) -> _Range | None:
    """Return the range of ``value``.

    Return None if numpy does not have its dtype (as int4), if this is no integer, or if ``value`` does not
    have exactly one scale.
    """
    parameters, dtype = value.quantization, value.dtype.numpy
    if parameters is None or parameters.scale.size != 1 or dtype is None or dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)  # type: ignore[type-var]  # the kind is i or u
    zero = zero_point_of(value)
    return _Range(float(parameters.scale[0]), int(limits.min) - zero, int(limits.max) - zero)


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
