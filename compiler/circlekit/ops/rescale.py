# SPDX-License-Identifier: Apache-2.0
"""What becomes of the exact sums of a quantized layer: bias, scale, zero point, limits.

LiteRT's fixed-point arithmetic is done in float64 where that is exact, or wrong only in what is limited
anyway: a double holds the products of a mantissa of 31 bits with sums below 2^21, and those that a result of
8 bits needs with 10 bits before the point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array
from circlekit.ops.common import clip
from circlekit.ops.fixed_point import Ints, Multiplier, multiply, multiply_wide, round_half_away, wrap32

BLOCK = 1 << 14
"""Elements at a time: their float64 scratch stays in the cache."""

EXACT = 2.0**21
"""Sums below this, times a mantissa of 31 bits, are exact in float64 with two bits to spare."""

AWAY = 1 + 2.0**-30
"""Makes halves a little more than halves, in numbers of up to 17 bits, before half of a unit is added."""

Writer = Callable[[Array, Array], None]
"""Notes on a tape how sums [R,..,C] become the integers of an array of that shape."""


class Store:
    """Writes what becomes of sums [R,..,C] into an array of integers."""

    def __call__(self, sums: Array, out: Array) -> None:
        raise NotImplementedError

    def bound(self, tape: Tape, size: int, channels: int) -> Writer:
        """For ``size`` sums in all."""
        return lambda sums, out: tape.do(self, sums, out)


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


RUN = 1 << 6
"""Vectors of channels are repeated until they are so long: shorter runs are slow."""


class Steps(Store):
    """Results are counted from the least limit: nothing that matters is negative, and conversion to integers
    rounds down.
    """

    span: Span

    def vectors(self) -> Sequence[Array]:
        """float64, one number or one for each channel."""
        raise NotImplementedError

    def note(self, tape: Tape, sums: Array, real: Array, vectors: Sequence[Array]) -> None:
        """Note what makes ``real`` numbers of steps of ``sums``; ``vectors`` broadcast to their shape."""
        raise NotImplementedError

    def __call__(self, sums: Array, out: Array) -> None:
        self.bound(NOW, sums.size, sums.shape[-1])(sums, out)

    def bound(self, tape: Tape, size: int, channels: int) -> Writer:
        block = min(size, BLOCK, max(BLOCK >> 2, size >> 3))
        most = max(1, block // max(channels, 1)) * max(channels, 1)
        real = tape.empty((most,), np.float64)
        vectors = self.vectors()
        many = size > 2 * most and channels > 1
        if many:
            vectors = [filled(tape, v, most) for v in vectors]
        span = float(self.span.limits[1] - self.span.limits[0])
        spare: list[Array] = []
        suited: dict[int, list[Array]] = {}

        def write(sums: Array, out: Array) -> None:
            unsigned = _UNSIGNED[out.dtype.itemsize]
            direct = out.flags.c_contiguous
            if not direct and (not spare or spare[0].size < out.size):
                spare[:] = [tape.empty((out.size,), unsigned)]
            steps = out.view(unsigned).reshape(-1) if direct else spare[0][: out.size]
            flat = sums.reshape(-1)
            for first in range(0, flat.size, most):
                part = flat[first : first + most]
                row = part.size if many else channels * _repeats(part.size // channels, channels)
                part = part if many else part.reshape(-1, row)
                counted = real[: part.size].reshape(part.shape)
                if row not in suited:
                    suited[row] = [v if v.size == 1 else _of_length(v, row) for v in vectors]
                self.note(tape, part, counted, suited[row])
                tape.do(clip, counted, ZERO, np.float64(span), counted)
                tape.copy(counted, steps[first : first + part.size].reshape(part.shape))
            if self.span.limits[0]:
                lowest = unsigned.type(self.span.limits[0] % (1 << (8 * unsigned.itemsize)))
                tape.do(np.add, steps, lowest, steps)
            if not direct:
                tape.copy(steps.view(out.dtype).reshape(out.shape), out)

        return write


def _of_length(vector: Array, length: int) -> Array:
    """The start of a vector, or the vector again and again."""
    return vector[:length] if length <= vector.size else np.tile(vector, length // vector.size)


ZERO = np.float64(0)

_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


def _repeats(rows: int, channels: int) -> int:
    """How many of ``rows`` vectors of so many channels to take for one."""
    return next(n for n in range(max(1, RUN // channels), 0, -1) if rows % n == 0)


def filled(tape: Tape, vector: Array, size: int) -> Array:
    """``vector`` again and again, ``size`` numbers in all; one number as it is.

    numpy is twice as fast without broadcasting.
    """
    if vector.size == 1:
        return vector
    out, have = tape.empty((size,), vector.dtype), min(vector.size, size)
    tape.copy(vector[:have], out[:have])
    while have < size:
        more = min(have, size - have)
        tape.copy(out[:more], out[have : have + more])
        have += more
    return out


@dataclass(frozen=True)
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

    def note(self, tape: Tape, sums: Array, real: Array, vectors: Sequence[Array]) -> None:
        factor, offset, *others = vectors
        if self.bias is None:
            tape.do(np.multiply, sums, factor, real)
        else:
            tape.do(np.add, sums, others[0], real)
            tape.do(np.multiply, real, factor, real)
        tape.do(np.add, real, offset, real)
        if self.second is not None:
            tape.do(np.floor, real, real)
            tape.do(np.multiply, real, others[-1], real)
            tape.do(np.add, real, np.float64(self.last), real)


@dataclass(frozen=True)
class FixedPoint(Store):
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
class InDoubles(Steps):
    """(sums + bias) times ``by`` in float64, rounded half away from zero, plus the zero point, limited.

    For products that int32 holds.
    """

    by: Array
    bias: Array | None
    span: Span

    def vectors(self) -> Sequence[Array]:
        return (self.by,) if self.bias is None else (self.by, self.bias)

    def note(self, tape: Tape, sums: Array, real: Array, vectors: Sequence[Array]) -> None:
        by, *bias = vectors
        if not bias:
            tape.do(np.multiply, sums, by, real)
        else:
            tape.do(np.add, sums, bias[0], real)
            tape.do(np.multiply, real, by, real)
        if self.span.zero == self.span.limits[0]:
            tape.do(np.add, real, np.float64(BELOW_HALF), real)
            return
        nearly = tape.empty(real.shape, np.float64)
        tape.do(clip, real, np.float64(-BELOW_HALF), np.float64(BELOW_HALF), nearly)
        tape.do(np.add, real, nearly, real)
        tape.do(np.trunc, real, real)
        tape.do(np.add, real, np.float64(self.span.zero - self.span.limits[0]), real)


@dataclass(frozen=True)
class DoubleScale(Store):
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
