# SPDX-License-Identifier: Apache-2.0
"""Statistics of one tensor: its range in each sample; on request, statistics per channel and a histogram.

Elements that are infinite or NaN are ignored: ``ignored`` counts them, but they do not belong to the range.
Elements with the largest magnitude of float32 are also ignored, because exporters write the lowest float32
for "minus infinity" in masks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.value import Array
from circlekit.quant.calibration.histogram import Histogram

LARGEST = float(np.finfo(np.float32).max)
"""Elements of this magnitude or a larger one are ignored."""


@dataclass(eq=False)
class ChannelStatistics:
    """Statistics of each channel of a tensor.  A channel is an index of the axis ``axis``.

    ``count``: the number of elements of each channel, ignored elements included.  In the other fields, an
    ignored element has the value 0.
    ``minima``, ``maxima`` (float32), ``sums``, ``square_sums`` (float64): vectors, one number per channel.
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

    def merged(self, other: ChannelStatistics) -> ChannelStatistics:
        """Return the statistics of the elements of both; raise ShapeError for another number of channels."""
        if self.minima.shape != other.minima.shape:
            counts = f"{self.minima.size} and then {other.minima.size}"
            raise ShapeError(
                f"expected the same number of channels in each run, got {counts} on axis {self.axis}"
            )
        return ChannelStatistics(
            self.axis,
            self.count + other.count,
            np.minimum(self.minima, other.minima),
            np.maximum(self.maxima, other.maxima),
            self.sums + other.sums,
            self.square_sums + other.square_sums,
        )


M = TypeVar("M", ChannelStatistics, Histogram)


def combined(first: M | None, second: M | None) -> M | None:
    """Return ``first.merged(second)``; if one of the two is None, return the other."""
    if first is None or second is None:
        return second if first is None else first
    return first.merged(second)


@dataclass(frozen=True, eq=False)
class Observation:
    """The statistics of a tensor in one sample.

    ``low``, ``high``: the range, NaN if no element belongs to it.  ``count``: the number of elements that
    belong to the range.  ``ignored``: the number of ignored elements.
    ``channels``, ``histogram``: None if they were not asked for, or if no element belongs to the range.
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

    ``min``, ``max``: the range, both None if no element belongs to it.
    ``count``: the number of elements that belong to the range.  ``ignored``: the number of ignored elements.
    ``minima``, ``maxima``: the ends of the range of each sample, in the order of the samples; NaN for a
    sample in which no element belongs to the range.
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
        """Whether ``min`` is not the lowest of ``minima``, or ``max`` not the highest of ``maxima``.

        Then a person has edited the range in a file, or the range was read from a model, which stores only
        ``min`` and ``max``.
        """
        lows = [low for low in self.minima if not math.isnan(low)]
        highs = [high for high in self.maxima if not math.isnan(high)]
        return (self.min, self.max) != (min(lows, default=None), max(highs, default=None))

    def add(self, seen: Observation | None) -> None:
        """Add the statistics of one sample.

        ``seen`` is None if the sample did not compute the tensor, for example in a branch of an IF.
        Raise ShapeError if the number of channels has changed; these statistics must not be used then.
        """
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
        self.channels = combined(self.channels, seen.channels)
        self.histogram = combined(self.histogram, seen.histogram)


def joined(first: Observation | None, second: Observation) -> Observation:
    """Return the statistics of all computations of a tensor in one sample.

    A tensor in the body of a loop is computed several times per sample.  ``first``: the statistics of all
    earlier computations, None if there are none.  ``second``: the statistics of the latest computation.
    Raise ShapeError if the number of channels has changed.
    """
    if first is None:
        return second
    return Observation(
        float(np.fmin(first.low, second.low)),
        float(np.fmax(first.high, second.high)),
        first.count + second.count,
        first.ignored + second.ignored,
        combined(first.channels, second.channels),
        combined(first.histogram, second.histogram),
    )


def observed(array: Array, axis: int | None = None, histogram: bool = False) -> Observation:
    """Return the statistics of ``array``, which has a float dtype.

    ``axis``: the axis of the channels; None: make no statistics per channel.  ``histogram``: whether to make
    a histogram.  If no element belongs to the range, neither is made.
    Raise ShapeError if statistics per channel are made and ``array`` has no axis ``axis``.
    """
    if not array.size:
        return Observation(np.nan, np.nan, 0)
    # float16 is exact in float32; float64 is rounded
    floats = array if array.dtype == np.float32 else array.astype(np.float32)
    low, high = float(floats.min()), float(floats.max())  # NaN if an element is NaN
    if low > -LARGEST and high < LARGEST:
        ignored, numbers = 0, floats
    else:
        usable = np.abs(floats) < LARGEST  # False for NaN
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
    """Return the statistics of each channel of ``array``.

    A channel is an index of ``axis``; a scalar has one channel, with the axis 0 or -1.
    Raise ShapeError if ``array`` has no such axis.
    """
    rank = max(array.ndim, 1)
    if not -rank <= axis < rank:
        raise ShapeError(f"channels: expected an axis of a tensor of rank {array.ndim}, got {axis}")
    axis = axis % rank
    rows = np.moveaxis(array, axis, -1) if array.ndim else array
    rows = rows.reshape(-1, array.shape[axis] if array.ndim else 1)
    wide = rows.astype(np.float64)
    return ChannelStatistics(
        axis, rows.shape[0], rows.min(axis=0), rows.max(axis=0), wide.sum(axis=0), np.square(wide).sum(axis=0)
    )
