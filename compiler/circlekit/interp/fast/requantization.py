# SPDX-License-Identifier: Apache-2.0
"""Output stages of quantized layers in float arithmetic, with results close to a tie computed exactly.

A product in floats differs from LiteRT's fixed-point product by the first of its two roundings and by the
rounding of the floats.  Both are small, so the rounded results can differ only where the product is close to
the middle between two integers.  Those few results are computed by the plain output stage.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Arithmetic, OutputStage

INT32_END = 2.0**31

LARGEST_MARGIN = 1 / 16
"""Distance from a tie within which results are computed exactly; with a larger one they are too many."""

LONG_VECTOR_ELEMENTS = 1 << 12
"""Elements of vectors that are long enough for numpy's inner loops."""


class FastOutputStage:
    """A faster equal of ``stage``, for whole sums of a float type whose magnitude is at most ``bound``."""

    def __init__(self, stage: OutputStage, bound: float) -> None:
        self.stage = stage
        self.scale, margin = _scale_and_margin(stage)
        bias = np.zeros(1) if stage.bias is None else stage.bias.astype(np.float64)
        self.offset = bias * self.scale + stage.zero_point
        bound += float(np.abs(bias).max(initial=0))
        overflows = bound * max(1.0, 2 * float(self.scale.max(initial=0))) >= INT32_END
        # |product| < 2^bits where it is not clipped, and the summands are rounded four times
        reach = 4 * (2.0 ** (8 * stage.dtype.itemsize) + float(np.abs(self.offset).max(initial=0)))
        self.dtype = np.dtype(np.float32 if reach * 2.0**-24 < LARGEST_MARGIN / 8 else np.float64)
        self.margin = margin + reach * float(np.finfo(self.dtype).epsneg)
        self.scale, self.offset = self.scale.astype(self.dtype), self.offset.astype(self.dtype)
        self.is_plain = overflows or self.margin > LARGEST_MARGIN


def repeats(row_group: int, channels: int) -> int:
    """How often to repeat a vector of ``channels``: a divisor of ``row_group``.

    numpy is several times as slow where it broadcasts short vectors.
    """
    most = max(1, LONG_VECTOR_ELEMENTS // max(channels, 1))
    return next(n for n in range(min(most, row_group), 0, -1) if row_group % n == 0)


class Results:
    """Writer of results ``out`` [R, C]; ``close`` computes those close to a tie, all together.

    Each block is a multiple of ``row_group`` rows.
    """

    def __init__(self, stage: FastOutputStage, out: Array, row_group: int) -> None:
        self.stage, self.out, self.channels = stage, out.reshape(-1), out.shape[1]
        size = (repeats(row_group, self.channels), self.channels)
        self.scale, self.offset = (np.broadcast_to(v, size).reshape(-1) for v in (stage.scale, stage.offset))
        self.close_to_tie: list[tuple[Array, Array]] = []

    def write(self, sums: Array, row: int) -> None:
        """Put the results of sums [r, C] into ``out`` from ``row`` on."""
        stage, start = self.stage, row * self.channels
        target = self.out[start : start + sums.size]
        if stage.is_plain:
            target[...] = stage.stage(sums).reshape(-1)
            return
        product = np.multiply(sums.reshape(-1, self.scale.size), self.scale, dtype=stage.dtype)
        product += self.offset
        product = product.reshape(-1)
        nearest = np.rint(product)
        product -= nearest
        np.abs(product, product)
        close = np.flatnonzero(product > 0.5 - stage.margin)
        if close.size:
            self.close_to_tie.append((close + start, sums.reshape(-1)[close]))
        np.clip(nearest, *stage.stage.limits, out=nearest)
        target[...] = nearest

    def close(self) -> None:
        if self.close_to_tie:
            indices, sums = (np.concatenate(arrays) for arrays in zip(*self.close_to_tie, strict=True))
            self.out[indices] = self.stage.stage.requantized(sums, indices % self.channels)


def _scale_and_margin(stage: OutputStage) -> tuple[Array, float]:
    """Return the factor of ``stage`` as float64, and how far its first rounding can change a product."""
    if stage.arithmetic in (Arithmetic.DOUBLE, Arithmetic.WIDE_DOUBLE):
        return stage.scale, 0.0
    mantissa, shift = stage.multiplier
    if stage.arithmetic is Arithmetic.WIDE_FIXED_POINT:
        return np.ldexp(np.minimum((mantissa + (1 << 15)) >> 16, 0x7FFF), shift - 15), 0.0
    twice_rounded = shift[(shift < 0) & (mantissa != 0)]
    return np.ldexp(mantissa, shift - 31), 2.0 ** (float(twice_rounded.max(initial=-64)) - 1)
