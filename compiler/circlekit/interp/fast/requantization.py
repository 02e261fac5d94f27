# SPDX-License-Identifier: Apache-2.0
"""Output stages of quantized layers in float64, used where they give the bits of LiteRT's fixed point.

An output stage (``OutputStage``) converts the sums of products of a layer to its integer results: it adds the
bias, multiplies by the scale, rounds, adds the zero point and clips.  Let t be a sum plus its bias.  The
scale is mantissa * 2^(left - right - 31).  The mantissa has 31 bits; left and right are shifts, of which at
least one is 0.  An ``Arithmetic`` is a way to round.

FIXED_POINT rounds twice: first to q = floor(t * mantissa * 2^(left - 31) + 1/2), then q / 2^right to an
integer, with a half rounded away from zero or up.  float64 computes q exactly for |t| < 2^21.  A larger t is
allowed only if its result is certainly clipped.

To round a half away from zero, q / 2^right is multiplied by 1 + 2^-30 before floor(x + 1/2).  This changes
ties only.  The reason: a tie needs right > 0; then left is 0 and |q| < 2^22.  So the factor moves the number
by less than 2^-8 * 2^-right, while possible values of q / 2^right are 2^-right apart.

WIDE_FIXED_POINT rounds once, and its mantissa has 15 bits.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Arithmetic, OutputStage
from circlekit.ops.numerics.quantized_layers import exact_float_dtype

EXACT_SUM = 2.0**21  # float64 holds the product of a sum below this and a mantissa of 31 bits exactly
EXACT_WIDE_SUM = 2.0**36  # the same for a mantissa of 15 bits
INT32_END = 2.0**31  # a number of this magnitude or more overflows LiteRT's int32

AWAY_FROM_ZERO = 1 + 2.0**-30  # see the docstring of this module

LONG_VECTOR_ELEMENTS = 1 << 11
"""Vectors are repeated up to this many elements; numpy is fast on vectors of that length."""


class FastOutputStage:
    """A faster form of ``stage`` with equal results.

    The sums are integers in a float dtype, of magnitude up to ``bound``.  With t = sum + ``bias``, a result
    is floor(floor(t * ``factor`` + 1/2) * ``last_factor`` + 1/2) + zero point.  If ``rounds_once``, it is
    floor(t * ``factor`` + 1/2) + zero point.  It is then clipped to the limits of the result.  ``is_exact``:
    whether float64 gives equal results; if not, ``write`` calls ``stage``.
    """

    def __init__(self, stage: OutputStage, bound: float) -> None:
        self.stage = stage
        bound += 0.0 if stage.bias is None else float(np.abs(stage.bias).max(initial=0))
        bias = np.zeros(1) if stage.bias is None else stage.bias
        self.bias = ChannelVector(bias.astype(exact_float_dtype(bound)))
        mantissa, shift = stage.multiplier
        left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
        self.rounds_once = stage.arithmetic is Arithmetic.WIDE_FIXED_POINT
        if self.rounds_once:  # the factor has the mantissa rounded to 15 bits
            factor = np.ldexp(np.minimum((mantissa + (1 << 15)) >> 16, 0x7FFF), shift - 15)
            # LiteRT shifts right by 15 - shift bits.  For 1 to 35 bits, float64 is exact; others are rare
            fits = (shift >= -20) & (shift <= 14) & (bound * factor < INT32_END)
            self.factor, self.last_factor = ChannelVector(factor), ChannelVector(np.ones(1))
            self.is_exact = bound < EXACT_WIDE_SUM and bool(np.all(fits))
            return
        self.factor = ChannelVector(np.ldexp(mantissa.astype(np.float64), left - 31))
        self.last_factor = ChannelVector(np.ldexp(np.where(stage.rounds_up, 1.0, AWAY_FROM_ZERO), -right))
        # before the zero point is added, a result of larger magnitude than this is certainly clipped
        clipped = max(abs(limit - stage.zero_point) for limit in stage.limits) + 2.0
        # all sums are exact, or the smallest sum that may be inexact is certainly clipped
        fits = (bound < EXACT_SUM) | (EXACT_SUM * np.ldexp(mantissa / INT32_END, -right) > clipped)
        fits &= bound * 2.0**left < INT32_END  # LiteRT's shift to the left does not overflow
        # with a mantissa of 0, every result is the zero point
        self.is_exact = stage.arithmetic is Arithmetic.FIXED_POINT and bool(np.all(fits | (mantissa == 0)))

    def write(self, sums: Array, out: Array) -> None:
        """Write the results for sums [..., columns, channels] into ``out``; the sums may be overwritten."""
        if not self.is_exact:
            out[...] = self.stage(sums)
            return
        low, high = self.stage.limits
        columns, channels = sums.shape[-2:]
        bias, factor, last = (v.of(columns, channels) for v in (self.bias, self.factor, self.last_factor))
        rows = sums.reshape(-1, factor.size)  # [..., n * channels]: see ``ChannelVector.of``
        if self.stage.bias is not None:
            rows = np.add(rows, bias, out=rows if bias.dtype == rows.dtype else None)
        steps = np.multiply(rows, factor, dtype=np.float64)
        steps += 0.5
        if not self.rounds_once:
            np.floor(steps, steps)
            steps *= last
            steps += 0.5
        # ``low`` is subtracted so that nothing is negative: then the conversion to integers rounds down
        steps += self.stage.zero_point - low
        np.clip(steps, 0, high - low, out=steps)
        unsigned = out.view(f"u{out.itemsize}")
        unsigned[...] = steps.reshape(out.shape)
        # add ``low`` again, as an unsigned number that wraps around: the bits of the signed result
        unsigned += unsigned.dtype.type(low % (1 << (8 * out.itemsize)))


class ChannelVector:
    """One number, or one number per channel, that ``of`` repeats for several columns.

    numpy is several times slower when it broadcasts a short vector than with the repeated vector.
    ``repeated``: the repeated vectors by the number of columns.
    """

    def __init__(self, vector: Array) -> None:
        self.vector = vector.reshape(-1)
        self.repeated: dict[int, Array] = {}

    def of(self, columns: int, channels: int) -> Array:
        """Return the vector of one column, repeated for n = repeats(columns, channels) columns.

        The shape is [n * channels].
        """
        count = repeats(columns, channels)
        if count not in self.repeated:
            self.repeated[count] = np.broadcast_to(self.vector, (count, channels)).reshape(-1)
        return self.repeated[count]


def repeats(columns: int, channels: int) -> int:
    """Return how often to repeat a vector of ``channels`` elements, so that it serves several columns.

    This is the largest divisor of ``columns`` for which the repeated vector has at most LONG_VECTOR_ELEMENTS
    elements.  If a single vector has more elements, it is 1.
    """
    largest = min(columns, max(1, LONG_VECTOR_ELEMENTS // channels))
    return next(n for n in range(largest, 0, -1) if columns % n == 0)
