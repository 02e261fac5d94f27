# SPDX-License-Identifier: Apache-2.0
"""Histograms: counts against numpy, and the same result in whatever order parts are merged."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from circlekit.quant.calibration.histogram import MAX_BINS, Histogram


@pytest.mark.parametrize("seed", range(20))
def test_merging_gives_the_histogram_of_all_numbers(seed: int) -> None:
    random = np.random.default_rng(seed)
    scales = 10.0 ** random.integers(-30, 30, 6)
    shift = random.choice([0, 0, 1, -1, 1e-3, -4])
    parts = [((random.standard_normal(50) + shift) * scale).astype(np.float32) for scale in scales]
    parts += [np.zeros(3, np.float32), np.full(2, parts[0][0]), np.array([-4, 4], np.float32)]
    whole = Histogram.of(np.concatenate(parts))
    for _ in range(3):
        random.shuffle(parts)
        merged = reduce(Histogram.merged, map(Histogram.of, parts))
        assert (merged.exponent, merged.first) == (whole.exponent, whole.first)
        np.testing.assert_array_equal(merged.counts, whole.counts)
    assert whole.counts.size <= MAX_BINS
    edges = whole.low + np.arange(whole.counts.size + 1) * whole.width
    np.testing.assert_array_equal(whole.counts, np.histogram(np.concatenate(parts), edges)[0])
