# SPDX-License-Identifier: Apache-2.0
"""What becomes of the exact sums of a quantized layer: bias, scale, zero point, limits.

LiteRT's fixed-point arithmetic is done in float64 where that is exact, or wrong only in what is limited
anyway: a double holds the products of a mantissa of 31 bits with sums below 2^21, and those that a result of
8 bits needs with 10 bits before the point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from circlekit.ir.value import Array
from circlekit.ops.common import clip
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_half_up,
    multiply_by_quantized_multiplier_int64,
    round_half_away,
    wrap_int32,
)
from circlekit.ops.numerics.stores import Converted, Span, Steps, Store

EXACT = 2.0**21
"""Sums below this, times a mantissa of 31 bits, are exact in float64 with two bits to spare."""

Chosen = bool | NDArray[np.bool_]
"""Whether something is so, or for which channels."""

AWAY = 1 + 2.0**-30
"""Makes halves a little more than halves, in numbers of up to 17 bits, before half of a unit is added."""


def fixed_point(
    by: QuantizedMultiplier, bias: Ints | None, span: Span, wide: bool, up: Chosen = False
) -> Store:
    """(sums + bias) times ``by`` in fixed point, plus the zero point, limited.

    ``wide``: sums of int64 and LiteRT's 16x8 arithmetic; else sums of int32, which wrap.  ``up``: these are
    rounded as in LiteRT's optimized kernels, all or some of the channels.
    """
    most = 0.0 if bias is None else float(np.abs(bias.astype(np.float64)).max(initial=0))
    bound = span.bound + most
    fast = _wide_in_floats(by, bias, span, bound) if wide else _in_floats(by, bias, span, bound, up)
    return fast or FixedPoint(by, bias, span, wide, wraps=bound >= 2.0**31, up=up)


def _in_floats(
    by: QuantizedMultiplier, bias: Ints | None, span: Span, bound: float, up: Chosen
) -> InFloats | None:
    """The same in float64; None where that is not exact."""
    left = np.maximum(by.shift, 0)
    if np.any(bound * 2.0**left >= 2.0**31):
        return None
    right = np.maximum(-by.shift, 0)
    factor = np.ldexp(by.mantissa.astype(np.float64), left - 31)
    # what is too large to be exact is limited, whatever its last digits are
    reach = max(abs(limit - span.zero) for limit in span.limits) + 2.0
    exact = bool(np.all(bound * 2.0**left < EXACT))
    if not np.all((EXACT * factor * 2.0 ** (-left - right) > reach) | (by.mantissa == 0)):
        return None
    low, high = span.limits
    last = span.zero - low + 0.5
    if right.any() and (np.any(up) or low < span.zero < high):
        away = np.where(up, 1.0, AWAY)
        return InFloats.of(factor, np.ldexp(away, -right), 0.5, last, bias, span, exact)
    # on one side of 0 both roundings are one: the first makes halves of what is a little less
    halves = np.where(right > 0, np.ldexp(0.5, -right), 0.0)
    offset = last + (halves if span.zero <= low else -halves)
    return InFloats.of(np.ldexp(factor, -right), None, np.asarray(offset), 0.0, bias, span, exact)


def _wide_in_floats(by: QuantizedMultiplier, bias: Ints | None, span: Span, bound: float) -> InFloats | None:
    mantissa = np.where(by.mantissa < 0x7FFF0000, (by.mantissa + (1 << 15)) >> 16, 0x7FFF)
    factor = np.ldexp(mantissa.astype(np.float64), by.shift - 15)
    if bound >= 2.0**36 or np.any(bound * factor >= 2.0**31) or np.any((by.shift > 14) | (by.shift < -20)):
        return None
    offset = np.asarray(0.5 + span.zero - span.limits[0])
    return InFloats.of(factor, None, offset, 0.0, bias, span, exact=True)


@dataclass(eq=False, repr=False)
class InFloats(Steps):
    """floor((sums + bias) * factor + offset); with ``second``, floor(that * second + last); limited.

    float64, one number or one for each channel.  The last step counts from the least limit: nothing is
    negative then, and conversion to integers rounds down.
    """

    bias: Array | None
    factor: Array
    offset: Array
    second: Array | None
    last: float
    span: Span

    @staticmethod
    def of(
        factor: Array,
        second: Array | None,
        offset: Array | float,
        last: float,
        bias: Ints | None,
        span: Span,
        exact: bool,
    ) -> InFloats:
        """``exact``: bias times factor is, and may be a part of the offset."""
        real = None if bias is None else bias.astype(np.float64)
        if real is not None and exact:
            real, offset = None, offset + real * factor
        return InFloats(real, factor, np.asarray(offset), second, last, span)

    def vectors(self) -> Sequence[Array]:
        return self.factor, self.offset, *(v for v in (self.bias, self.second) if v is not None)

    def count(self, real: Array, vectors: Sequence[Array], *spare: Array) -> None:
        factor, offset, *others = vectors
        if self.bias is not None:
            np.add(real, others[0], real)
        np.multiply(real, factor, real)
        np.add(real, offset, real)
        if self.second is not None:
            np.floor(real, real)
            np.multiply(real, others[-1], real)
            np.add(real, self.last, real)


@dataclass(eq=False, repr=False)
class FixedPoint(Converted):
    """The same in integers, for every sum."""

    by: QuantizedMultiplier
    bias: Ints | None
    span: Span
    wide: bool
    wraps: bool
    up: Chosen = False

    def convert(self, sums: Array, out: Array) -> None:
        part = sums.astype(np.int64)
        if self.bias is not None:
            part += self.bias
        if self.wide:
            part = multiply_by_quantized_multiplier_int64(part, self.by)
        else:
            part = self._scaled(wrap_int32(part) if self.wraps else part)
        part += self.span.zero
        np.clip(part, *self.span.limits, out=part)
        out[...] = part

    def _scaled(self, sums: Ints) -> Ints:
        if isinstance(self.up, np.ndarray):
            return np.where(
                self.up,
                multiply_by_quantized_multiplier_half_up(sums, self.by),
                multiply_by_quantized_multiplier(sums, self.by),
            )
        return (
            multiply_by_quantized_multiplier_half_up(sums, self.by)
            if self.up
            else multiply_by_quantized_multiplier(sums, self.by)
        )


BELOW_HALF = float(np.nextafter(0.5, 0))
"""Added to what is below a half, this does not carry, where 0.5 would; added to a half it does."""


@dataclass(eq=False, repr=False)
class InDoubles(Steps):
    """(sums + bias) times ``by`` in float64, rounded half away from zero, plus the zero point, limited.

    For products that int32 holds.
    """

    by: Array
    bias: Array | None
    span: Span

    def vectors(self) -> Sequence[Array]:
        return (self.by,) if self.bias is None else (self.by, self.bias)

    spare: ClassVar[int] = 1

    def count(self, real: Array, vectors: Sequence[Array], *spare: Array) -> None:
        by, *bias = vectors
        if bias:
            np.add(real, bias[0], real)
        np.multiply(real, by, real)
        if self.span.zero == self.span.limits[0]:
            np.add(real, BELOW_HALF, real)
            return
        nearly = clip(real, -BELOW_HALF, BELOW_HALF, spare[0])
        np.add(real, nearly, real)
        np.trunc(real, real)
        np.add(real, self.span.zero - self.span.limits[0], real)


@dataclass(eq=False, repr=False)
class DoubleScale(Converted):
    """(sums + bias) times ``by`` in float64, rounded half away from zero, plus the zero point, limited.

    What leaves int32 becomes its least number, as the instructions of x86 have it, and wraps where the zero
    point is negative.  Sums wrap if ``wraps``.
    """

    by: Array
    bias: Ints | None
    span: Span
    wraps: bool

    def convert(self, sums: Array, out: Array) -> None:
        part = sums.astype(np.float64)
        if self.wraps:
            whole = part.astype(np.int64) + (0 if self.bias is None else self.bias)
            part = wrap_int32(whole).astype(np.float64)
        elif self.bias is not None:
            part += self.bias
        part *= self.by
        part = round_half_away(part)
        outside = np.abs(part) >= 2.0**31
        if outside.any():
            part[outside] = (2.0**31 if self.span.zero < 0 else -(2.0**31)) - self.span.zero
        part += self.span.zero
        np.clip(part, *self.span.limits, out=part)
        out[...] = part


def double_scale(by: Array, bias: Ints | None, span: Span, wide: bool) -> Store:
    """``wide``: sums are int64, and do not wrap."""
    most = 0.0 if bias is None else float(np.abs(bias.astype(np.float64)).max(initial=0))
    bound = span.bound + most
    if np.any(bound * by >= 2.0**31) or (not wide and bound >= 2.0**31):
        return DoubleScale(by, bias, span, not wide and bound >= 2.0**31)
    return InDoubles(by, None if bias is None else bias.astype(np.float64), span)
