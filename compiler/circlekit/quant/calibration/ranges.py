# SPDX-License-Identifier: Apache-2.0
"""Range estimators: choose the range that a quantized tensor shall cover from the tensor's statistics.

An estimator takes ``TensorStatistics`` and options by name, and returns (min, max), two finite floats.
``estimate_range`` calls an estimator by its name.  In this file, the *numbers* are the elements that were
observed in all samples, and the *extremes* are the minima or the maxima of the samples.  The estimators in
FROM_NUMBERS need a histogram of the numbers (``histograms=`` of the calibration).  All raise ModelError if no
finite number was observed, and UnsupportedError if an option is out of its range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from circlekit.errors import ModelError, UnsupportedError, check_name, did_you_mean
from circlekit.ir.value import Array
from circlekit.quant.calibration.histogram import Histogram
from circlekit.quant.calibration.statistics import TensorStatistics

Range = tuple[float, float]
Estimator = Callable[..., Range]


def min_max(statistics: TensorStatistics) -> Range:
    """Return the smallest and the largest number of all samples."""
    if statistics.min is None or statistics.max is None:
        raise ModelError("no finite number was observed")
    return statistics.min, statistics.max


# -- from the extremes of each sample ------------------------------------------------------------


def moving_average(statistics: TensorStatistics, batch: int = 16, constant: float = 0.1) -> Range:
    """Return ONE's moving averages of the minima and of the maxima of batches of samples.

    ``batch``: the number of samples of a batch.  The average begins with the extreme (min or max) of the
    first batch.  Each further batch changes it to ``average * (1 - constant) + extreme * constant``.
    Source: record-minmax, ``getMovingAverage``, with its roundings to float32.
    """
    if not 0 <= constant <= 1:
        raise UnsupportedError(f"expected a constant from 0 to 1, got {constant}")
    return (
        _averaged([min(part) for part in _batches(_seen(statistics.minima), batch)], constant),
        _averaged([max(part) for part in _batches(_seen(statistics.maxima), batch)], constant),
    )


def ema(statistics: TensorStatistics, decay: float = 0.999, start: Range | None = None) -> Range:
    """Return the moving averages of TensorFlow's quantization-aware training.

    The range of each sample is first extended to include 0.  The average is
    ``sum(decay**age * extreme) / sum(decay**age)`` over the samples, where the last sample has the age 0, the
    sample before it the age 1, and so on.
    ``start``: an initial range (min, max).  With it, the average begins with this min or max, and each sample
    changes it to ``average * decay + extreme * (1 - decay)``.
    Source: ``MovingAvgQuantize`` of contrib.quantize, with ``zero_debias`` of ``assign_moving_average``.
    """
    if not 0 <= decay < 1:
        raise UnsupportedError(f"expected a decay of at least 0 and less than 1, got {decay}")

    def average(extremes: Sequence[float], start: float | None) -> float:
        """Return the moving average; ``start``: its initial value, None: it has none."""
        result, weight = (0.0, 0.0) if start is None else (start, 1.0)
        for extreme in extremes:
            result, weight = result * decay + extreme * (1 - decay), weight * decay + (1 - decay)
        return result / weight

    lows = [min(low, 0.0) for low in _seen(statistics.minima)]
    highs = [max(high, 0.0) for high in _seen(statistics.maxima)]
    start_low, start_high = start or (None, None)
    return average(lows, start_low), average(highs, start_high)


def mean_of_samples(statistics: TensorStatistics) -> Range:
    """Return the mean of the minima of all samples, and the mean of their maxima."""
    return float(np.mean(_seen(statistics.minima))), float(np.mean(_seen(statistics.maxima)))


def sample_percentile(statistics: TensorStatistics, low: float = 1.0, high: float = 99.0) -> Range:
    """Return ONE's percentiles: ``low`` of the minima of all samples, ``high`` of their maxima.

    ``low``, ``high``: from 0 to 100.  If ``low`` is above ``high``, the returned min may be above max.
    """
    return percentile(_seen(statistics.minima), low), percentile(_seen(statistics.maxima), high)


def percentile(numbers: Sequence[float], percent: float) -> float:
    """Return the percentile ``percent``, 0 to 100, of ``numbers`` (at least one), interpolated linearly.

    Source: record-minmax, ``getNthPercentile``, with its roundings to float32.
    """
    ordered, rounded = np.sort(np.array(numbers, np.float32)), np.float32(percent)
    if not 0 <= percent <= 100:
        raise UnsupportedError(f"expected a percentile from 0 to 100, got {percent}")
    if rounded in (0, 100) or ordered.size == 1:
        return float(ordered[-1 if rounded == 100 else 0])
    last = ordered.size - 1
    # for more than 2**24 numbers, float32 may round the index up to ``last``
    index = min(int(float(np.float32(last) * rounded) / 100.0), last - 1)
    below = float(np.float32(index) / np.float32(last))
    fraction = np.float32((float(rounded) / 100.0 - below) / ((index + 1.0) / last - below))
    return float(ordered[index] + fraction * (ordered[index + 1] - ordered[index]))


def _seen(extremes: Sequence[float]) -> list[float]:
    """Return ``extremes`` without NaN, which stands for a sample without numbers.

    Raise ModelError if no number is left.
    """
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
    """Return the average that ``moving_average`` describes; ``extremes``: the min or max of each batch."""
    keep = np.float32(1) - np.float32(constant)
    average = np.float32(extremes[0])
    for extreme in extremes[1:]:
        average = np.float32(float(average * keep) + extreme * (1.0 - float(keep)))
    return float(average)


# -- from the numbers ----------------------------------------------------------------------------


def value_percentile(statistics: TensorStatistics, percent: float = 99.99) -> Range:
    """Return the range of the middle ``percent`` % of the numbers.

    As many numbers are below the range as above it.  Each end may be off by the width of a bin of the
    histogram.
    """
    if not 50 < percent <= 100:
        raise UnsupportedError(f"expected a percentage above 50, up to 100, got {percent}")
    histogram, (low, high) = _histogram(statistics), min_max(statistics)
    running = np.cumsum(histogram.counts)
    outside = (100 - percent) / 200 * running[-1]
    first = int(np.searchsorted(running, outside, side="right"))
    last = int(np.searchsorted(running, running[-1] - outside, side="left"))
    start, width = histogram.low, histogram.width
    return max(low, start + first * width), min(high, start + (last + 1) * width)


def mse(statistics: TensorStatistics, bits: int, steps: int = 100) -> Range:
    """Return the range with the least mean squared error of rounding and clipping.

    The observed range is first extended to include 0.  The candidates for each end are ``steps`` equally
    spaced fractions of this end; all pairs of candidates are compared.  A number inside a range counts with
    the squared error s * s / 12, where s is the scale of the range for integers of ``bits`` bits.  A number
    outside counts with its squared distance from the range.
    """
    _require_positive(bits=bits, steps=steps)
    histogram, (low, high) = _histogram(statistics), _with_zero(min_max(statistics))
    centers, weights = np.clip(histogram.centers, low, high), histogram.counts / histogram.counts.sum()
    fractions = np.arange(steps, 0, -1) / steps  # falling, so that the widest of equally good ranges is taken
    lows, highs = low * fractions[:, None], high * fractions
    # _clipping looks at numbers above an end, so the numbers below ``lows`` are negated
    clipped_low, outside_low = _clipping(-centers[::-1], weights[::-1], -lows)
    clipped_high, outside_high = _clipping(centers, weights, highs)
    rounding = np.square((highs - lows) / (2**bits - 1)) / 12
    error = clipped_low + clipped_high + (1 - outside_low - outside_high) * rounding
    first, second = np.unravel_index(np.argmin(error), error.shape)
    return float(lows[first, 0]), float(highs[second])


def _clipping(centers: Array, weights: Array, ends: Array) -> tuple[Array, Array]:
    """Return two arrays like ``ends``: the squared error by clipping at each end, and the weight above it.

    The error is the sum, over the centers above the end, of weight times squared distance from the end.
    ``centers``: ascending.  ``weights``: one for each center.
    """
    first = np.searchsorted(centers, ends, side="right")

    def above(numbers: Array) -> Array:
        """Return, for each end, the sum of ``numbers`` (one per center) over the centers above the end."""
        return np.asarray(np.append(np.cumsum(numbers[::-1])[::-1], 0.0)[first])

    weight, sums, squares = above(weights), above(weights * centers), above(weights * centers**2)
    return np.maximum(squares - 2 * ends * sums + ends**2 * weight, 0.0), weight


def octav(statistics: TensorStatistics, bits: int, steps: int = 20) -> Range:
    """Return the range [-s, s] with the least mean squared error, limited to the observed range.

    The observed range is first extended to include 0: numbers from 5 to 6 give [0, s].
    Newton's method finds s.  Each of at most ``steps`` steps sets s to
    ``sum(|x| over |x| > s) / (4**-bits / 3 * #(|x| <= s) + #(|x| > s))``, where #(...) is the count of the
    numbers x for which the condition holds.
    Source: Sakr et al., "Optimal Clipping and Magnitude-aware Differentiation for Improved Quantization-aware
    Training" (2022).  The paper leaves out zeros; here they count, because the histogram does not distinguish
    zeros and small numbers.
    """
    _require_positive(bits=bits, steps=steps)
    histogram, (low, high) = _histogram(statistics), _with_zero(min_max(statistics))
    magnitudes, counts = np.abs(histogram.centers), histogram.counts.astype(np.float64)
    clip = float((magnitudes * counts).sum() / counts.sum())
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
    """Return the range [-s, s] with the least KL divergence, limited to the observed range.

    The observed range is first extended to include 0.
    Up to 200 candidates for s are compared: ends of bins of the histogram of magnitudes, from bin ``levels``
    on.  The divergence is KL(P || Q) of two histograms of the magnitudes up to s.  In P, the last bin also
    counts the numbers beyond s.  Q does not count these, and is merged to ``levels`` bins.
    Source: Migacz, "8-bit Inference with TensorRT".
    """
    _require_positive(levels=levels)
    histogram, (low, high) = _histogram(statistics).including_zero(), _with_zero(min_max(statistics))
    bins = (np.abs(histogram.centers) / histogram.width).astype(np.int64)
    counts = np.bincount(bins, histogram.counts).astype(np.float64)
    ends = np.unique(np.linspace(min(levels, counts.size), counts.size, 200).astype(int))
    best = int(min(ends[::-1], key=lambda end: _divergence(counts, int(end), levels)))
    clip = best * histogram.width
    return max(low, -clip), min(high, clip)


def _divergence(counts: Array, end: int, levels: int) -> float:
    """Return KL(P || Q), as ``entropy`` describes, for magnitudes up to bin ``end``.

    P is ``counts[:end]``, with all further counts added to its last bin.  Q is ``counts[:end]``, in which the
    occupied bins of each of ``levels`` groups get the mean of their counts.  For example, the counts
    [4, 0, 2, 6] in 2 groups give P = [4, 0, 2, 6] and Q = [4, 0, 4, 4], before both are divided by their sum.
    """
    exact = counts[:end].copy()  # P
    level = np.arange(end) * levels // max(end, levels)
    occupied = counts[:end] > 0
    sums = np.bincount(level, counts[:end])
    filled = np.bincount(level, occupied)
    merged = np.where(occupied, sums[level] / np.maximum(filled[level], 1), 0.0)
    exact[-1] += counts[end:].sum()
    if not merged.sum():
        return np.inf
    exact, merged = exact / exact.sum(), merged / merged.sum()
    used = exact > 0
    smallest = 1e-12  # for the last bin, which may hold only numbers from beyond ``end``
    return float((exact[used] * np.log(exact[used] / np.maximum(merged[used], smallest))).sum())


def margin(statistics: TensorStatistics) -> Range:
    """Return the observed range, wider by ``(max - min) / (n - 1)`` at each end, for n observed numbers.

    For a uniform distribution, these are the unbiased estimates of its ends (Goodman, 1952).  With few
    numbers the range becomes much wider, with a million it hardly changes.  An end at 0 stays there.
    """
    low, high = min_max(statistics)
    extra = (high - low) / max(statistics.count - 1, 1)
    return low - extra if low else low, high + extra if high else high


def _require_positive(**options: int) -> None:
    """Raise UnsupportedError if one of ``options`` is below 1."""
    for name, number in options.items():
        if number < 1:
            raise UnsupportedError(f"expected a number of {name} of at least 1, got {number}")


def _with_zero(ends: Range) -> Range:
    """Return the range ``ends``, extended so that it includes 0."""
    return min(ends[0], 0.0), max(ends[1], 0.0)


def _histogram(statistics: TensorStatistics) -> Histogram:
    """Return the histogram; raise ModelError if there is none, or if no finite number was observed."""
    min_max(statistics)
    if statistics.histogram is None:
        raise ModelError("expected a histogram, got none: calibrate with histograms=True (--histograms)")
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


FOR_BITS = frozenset({"mse", "octav"})
"""The estimators whose range depends on the number of bits of the integers."""


def check_estimator(name: str) -> None:
    """Raise UnsupportedError unless ``name`` is a key of ESTIMATORS; ModelError if it is not a text."""
    check_name("a range estimator", name)
    if name not in ESTIMATORS:
        raise UnsupportedError(f"no range estimator is named {name!r}{did_you_mean(name, ESTIMATORS)}")


def estimate_range(
    statistics: TensorStatistics, estimator: str = "min_max", bits: int = 8, **options: Any
) -> Range:
    """Return (min, max) by the estimator with the name ``estimator``.

    ``bits``: the number of bits of the integers that will cover the range; it matters for FOR_BITS only.
    ``options``: the other options of that estimator.  A range that a person edited in a file, or that was
    read from a model (``statistics.is_edited``), is returned as it is, whatever the estimator.
    Raise UnsupportedError for an unknown name or an option out of its range; ModelError if no finite number
    was observed, or if the estimator needs a histogram and there is none; TypeError for an option that the
    estimator does not have.
    """
    check_estimator(estimator)
    if statistics.is_edited:
        return min_max(statistics)
    if estimator in FOR_BITS:
        options["bits"] = bits
    return ESTIMATORS[estimator](statistics, **options)
