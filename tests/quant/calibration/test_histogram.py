# SPDX-License-Identifier: Apache-2.0
"""Histograms: counts against numpy, and the same result in whatever order parts are merged."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest

from circlekit.quant.calibration.histogram import (
    MAX_BINS,
    MAX_NUMBER_BITS,
    SMALLEST_EXPONENT,
    Histogram,
)


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


@pytest.mark.parametrize(
    "numbers",
    [
        [0.0], [1.0], [-1.0], [1e-45], [3e38, -3e38], [0.0, 4095.0], [0.0, 4096.0], [-1.0, 4094.0],
        [-4096.0, 0.0], [0.75, 4096.25], [1.0, 1 + 2.0**-23], [2.0**31, 2.0**31 + 256], [-(2.0**31), 1.0],
        [2.0**20, 2.0**20 + 1], [5.0, 4100.0], [-0.75, 0.25], [1e-45, 2e-42], [-4097.0, -2.0], [3.0, 3.0],
    ],
)  # fmt: skip
def test_bins_are_as_narrow_as_allowed(numbers: list[float]) -> None:
    """Half the width would need more bins than MAX_BINS, too many bits, or an exponent below the smallest."""
    array = np.array(numbers, np.float32)
    found = Histogram.of(array)
    assert found.counts.size <= MAX_BINS
    assert found.counts.sum() == array.size
    low, high = float(array.min()), float(array.max())
    assert (found.low, found.highest_bin_start) == tuple(
        math.floor(end / found.width) * found.width for end in (low, high)
    )
    half = [math.floor(end / (found.width / 2)) for end in (low, high)]
    is_narrowest = found.exponent == SMALLEST_EXPONENT or half[1] - half[0] >= MAX_BINS
    assert is_narrowest or max(map(abs, half)) >= 2 ** (MAX_NUMBER_BITS + 1)
    last = found.first + found.counts.size - 1
    assert max(abs(found.first), abs(last)) < 2 ** (MAX_NUMBER_BITS + 1)
    assert found.centers.tolist() == [(index + 0.5) * found.width for index in range(found.first, last + 1)]


@pytest.mark.parametrize(
    "numbers", [[3.0, 5.0, 1000.0], [-3.0, -1000.5], [1e6, 1e6 + 1], [-1.0, 1.0], [0.0, 7.0]]
)
def test_a_histogram_with_bins_that_include_zero(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    found, whole = Histogram.of(array).including_zero(), Histogram.of(np.append(array, np.float32(0)))
    assert found.exponent == whole.exponent
    assert found.counts.sum() == array.size
    edges = found.low + np.arange(found.counts.size + 1) * found.width
    np.testing.assert_array_equal(found.counts, np.histogram(array, edges)[0])
