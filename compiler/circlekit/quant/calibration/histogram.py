# SPDX-License-Identifier: Apache-2.0
"""Histograms whose merged result does not depend on the number or the order of the parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from circlekit.ir.value import Array

MAX_BINS = 4096
"""The most bins of a histogram; the width of a bin is the smallest power of two with which they suffice."""

MAX_NUMBER_BITS = 31
"""The most bits of the number of a bin: it limits how narrow the bins of large numbers are."""

SMALLEST_EXPONENT = -149
"""The smallest positive float32 is 2 to this power."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of numbers in bins of equal width, which is a power of two.

    ``counts``: int64; ``counts[i]`` is how many numbers x have ``floor(x / 2**exponent) == first + i``.
    The exponent follows from the range of the numbers alone, and two neighboring bins are exactly one bin of
    twice the width.  So merged histograms are equal to the histogram of all numbers together.
    """

    exponent: int
    first: int
    counts: Array

    @staticmethod
    def of(array: Array) -> Histogram:
        """Return the histogram of the elements of ``array``: floats, all finite, at least one."""
        low, high = float(array.min()), float(array.max())
        exponent = _exponent(low, high)
        bins = np.floor(array.reshape(-1).astype(np.float64) * 2.0**-exponent).astype(np.int64)
        first = _bin(low, exponent)
        return Histogram(exponent, first, np.bincount(bins - first))

    def merged(self, other: Histogram) -> Histogram:
        """Return the histogram of the numbers of both."""
        low = min(self.low, other.low)
        high = max(self.highest_bin_start, other.highest_bin_start)
        exponent = max(self.exponent, other.exponent, _exponent(low, high))
        left, right = self._coarser(exponent), other._coarser(exponent)
        first = min(left.first, right.first)
        end = max(left.first + left.counts.size, right.first + right.counts.size)
        counts = np.zeros(end - first, np.int64)
        for part in (left, right):
            counts[part.first - first : part.first - first + part.counts.size] += part.counts
        return Histogram(exponent, first, counts)

    @property
    def width(self) -> float:
        """The width of a bin."""
        return 2.0**self.exponent

    @property
    def low(self) -> float:
        """The lower edge of the first bin."""
        return self.first * self.width

    @property
    def highest_bin_start(self) -> float:
        """The lower edge of the last bin."""
        return (self.first + self.counts.size - 1) * self.width

    @property
    def centers(self) -> Array:
        """The middle of each bin, float64."""
        return (self.first + np.arange(self.counts.size) + 0.5) * self.width

    def including_zero(self) -> Histogram:
        """Return this histogram with the bin width that it would have if 0 were among the numbers."""
        return self._coarser(_exponent(min(self.low, 0.0), max(self.highest_bin_start, 0.0)))

    def _coarser(self, exponent: int) -> Histogram:
        """Return this histogram with bins of width ``2**exponent``, not narrower than now."""
        shift = exponent - self.exponent
        if not shift:
            return self
        first = self.first >> shift
        index = (np.arange(self.counts.size) + self.first >> shift) - first
        counts = np.zeros(int(index[-1]) + 1, np.int64)
        np.add.at(counts, index, self.counts)
        return Histogram(exponent, first, counts)


def _bin(number: float, exponent: int) -> int:
    """Return the number of the bin that has ``number`` in it; bin 0 begins at 0."""
    return math.floor(number * 2.0**-exponent)


def _exponent(low: float, high: float) -> int:
    """Return the smallest exponent with which at most MAX_BINS bins cover ``low`` to ``high``.

    The result is the same for ``low`` and ``high`` as for the lower edges of their bins.
    """
    magnitude = max(_power(low), _power(high))
    exponent = max(magnitude - MAX_NUMBER_BITS, SMALLEST_EXPONENT)
    if high > low:  # a lower bound, from which the loop below searches
        exponent = max(exponent, math.floor(math.log2((high - low) / MAX_BINS)) - 1)
    while _bin(high, exponent) - _bin(low, exponent) >= MAX_BINS:
        exponent += 1
    return exponent


def _power(number: float) -> int:
    """Return log2 of the magnitude of ``number``, rounded down if it is positive, up if it is negative."""
    if number == 0:
        return SMALLEST_EXPONENT
    return math.floor(math.log2(number)) if number > 0 else math.ceil(math.log2(-number))
