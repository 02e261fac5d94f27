# SPDX-License-Identifier: Apache-2.0
"""Statistics of one tensor: the range in each sample, and on request numbers per channel and a histogram.

Elements that are not finite are ignored: they are counted, but are in no range.  So are those of the largest
magnitude that float32 has, because exporters write it for "minus infinity" in masks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.value import Array
from circlekit.quant.calibration.histogram import Histogram

LARGEST = float(np.finfo(np.float32).max)
"""The magnitude from which on an element is ignored."""


@dataclass(eq=False)
class ChannelStatistics:
    """Statistics of each channel, which is an index of the axis ``axis``.

    ``count``: the numbers in each channel.  ``minima`` and ``maxima`` (float32), ``sums`` and ``square_sums``
    (float64): vectors with an element per channel.
    """

    axis: int
    count: int
    minima: Array
    maxima: Array
    sums: Array
    square_sums: Array

    @property
    def mean(self) -> Array:
        """The mean of each channel."""
        return np.asarray(self.sums / max(self.count, 1))

    @property
    def mean_square(self) -> Array:
        """The mean of the squares of each channel."""
        return np.asarray(self.square_sums / max(self.count, 1))

    def add(self, other: ChannelStatistics) -> None:
        """Include the numbers of ``other``; raise ShapeError if it has another number of channels."""
        if self.minima.shape != other.minima.shape:
            counts = f"{self.minima.size} and then {other.minima.size}"
            raise ShapeError(f"expected as many channels in each run, got {counts} on axis {self.axis}")
        self.count += other.count
        self.minima = np.minimum(self.minima, other.minima)
        self.maxima = np.maximum(self.maxima, other.maxima)
        self.sums = self.sums + other.sums
        self.square_sums = self.square_sums + other.square_sums


@dataclass(frozen=True, eq=False)
class Observation:
    """The statistics of a tensor in one sample.

    ``low``, ``high``: the range, NaN if all elements are ignored.  ``count``: the elements in the range.
    ``ignored``: the other elements.
    """

    low: float
    high: float
    count: int
    ignored: int = 0
    channels: ChannelStatistics | None = None
    histogram: Histogram | None = None


@dataclass(eq=False)
class TensorStatistics:
    """Statistics of one tensor over all samples.

    ``min`` and ``max``: the range, None if no element is in it.  ``minima`` and ``maxima``: the range of each
    sample in the order of the samples, NaN for a sample without one.  ``count``: elements in the range.
    ``ignored``: elements that are not finite or have the largest magnitude of float32.
    """

    min: float | None = None
    max: float | None = None
    count: int = 0
    ignored: int = 0
    minima: list[float] = field(default_factory=list)
    maxima: list[float] = field(default_factory=list)
    channels: ChannelStatistics | None = None
    histogram: Histogram | None = None

    @property
    def is_edited(self) -> bool:
        """Whether the range is not that of the samples: then every estimator returns it as it is."""
        lows = [low for low in self.minima if not math.isnan(low)]
        highs = [high for high in self.maxima if not math.isnan(high)]
        return (self.min, self.max) != (min(lows, default=None), max(highs, default=None))

    def add(self, seen: Observation | None) -> None:
        """Include one sample; None: it did not compute the tensor, as in a branch of an IF not taken."""
        low, high = (np.nan, np.nan) if seen is None else (seen.low, seen.high)
        self.minima.append(low)
        self.maxima.append(high)
        if seen is None:
            return
        self.count += seen.count
        self.ignored += seen.ignored
        if not math.isnan(low):
            self.min = low if self.min is None else min(self.min, low)
            self.max = high if self.max is None else max(self.max, high)
        if seen.channels is not None:
            if self.channels is None:
                self.channels = seen.channels
            else:
                self.channels.add(seen.channels)
        if seen.histogram is not None:
            mine = self.histogram
            self.histogram = seen.histogram if mine is None else mine.merged(seen.histogram)


def joined(first: Observation | None, second: Observation) -> Observation:
    """Return the statistics of a tensor that one sample computes several times, as in the body of a loop.

    ``first``: of the computations before, None if there are none.  ``second``: of one more.
    """
    if first is None:
        return second
    channels, histogram = first.channels, first.histogram
    if channels is None:
        channels = second.channels
    elif second.channels is not None:
        channels.add(second.channels)
    if histogram is None:
        histogram = second.histogram
    elif second.histogram is not None:
        histogram = histogram.merged(second.histogram)
    return Observation(
        float(np.fmin(first.low, second.low)),
        float(np.fmax(first.high, second.high)),
        first.count + second.count,
        first.ignored + second.ignored,
        channels,
        histogram,
    )


def observed(array: Array, axis: int | None = None, histogram: bool = False) -> Observation:
    """Return the statistics of ``array``, which has a float dtype.

    ``axis``: the axis of the channels, None for no statistics per channel; there, elements that are ignored
    count as 0.  ``histogram``: whether to make one.
    """
    if not array.size:
        return Observation(np.nan, np.nan, 0)
    # float32 represents float16 exactly; float64 is rarer, and is rounded
    floats = array if array.dtype == np.float32 else array.astype(np.float32)
    low, high = float(floats.min()), float(floats.max())  # NaN if an element is
    if low > -LARGEST and high < LARGEST:
        ignored, numbers = 0, floats
    else:
        usable = np.abs(floats) < LARGEST  # false for NaN
        numbers = floats[usable]
        ignored = floats.size - numbers.size
        if not numbers.size:
            return Observation(np.nan, np.nan, 0, ignored)
        low, high = float(numbers.min()), float(numbers.max())
        floats = np.where(usable, floats, np.float32(0))
    return Observation(
        low,
        high,
        numbers.size,
        ignored,
        None if axis is None else _by_channel(floats, axis),
        Histogram.of(numbers) if histogram else None,
    )


def _by_channel(array: Array, axis: int) -> ChannelStatistics:
    """Return the statistics of each index of ``axis``; a scalar has one channel."""
    axis = axis % max(array.ndim, 1)
    rows = np.moveaxis(array, axis, -1) if array.ndim else array
    rows = rows.reshape(-1, array.shape[axis] if array.ndim else 1)
    wide = rows.astype(np.float64)
    return ChannelStatistics(
        axis, rows.shape[0], rows.min(axis=0), rows.max(axis=0), wide.sum(axis=0), np.square(wide).sum(axis=0)
    )
