# SPDX-License-Identifier: Apache-2.0
"""What becomes of the exact sums of a quantized layer: bias, scale, zero point, limits.

LiteRT's fixed-point arithmetic is done in float64 where that is exact, or wrong only in what is limited
anyway: a double holds the products of a mantissa of 31 bits with sums below 2^21, and those that a result of
8 bits needs with 10 bits before the point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.fixed_point import Ints, Multiplier, multiply, multiply_wide, round_half_away, wrap32

BLOCK = 1 << 13
"""Elements at a time: their float64 scratch stays in the cache."""

EXACT = 2.0**21
"""Sums below this, times a mantissa of 31 bits, are exact in float64 with two bits to spare."""

AWAY = 1 + 2.0**-30
"""Makes halves a little more than halves, in numbers of up to 17 bits, before half of a unit is added."""

Store = Callable[[Array, Array], None]
"""Writes what becomes of sums [R,..,C] into an array of integers."""


class Span(NamedTuple):
    """``zero``: the zero point of the result; ``limits``: its least and greatest integer; ``bound``: of the
    sums without bias, of either sign.
    """

    zero: int
    limits: tuple[int, int]
    bound: float


RUN = 1 << 7
"""Vectors of channels are repeated until they are so long: shorter runs are slow."""


def runs(
    arrays: Sequence[Array], vectors: Sequence[Array], block: int
) -> Iterator[tuple[list[Array], Sequence[Array]]]:
    """Views of flat ``arrays`` [R*C] of up to ``block`` elements, and ``vectors`` (of C or 1) to suit.

    Views and vectors broadcast.  Where there are many blocks, vectors are repeated to fill one: numpy is
    twice as fast without broadcasting.
    """
    size, channels = len(arrays[0]), max(v.size for v in vectors)
    if channels == 1:
        for top in range(0, size, block):
            yield [a[top : top + block] for a in arrays], vectors
        return
    rows = size // channels
    many = size >= 4 * block
    repeat = max(1, (block if many else RUN) // channels)
    if not many:
        repeat = next(n for n in range(repeat, 0, -1) if rows % n == 0)
    row = repeat * channels
    long = [v if v.size == 1 else v.reshape(1, -1).repeat(repeat, 0).reshape(-1) for v in vectors]
    step = row if many else max(1, block // row) * row
    for top in range(0, size, step):
        parts = [a[top : top + step] for a in arrays]
        if not many:
            yield [p.reshape(-1, row) for p in parts], long
        else:
            count = len(parts[0])
            yield parts, long if count == row else [v if v.size == 1 else v[:count] for v in long]


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
    if low < span.zero < high and right.any():
        return InFloats.of(factor, np.ldexp(AWAY, -right), 0.5, span.zero - low + 0.5, bias, span, exact)
    # on one side of 0 both roundings are one: the first makes halves of what is a little less
    away = np.where(right > 0, np.ldexp(0.5, -right), 0.0)
    offset = 0.5 + span.zero - low + (away if span.zero <= low else -away)
    return InFloats.of(np.ldexp(factor, -right), None, np.asarray(offset), 0.0, bias, span, exact)


def _wide_in_floats(by: Multiplier, bias: Ints | None, span: Span, bound: float) -> InFloats | None:
    mantissa = np.where(by.mantissa < 0x7FFF0000, (by.mantissa + (1 << 15)) >> 16, 0x7FFF)
    factor = np.ldexp(mantissa.astype(np.float64), by.shift - 15)
    if bound >= 2.0**36 or np.any(bound * factor >= 2.0**31) or np.any((by.shift > 14) | (by.shift < -20)):
        return None
    offset = np.asarray(0.5 + span.zero - span.limits[0])
    return InFloats.of(factor, None, offset, 0.0, bias, span, exact=True)


@dataclass(frozen=True)
class InFloats:
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

    def __call__(self, sums: Array, out: Array) -> None:
        """Write what becomes of ``sums`` [R,..,C] into ``out``."""
        vectors = [self.factor, self.offset, *(v for v in (self.bias, self.second) if v is not None)]
        with_steps(self._steps, vectors, sums, out, self.span)

    def _steps(self, sums: Array, factor: Array, offset: Array, *others: Array) -> Array:
        if self.bias is None:
            real: Array = np.multiply(sums, factor, dtype=np.float64)
        else:
            real = np.add(sums, others[0], dtype=np.float64)
            real *= factor
        real += offset
        if self.second is not None:
            np.floor(real, out=real)
            real *= others[-1]
            real += self.last
        return real


def with_steps(
    compute: Callable[..., Array], vectors: Sequence[Array], sums: Array, out: Array, span: Span
) -> None:
    """Write into ``out`` what ``compute`` makes of ``sums`` [R,..,C] and ``vectors``, block by block.

    ``compute`` counts from the least limit: nothing that matters is negative, and conversion to integers
    rounds down.
    """
    low, high = span.limits
    unsigned = _UNSIGNED[out.dtype.itemsize]
    direct = out.flags.c_contiguous
    steps = out.view(unsigned).reshape(-1) if direct else np.empty(out.size, unsigned)
    flat = sums.reshape(-1)
    if flat.size == sums.shape[-1]:
        real = compute(flat, *vectors)
        steps[...] = real.clip(0, high - low, out=real)
    else:
        for (part, made), long in runs((flat, steps), vectors, BLOCK):
            real = compute(part, *long)
            made[...] = real.clip(0, high - low, out=real)
    if low:
        steps += unsigned.type(low % (1 << (8 * unsigned.itemsize)))
    if not direct:
        out[...] = steps.view(out.dtype).reshape(out.shape)


_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


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


BELOW_HALF = float(np.nextafter(0.5, 0))
"""Added to what is below a half, this does not carry, where 0.5 would; added to a half it does."""


@dataclass(frozen=True)
class InDoubles:
    """(sums + bias) times ``by`` in float64, rounded half away from zero, plus the zero point, limited.

    For products that int32 holds.
    """

    by: Array
    bias: Array | None
    span: Span

    def __call__(self, sums: Array, out: Array) -> None:
        """Write what becomes of ``sums`` [R,..,C] into ``out``."""
        vectors = (self.by,) if self.bias is None else (self.by, self.bias)
        with_steps(self._steps, vectors, sums, out, self.span)

    def _steps(self, sums: Array, by: Array, bias: Array | None = None) -> Array:
        if bias is None:
            real: Array = np.multiply(sums, by, dtype=np.float64)
        else:
            real = np.add(sums, bias, dtype=np.float64)
            real *= by
        if self.span.zero == self.span.limits[0]:
            real += BELOW_HALF
            return real
        real += real.clip(-BELOW_HALF, BELOW_HALF)
        np.trunc(real, out=real)
        real += self.span.zero - self.span.limits[0]
        return real


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


def double_scale(by: Array, bias: Ints | None, span: Span, wide: bool) -> Store:
    """``wide``: sums are int64, and do not wrap."""
    most = 0.0 if bias is None else float(np.abs(bias.astype(np.float64)).max(initial=0))
    bound = span.bound + most
    if np.any(bound * by >= 2.0**31) or (not wide and bound >= 2.0**31):
        return DoubleScale(by, bias, span, not wide and bound >= 2.0**31)
    return InDoubles(by, None if bias is None else bias.astype(np.float64), span)
