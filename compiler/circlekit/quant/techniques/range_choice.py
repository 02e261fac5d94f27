# SPDX-License-Identifier: Apache-2.0
"""Choose the range estimator of each tensor by the noise on samples that the estimator did not get.

A narrow range has small rounding errors, but may clip the numbers of new samples.  So the samples are divided
into parts.  For each tensor, every estimator gets all parts but one; the noise of rounding and clipping is
computed from the histogram of the part that is left out.  This is done for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from circlekit.quant.calibration import Calibration, TensorStatistics
from circlekit.quant.calibration.histogram import Histogram
from circlekit.quant.calibration.ranges import Range, estimate_range, mse
from circlekit.quant.calibration.statistics import combined

LARGEST_NOISE_SHARE = 0.98
"""Another estimator replaces the default if its noise is below this share of the default's noise."""

Estimators = Mapping[str, Callable[[TensorStatistics], Range]]
"""By name, functions that return the range of a tensor from its statistics.  Reports show the names."""


def estimators(first: str, bits: int) -> Estimators:
    """Return the estimators that are tried.

    ``first``: the name of the default estimator, see ``ranges.ESTIMATORS``.  ``bits``: the number of bits of
    the quantized tensors.
    """

    def widened(factor: float) -> Callable[[TensorStatistics], Range]:
        """Return the default estimator with both ends of its ranges multiplied by ``factor``."""

        def estimate(statistics: TensorStatistics) -> Range:
            """Return the widened range of one tensor."""
            low, high = estimate_range(statistics, first, bits)
            return low * factor, high * factor

        return estimate

    return {
        # the range of least mean squared error, from 40 candidates for each end; if ``first`` is also
        # "mse", the next entry has the same key and replaces this one
        "mse": lambda statistics: mse(statistics, bits, steps=40),
        first: widened(1.0),
        f"{first} times 1.1": widened(1.1),
        f"{first} times 1.25": widened(1.25),
    }


def chosen_estimators(parts: Sequence[Calibration], first: str, bits: int) -> list[dict[str, str]]:
    """Return for each graph {name of a tensor: name of its best estimator}.

    ``parts``: at least two calibrations with histograms, each on a different part of the samples.
    ``first``, ``bits``: see ``estimators``.  The result leaves out a tensor if one of the parts observed no
    number of it.
    """
    tried = estimators(first, bits)
    found: list[dict[str, str]] = []
    for index, graph in enumerate(parts[0].graphs):
        names: dict[str, str] = {}
        for name in graph:
            statistics = [part.graphs[index][name] for part in parts]
            if any(s.histogram is None or s.min is None for s in statistics):
                continue
            noise = _noise_of(statistics, tried, bits)
            best = min(noise, key=lambda n: noise[n])
            names[name] = best if noise[best] < LARGEST_NOISE_SHARE * noise[first] else first
        found.append(names)
    return found


def _noise_of(parts: Sequence[TensorStatistics], tried: Estimators, bits: int) -> dict[str, float]:
    """Return {estimator: noise} summed over all parts; a part gets the range made from the other parts."""
    total = dict.fromkeys(tried, 0.0)
    for index, left_out in enumerate(parts):
        others = merged([part for i, part in enumerate(parts) if i != index])
        assert left_out.histogram is not None  # the caller checked it
        for name, estimate in tried.items():
            total[name] += noise_power(left_out.histogram, estimate(others), bits)
    return total


def noise_power(histogram: Histogram, ends: Range, bits: int) -> float:
    """Return the sum of the squared errors that quantizing makes in the numbers of ``histogram``.

    ``ends``: the range; it is extended so that it includes 0.  ``bits``: the number of bits of the integers.
    A number inside of the range counts as scale^2 / 12, the mean squared error of rounding.
    """
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    centers = histogram.centers
    clipped = np.clip(centers, low, high)
    inside = float(histogram.counts[clipped == centers].sum())
    outside = float((histogram.counts * np.square(centers - clipped)).sum())
    return inside * float((high - low) / (2**bits - 1)) ** 2 / 12 + outside


def merged(parts: Sequence[TensorStatistics]) -> TensorStatistics:
    """Return the statistics over all ``parts`` of the samples, without statistics per channel."""
    out = TensorStatistics()
    for part in parts:
        out.count += part.count
        out.ignored += part.ignored
        out.minima += part.minima  # lists with a number for each sample
        out.maxima += part.maxima
        if part.min is not None and part.max is not None:
            out.min = part.min if out.min is None else min(out.min, part.min)
            out.max = part.max if out.max is None else max(out.max, part.max)
        out.histogram = combined(out.histogram, part.histogram)
    return out


def merged_calibrations(parts: Sequence[Calibration]) -> Calibration:
    """Return the calibration over all ``parts``, without statistics per channel, source and engine."""
    graphs = [
        {name: merged([part.graphs[index][name] for part in parts]) for name in graph}
        for index, graph in enumerate(parts[0].graphs)
    ]
    return Calibration(graphs, sum(part.samples for part in parts))
