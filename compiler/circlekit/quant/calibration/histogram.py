# SPDX-License-Identifier: Apache-2.0
"""Histograms that can be merged: the result is the same however the numbers were divided among them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from circlekit.ir.value import Array

MAX_BINS = 4096
"""The largest number of bins.  The width of a bin is the smallest power of two that needs no more bins."""

MAX_NUMBER_BITS = 31
"""The width of a bin is at least 2^n / 2^MAX_NUMBER_BITS, where 2^n is about the largest magnitude.

The bins of large numbers are therefore wide, even if all numbers are almost equal.
"""

INDEX_LIMIT = 2 ** (MAX_NUMBER_BITS + 1)
"""The magnitudes of indices of bins (see ``_bin``) are below this limit."""

SMALLEST_EXPONENT = -149
"""The smallest exponent of a bin's width: the smallest positive float32 is 2 to this power."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of numbers in bins of equal width, which is a power of two.

    ``counts`` (int64): ``counts[i]`` is the count of the numbers x with
    ``floor(x / 2**exponent) == first + i``.
    The exponent depends only on the range of the numbers, and two neighboring bins make exactly one bin of
    twice the width.  So a merged histogram equals the histogram of all the numbers.
    """

    exponent: int
    first: int
    counts: Array

    @staticmethod
    def of(array: Array) -> Histogram:
        """Return the histogram of ``array``, which has at least one element and only finite floats."""
        low, high = float(array.min()), float(array.max())
        exponent = _exponent(low, high)
        bins = np.floor(array.reshape(-1).astype(np.float64) * 2.0**-exponent).astype(np.int64)
        first = _bin(low, exponent)
        return Histogram(exponent, first, np.bincount(bins - first))

    def merged(self, other: Histogram) -> Histogram:
        """Return the histogram of the numbers of both histograms."""
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
        """Return this histogram with bins as wide as if 0 were one of the numbers; no number is added."""
        return self._coarser(_exponent(min(self.low, 0.0), max(self.highest_bin_start, 0.0)))

    def _coarser(self, exponent: int) -> Histogram:
        """Return this histogram with bins of width ``2**exponent``, which is not less than ``width``."""
        shift = exponent - self.exponent
        if not shift:
            return self
        first = self.first >> shift
        index = (np.arange(self.counts.size) + self.first >> shift) - first
        counts = np.zeros(int(index[-1]) + 1, np.int64)
        np.add.at(counts, index, self.counts)
        return Histogram(exponent, first, counts)


def _bin(number: float, exponent: int) -> int:
    """Return the index of the bin to which ``number`` belongs; the bin that begins at 0.0 has the index 0."""
    return math.floor(number * 2.0**-exponent)


def _exponent(low: float, high: float) -> int:
    """Return the exponent of the width of bins: the smallest with which MAX_BINS bins cover [low, high].

    It is larger if MAX_NUMBER_BITS or SMALLEST_EXPONENT demands that.  The result is the same if ``low`` and
    ``high`` are replaced by the lower edges of their bins.  So ``merged`` needs only the histograms.
    """
    magnitude = max(_power(low), _power(high))
    exponent = max(magnitude - MAX_NUMBER_BITS, SMALLEST_EXPONENT)
    if high > low:  # a lower bound, so that the loop takes few steps
        exponent = max(exponent, math.floor(math.log2((high - low) / MAX_BINS)) - 1)
    while _bin(high, exponent) - _bin(low, exponent) >= MAX_BINS:
        exponent += 1
    return exponent


def _power(number: float) -> int:
    """Return log2 of the magnitude of ``number``, rounded down if ``number`` is positive, up if negative.

    So the lower edge of the bin of ``number`` has the same power, unless the bin is very wide.  Return -149
    for 0.
    """
    if number == 0:
        return SMALLEST_EXPONENT
    return math.floor(math.log2(number)) if number > 0 else math.ceil(math.log2(-number))
