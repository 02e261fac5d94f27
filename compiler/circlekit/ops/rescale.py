# SPDX-License-Identifier: Apache-2.0
"""What becomes of the exact sums of a quantized layer: bias, scale, zero point, limits.

LiteRT's fixed-point arithmetic is done in float64 where that is exact, or wrong only in what is limited
anyway: a double holds the products of a mantissa of 31 bits with sums below 2^21.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.fixed_point import Ints, Multiplier, multiply, multiply_wide, round_half_away, wrap32

BLOCK = 1 << 15
"""Elements at a time: their float64 scratch stays in the cache."""

EXACT = 2.0**21
"""Sums below this, times a mantissa of 31 bits, plus a half, are exact in float64."""

AWAY = 1 + 2.0**-40
"""Makes halves a little more than halves, so that rounding to the nearest takes them away from zero."""

Store = Callable[[Array, Array], None]
"""Writes what becomes of sums [R,..,C] into an array of integers."""


class Span(NamedTuple):
    """``zero``: the zero point of the result; ``limits``: its least and greatest integer; ``bound``: of the
    sums without bias, of either sign.
    """

    zero: int
    limits: tuple[int, int]
    bound: float


def fixed_point(by: Multiplier, bias: Ints | None, span: Span, wide: bool) -> Store:
    """(sums + bias) times ``by`` in fixed point, plus the zero point, limited.

    ``wide``: sums of int64 and LiteRT's 16x8 arithmetic; else sums of int32, which wrap.
    """
    most = 0.0 if bias is None else float(np.abs(bias.astype(np.float64)).max(initial=0))
    bound = span.bound + most
    fast = _wide_in_floats(by, bias, span, bound) if wide else _in_floats(by, bias, span, bound)
    return fast or FixedPoint(by, bias, span, wide, wraps=bound >= 2.0**31)


def _in_floats(by: Multiplier, bias: Ints | None, span: Span, bound: float) -> InFloats | None:
    """The same in float64; None where that is not exact."""
    left, right = np.maximum(by.shift, 0), np.maximum(-by.shift, 0)
    if np.any(bound * 2.0**left >= 2.0**31):
        return None
    factor = np.ldexp(by.mantissa.astype(np.float64), left - 31)
    second = np.ldexp(AWAY, -right)
    exact = bool(np.all(bound * 2.0**left < EXACT))
    # what is too large to be exact is limited, whatever its last digits are
    reach = max(abs(limit - span.zero) for limit in span.limits) + 2.0
    beyond = EXACT * factor * 2.0 ** (-left - right) > reach
    if not exact and not np.all(beyond | (by.mantissa == 0)):
        return None
    return _folded(factor, second, bias, span, exact)


def _wide_in_floats(by: Multiplier, bias: Ints | None, span: Span, bound: float) -> InFloats | None:
    mantissa = np.where(by.mantissa < 0x7FFF0000, (by.mantissa + (1 << 15)) >> 16, 0x7FFF)
    factor = np.ldexp(mantissa.astype(np.float64), by.shift - 15)
    if bound >= 2.0**36 or np.any(bound * factor >= 2.0**31) or np.any(by.shift > 14):
        return None
    return _folded(factor, None, bias, span, exact=True)


def _folded(factor: Array, second: Array | None, bias: Ints | None, span: Span, exact: bool) -> InFloats:
    real = None if bias is None else bias.astype(np.float64)
    if exact:
        return InFloats(None, factor, 0.5 if real is None else real * factor + 0.5, second, span)
    return InFloats(real, factor, np.float64(0.5), second, span)


@dataclass(frozen=True)
class InFloats:
    """floor((sums + bias) * factor + offset), then times ``second``, if there is one, to the nearest."""

    bias: Array | None
    factor: Array
    offset: Array | float
    second: Array | None
    span: Span

    def __call__(self, sums: Array, out: Array) -> None:
        step = max(1, BLOCK // max(1, sums[:1].size))
        low, high = self.span.limits
        for top in range(0, len(sums), step):
            part: Array = sums[top : top + step]
            if self.bias is None:
                part = np.multiply(part, self.factor, dtype=np.float64)
            else:
                part = np.add(part, self.bias, dtype=np.float64)
                part *= self.factor
            part += self.offset
            np.floor(part, out=part)
            if self.second is not None:
                part *= self.second
            if self.span.zero:
                part += self.span.zero
            np.maximum(part, low, out=part)
            np.minimum(part, high, out=part)
            if self.second is not None:
                np.rint(part, out=part)
            out[top : top + step] = part


@dataclass(frozen=True)
class FixedPoint:
    """The same in integers, for every sum."""

    by: Multiplier
    bias: Ints | None
    span: Span
    wide: bool
    wraps: bool

    def __call__(self, sums: Array, out: Array) -> None:
        step = max(1, BLOCK // max(1, sums[:1].size))
        for top in range(0, len(sums), step):
            part = sums[top : top + step].astype(np.int64)
            if self.bias is not None:
                part += self.bias
            if self.wide:
                part = multiply_wide(part, self.by)
            else:
                part = multiply(wrap32(part) if self.wraps else part, self.by)
            part += self.span.zero
            np.clip(part, *self.span.limits, out=part)
            out[top : top + step] = part


@dataclass(frozen=True)
class DoubleScale:
    """(sums + bias) times ``by`` in float64, rounded half away from zero, plus the zero point, limited.

    What leaves int32 becomes its least number, as the instructions of x86 have it, and wraps where the zero
    point is negative.  Sums wrap if ``wraps``.
    """

    by: Array
    bias: Ints | None
    span: Span
    wraps: bool

    def __call__(self, sums: Array, out: Array) -> None:
        step = max(1, BLOCK // max(1, sums[:1].size))
        for top in range(0, len(sums), step):
            part = sums[top : top + step].astype(np.float64)
            if self.wraps:
                whole = part.astype(np.int64) + (0 if self.bias is None else self.bias)
                part = wrap32(whole).astype(np.float64)
            elif self.bias is not None:
                part += self.bias
            part *= self.by
            part = round_half_away(part)
            outside = np.abs(part) >= 2.0**31
            if outside.any():
                part[outside] = (2.0**31 if self.span.zero < 0 else -(2.0**31)) - self.span.zero
            part += self.span.zero
            np.clip(part, *self.span.limits, out=part)
            out[top : top + step] = part


def double_scale(by: Array, bias: Ints | None, span: Span, wide: bool) -> DoubleScale:
    """``wide``: sums are int64, and do not wrap."""
    most = 0.0 if bias is None else float(np.abs(bias.astype(np.float64)).max(initial=0))
    return DoubleScale(by, bias, span, not wide and span.bound + most >= 2.0**31)
