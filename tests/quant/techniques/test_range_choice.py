# SPDX-License-Identifier: Apache-2.0
"""The range estimator of each tensor is chosen by its noise on samples that it did not get."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.value import Array
from circlekit.quant.calibration import Calibration, TensorStatistics
from circlekit.quant.calibration.histogram import Histogram
from circlekit.quant.calibration.ranges import ESTIMATORS, estimate_range
from circlekit.quant.calibration.statistics import observed
from circlekit.quant.techniques.range_choice import (
    chosen_estimators,
    estimators,
    merged,
    merged_calibrations,
    noise_power,
)


def seen(*arrays: Array) -> TensorStatistics:
    statistics = TensorStatistics()
    for array in arrays:
        statistics.add(observed(np.asarray(array, np.float32), histogram=True))
    return statistics


def test_merged_statistics_are_those_of_all_samples() -> None:
    """One of the merged parts has not observed the tensor."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(shift, 1, 50) for shift in (0, -3, 2)]
    arrays[0][:3] = arrays[2][0] = np.nan
    expected = seen(*arrays)
    never = TensorStatistics()
    never.add(None)
    found = merged([never, seen(arrays[0]), seen(*arrays[1:])])
    assert (found.min, found.max, found.count) == (expected.min, expected.max, expected.count)
    assert found.ignored == expected.ignored == 4
    assert found.minima[1:] == expected.minima
    assert found.maxima[1:] == expected.maxima
    assert found.histogram is not None
    assert expected.histogram is not None
    assert (found.histogram.first, found.histogram.exponent) == (
        expected.histogram.first,
        expected.histogram.exponent,
    )
    assert np.array_equal(found.histogram.counts, expected.histogram.counts)
    whole = merged_calibrations([Calibration([{"x": seen(a)}], 2) for a in arrays])
    assert (whole.main["x"].min, whole.samples) == (expected.min, 6)


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.25, 0.5), (-0.75, -0.5), (-8.0, 8.0)])
def test_noise_is_that_of_rounded_numbers(ends: tuple[float, float]) -> None:
    """A histogram gives nearly the noise that numpy finds by rounding and clipping the numbers."""
    numbers = np.random.default_rng(1).normal(0, 1, 20000).astype(np.float32)
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    step = (high - low) / (2**5 - 1)
    rounded = np.clip(np.rint((numbers - low) / step), 0, 2**5 - 1) * step + low
    expected = np.square(rounded - numbers).sum()
    assert noise_power(Histogram.of(numbers), ends, 5) == pytest.approx(expected, rel=0.02)


def choice(*parts: Array, bits: int = 8) -> str:
    calibrations = [Calibration([{"x": seen(part)}], 1) for part in parts]
    (names,) = chosen_estimators(calibrations, "min_max", bits)
    return names["x"]


def test_each_part_is_judged_with_the_range_of_the_others() -> None:
    even = np.linspace(-1, 1, 1001)
    assert choice(even, even, even) == "min_max"
    assert choice(even, even, 1.25 * even) == "min_max times 1.25"  # 1.25 times the range of the others
    rare = np.concatenate([np.random.default_rng(2).normal(0, 0.1, 5000), [-1.0, 1.0]])
    assert choice(rare, rare, rare, bits=4) == "mse"


def test_the_default_is_among_the_estimators_that_are_tried() -> None:
    numbers = seen(np.random.default_rng(3).normal(0, 1, 5000))
    for name in ESTIMATORS:
        assert estimators(name, 4)[name](numbers) == estimate_range(numbers, name, 4)


def test_a_tensor_that_one_part_did_not_observe_has_no_estimator() -> None:
    never = TensorStatistics()
    never.add(None)
    parts = [Calibration([{"x": seen(np.ones(2))}], 1), Calibration([{"x": never}], 1)]
    assert chosen_estimators(parts, "min_max", 8) == [{}]
