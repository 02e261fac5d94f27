# SPDX-License-Identifier: Apache-2.0
"""Range estimators: compute the range that a quantized tensor covers from its statistics.

An estimator takes ``TensorStatistics`` and options by name, and returns (min, max), two finite floats.
``estimate_range`` calls it by its name.  The estimators in FROM_NUMBERS need a histogram (``histograms=`` of
the calibration).  All raise ModelError if no finite number was observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from circlekit.errors import ModelError, UnsupportedError, did_you_mean
from circlekit.ir.value import Array
from circlekit.quant.calibration.histogram import Histogram
from circlekit.quant.calibration.statistics import TensorStatistics

Range = tuple[float, float]
Estimator = Callable[..., Range]


def min_max(statistics: TensorStatistics) -> Range:
    """The smallest and the largest number of all samples."""
    if statistics.min is None or statistics.max is None:
        raise ModelError("no finite number was observed")
    return statistics.min, statistics.max


# -- from the extremes of each sample ------------------------------------------------------------


def moving_average(statistics: TensorStatistics, batch: int = 16, constant: float = 0.1) -> Range:
    """The moving average of ONE: ``a = a * (1 - constant) + extreme of the next batch * constant``.

    ``batch``: the number of samples whose min and max are one step.  Source: record-minmax,
    ``getMovingAverage``, with its roundings to float32.
    """
    if not 0 <= constant <= 1:
        raise UnsupportedError(f"expected a constant from 0 to 1, got {constant}")
    return (
        _averaged([min(part) for part in _batches(_seen(statistics.minima), batch)], constant),
        _averaged([max(part) for part in _batches(_seen(statistics.maxima), batch)], constant),
    )


def ema(statistics: TensorStatistics, decay: float = 0.999, start: Range | None = None) -> Range:
    """The moving average of TensorFlow's quantization-aware training; the range of each sample includes 0.

    It is ``sum(decay**age * extreme) / sum(decay**age)``, where the last sample has the age 0.  Source:
    ``MovingAvgQuantize`` of contrib.quantize, whose ``assign_moving_average`` removes the influence of the
    initial value (``zero_debias``).  ``start``: an initial range whose influence is not removed:
    ``a = a * decay + extreme * (1 - decay)``.
    """
    if not 0 <= decay < 1:
        raise UnsupportedError(f"expected a decay of at least 0 and less than 1, got {decay}")

    def average(extremes: Sequence[float], start: float | None) -> float:
        result, weight = (0.0, 0.0) if start is None else (start, 1.0)
        for extreme in extremes:
            result, weight = result * decay + extreme * (1 - decay), weight * decay + (1 - decay)
        return result / weight

    lows = [min(low, 0.0) for low in _seen(statistics.minima)]
    highs = [max(high, 0.0) for high in _seen(statistics.maxima)]
    first, last = start or (None, None)
    return average(lows, first), average(highs, last)


def mean_of_samples(statistics: TensorStatistics) -> Range:
    """The mean of the minima of all samples, and the mean of their maxima."""
    return float(np.mean(_seen(statistics.minima))), float(np.mean(_seen(statistics.maxima)))


def sample_percentile(statistics: TensorStatistics, low: float = 1.0, high: float = 99.0) -> Range:
    """ONE's percentiles, 0 to 100: ``low`` of the minima of all samples, ``high`` of their maxima."""
    return percentile(_seen(statistics.minima), low), percentile(_seen(statistics.maxima), high)


def percentile(numbers: Sequence[float], percent: float) -> float:
    """Return the percentile ``percent``, 0 to 100, of at least one number, with linear interpolation.

    Source: record-minmax, ``getNthPercentile``, with its roundings to float32.
    """
    ordered, rounded = np.sort(np.array(numbers, np.float32)), np.float32(percent)
    if not 0 <= percent <= 100:
        raise UnsupportedError(f"expected a percentile from 0 to 100, got {percent}")
    if rounded in (0, 100) or ordered.size == 1:
        return float(ordered[-1 if rounded == 100 else 0])
    last = ordered.size - 1
    index = min(int(float(np.float32(last) * rounded) / 100.0), last - 1)
    below = float(np.float32(index) / np.float32(last))
    fraction = np.float32((float(rounded) / 100.0 - below) / ((index + 1.0) / last - below))
    return float(ordered[index] + fraction * (ordered[index + 1] - ordered[index]))


def _seen(extremes: Sequence[float]) -> list[float]:
    """Return ``extremes`` without NaN (a sample without numbers); raise ModelError if none is left."""
    seen = [number for number in extremes if not math.isnan(number)]
    if not seen:
        raise ModelError("no finite number was observed")
    return seen


def _batches(numbers: Sequence[float], size: int) -> list[Sequence[float]]:
    """Return ``numbers`` in parts of ``size``; the last part may be shorter."""
    if size < 1:
        raise UnsupportedError(f"expected a batch of at least 1 sample, got {size}")
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def _averaged(extremes: Sequence[float], constant: float) -> float:
    """Return the moving average of ``extremes``; ``constant``: the weight of the next one, 0 to 1."""
    keep = np.float32(1) - np.float32(constant)
    average = np.float32(extremes[0])
    for extreme in extremes[1:]:
        average = np.float32(float(average * keep) + extreme * (1.0 - float(keep)))
    return float(average)


# -- from the numbers ----------------------------------------------------------------------------


def value_percentile(statistics: TensorStatistics, percent: float = 99.99) -> Range:
    """The range without the ``100 - percent`` % outermost numbers, half of them at each end."""
    if not 50 < percent <= 100:
        raise UnsupportedError(f"expected a percentage above 50, up to 100, got {percent}")
    histogram, (low, high) = _histogram(statistics), min_max(statistics)
    running = np.cumsum(histogram.counts)
    outside = (100 - percent) / 200 * running[-1]
    first = int(np.searchsorted(running, outside, side="right"))
    last = int(np.searchsorted(running, running[-1] - outside, side="left"))
    start, width = histogram.low, histogram.width
    return max(low, start + first * width), min(high, start + (last + 1) * width)


def mse(statistics: TensorStatistics, bits: int = 8, steps: int = 100) -> Range:
    """The range with the least mean squared error of rounding and clipping together.

    Each end is one of ``steps`` equally spaced fractions of the observed end; all pairs of ends are compared.
    A number inside of the range counts with the squared error s*s/12, where s is the scale of ``bits`` bits;
    a number outside counts with its squared distance from the range.
    """
    histogram, (low, high) = _histogram(statistics), _with_zero(min_max(statistics))
    centers, weights = np.clip(histogram.centers, low, high), histogram.counts / histogram.counts.sum()
    fractions = np.arange(steps, 0, -1) / steps  # of equal errors the first pair counts, which is the widest
    lows, highs = low * fractions[:, None], high * fractions
    clipped_low, outside_low = _clipping(-centers[::-1], weights[::-1], -lows)
    clipped_high, outside_high = _clipping(centers, weights, highs)
    rounding = np.square((highs - lows) / (2**bits - 1)) / 12
    error = clipped_low + clipped_high + (1 - outside_low - outside_high) * rounding
    first, second = np.unravel_index(np.argmin(error), error.shape)
    return float(lows[first, 0]), float(highs[second])


def _clipping(centers: Array, weights: Array, ends: Array) -> tuple[Array, Array]:
    """Return for each of ``ends`` the sums over all centers above it: weighted squared distance, and weight.

    ``centers``: ascending.  ``weights``: of the centers.
    """
    above = [
        np.append(np.cumsum((weights * centers**power)[::-1])[::-1], 0.0)[
            np.searchsorted(centers, ends, side="right")
        ]
        for power in range(3)
    ]
    return np.maximum(above[2] - 2 * ends * above[1] + ends**2 * above[0], 0.0), above[0]


def octav(statistics: TensorStatistics, bits: int = 8, steps: int = 20) -> Range:
    """The symmetric range with the least mean squared error by Newton's method, cut to the observed range.

    The step is ``s <- sum(|x| over |x| > s) / (4**-bits / 3 * #(0 < |x| <= s) + #(|x| > s))``, at most
    ``steps`` times, where # counts numbers x, and the result is -s to s.  Source: Sakr et al., "Optimal
    Clipping and Magnitude-aware Differentiation for Improved Quantization-aware Training" (2022).
    """
    histogram, (low, high) = _histogram(statistics), _with_zero(min_max(statistics))
    magnitudes, counts = np.abs(histogram.centers), histogram.counts.astype(np.float64)
    clip = float((magnitudes * counts).sum() / max(counts.sum(), 1))
    for _ in range(steps):
        outside = magnitudes > clip
        inside = float(counts[~outside].sum())
        denominator = 4.0**-bits / 3 * inside + float(counts[outside].sum())
        following = float((magnitudes * counts)[outside].sum()) / denominator
        if following == 0 or abs(following - clip) <= 1e-6 * clip:
            break
        clip = following
    return max(low, -clip), min(high, clip)


def entropy(statistics: TensorStatistics, levels: int = 128) -> Range:
    """The symmetric range whose quantized histogram has the least KL divergence, cut to the observed range.

    Source: Migacz, "8-bit Inference with TensorRT".  The histogram of magnitudes is cut at up to 200 bins
    from ``levels`` on.  Numbers outside are counted in the last bin; all bins are merged to ``levels`` bins.
    """
    histogram, (low, high) = _histogram(statistics).including_zero(), _with_zero(min_max(statistics))
    bins = (np.abs(histogram.centers) / histogram.width).astype(np.int64)
    counts = np.bincount(bins, histogram.counts).astype(np.float64)
    ends = np.unique(np.linspace(min(levels, counts.size), counts.size, 200).astype(int))
    best = int(min(ends[::-1], key=lambda end: _divergence(counts, int(end), levels)))
    clip = best * histogram.width
    return max(low, -clip), min(high, clip)


def _divergence(counts: Array, end: int, levels: int) -> float:
    """Return the KL divergence of ``counts``, cut at bin ``end``, from the same in ``levels`` merged bins."""
    wanted = counts[:end].copy()
    level = np.arange(end) * levels // end if end > levels else np.arange(end)
    occupied = counts[:end] > 0
    sums = np.bincount(level, counts[:end])
    filled = np.bincount(level, occupied)
    merged = np.where(occupied, sums[level] / np.maximum(filled[level], 1), 0.0)
    wanted[-1] += counts[end:].sum()
    if not merged.sum():
        return np.inf
    wanted, merged = wanted / wanted.sum(), merged / merged.sum()
    both = wanted > 0
    smallest = 1e-12  # for the last bin, which may have only counts from outside
    return float((wanted[both] * np.log(wanted[both] / np.maximum(merged[both], smallest))).sum())


def margin(statistics: TensorStatistics) -> Range:
    """The observed range, wider by ``(max - min) / (n - 1)`` at each end, where n numbers were observed.

    These are the unbiased estimates of the ends of a uniform distribution (Goodman, 1952): after few numbers
    the range is much wider, after a million it is almost the observed one.  An end at 0 stays there.
    """
    low, high = min_max(statistics)
    more = (high - low) / max(statistics.count - 1, 1)
    return low - more if low else low, high + more if high else high


def _with_zero(ends: Range) -> Range:
    """Return the smallest range with ``ends`` and 0 in it."""
    return min(ends[0], 0.0), max(ends[1], 0.0)


def _histogram(statistics: TensorStatistics) -> Histogram:
    """Return the histogram of a tensor with finite numbers; raise ModelError if there is none."""
    min_max(statistics)
    if statistics.histogram is None:
        raise ModelError("there is no histogram; calibrate with histograms=True")
    return statistics.histogram


ESTIMATORS: Mapping[str, Estimator] = {
    function.__name__: function
    for function in (
        min_max, moving_average, ema, mean_of_samples, sample_percentile, value_percentile, mse, octav,
        entropy, margin,
    )
}  # fmt: skip
"""The range estimators by name."""

FROM_NUMBERS = frozenset({"value_percentile", "mse", "octav", "entropy"})
"""The estimators that need a histogram."""


def estimate_range(statistics: TensorStatistics, estimator: str = "min_max", **options: Any) -> Range:
    """Return (min, max) by the estimator of this name; a range that was edited is returned as it is.

    ``options``: those of the estimator.  Raise UnsupportedError for an unknown name or an option out of its
    range, ModelError if the statistics lack what the estimator needs.
    """
    if estimator not in ESTIMATORS:
        raise UnsupportedError(
            f"there is no range estimator {estimator!r}{did_you_mean(estimator, ESTIMATORS)}"
        )
    if statistics.is_edited:
        return min_max(statistics)
    return ESTIMATORS[estimator](statistics, **options)
