# SPDX-License-Identifier: Apache-2.0
"""Histograms whose merged result does not depend on the number or the order of the parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from circlekit.ir.value import Array

MAX_BINS = 4096
"""Bins of one histogram; the width is the smallest power of two that needs no more of them."""

MAX_NUMBER_BITS = 31
"""The number of a bin has at most so many bits: equal numbers far from 0 get a bin of this width."""

SMALLEST_EXPONENT = -149
"""The smallest positive float32 is 2 to this power."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of numbers in bins of equal width, which is a power of two.

    Bin ``i`` counts the numbers x with ``first + i == floor(x / 2**exponent)``.  The exponent follows from
    the range of the numbers alone, and two bins join to one exactly, so that histograms merge to the one that
    all numbers together have.
    """

    exponent: int
    first: int
    counts: Array

    @staticmethod
    def of(array: Array) -> Histogram:
        """Return the histogram of the elements of ``array``, which is not empty and has finite floats."""
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
        """Return the counts with the bins that they would have if 0 were among the numbers."""
        return self._coarser(_exponent(min(self.low, 0.0), max(self.highest_bin_start, 0.0)))

    def _coarser(self, exponent: int) -> Histogram:
        """Return the histogram with bins of width 2**exponent, which is not below the present width."""
        shift = exponent - self.exponent
        if not shift:
            return self
        first = self.first >> shift
        index = (np.arange(self.counts.size) + self.first >> shift) - first
        counts = np.zeros(int(index[-1]) + 1, np.int64)
        np.add.at(counts, index, self.counts)
        return Histogram(exponent, first, counts)


def _bin(number: float, exponent: int) -> int:
    return math.floor(number * 2.0**-exponent)


def _exponent(low: float, high: float) -> int:
    """Return the smallest exponent with which the bins of ``low`` to ``high`` are at most MAX_BINS.

    The result is the same for ``low`` and ``high`` as for the lower edges of their bins.
    """
    magnitude = max(_power(low), _power(high))
    exponent = max(magnitude - MAX_NUMBER_BITS, SMALLEST_EXPONENT)
    if high > low:  # one less than is possible at all
        exponent = max(exponent, math.floor(math.log2((high - low) / MAX_BINS)) - 1)
    while _bin(high, exponent) - _bin(low, exponent) >= MAX_BINS:
        exponent += 1
    return exponent


def _power(number: float) -> int:
    """Return the exponent of the power of two below a positive number, or beyond a negative one."""
    if number == 0:
        return SMALLEST_EXPONENT
    return math.floor(math.log2(number)) if number > 0 else math.ceil(math.log2(-number))
