# SPDX-License-Identifier: Apache-2.0
"""Range estimators against their definitions, by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import circlekit as ck
from circlekit.errors import ModelError, UnsupportedError
from circlekit.quant.calibration import TensorStatistics
from circlekit.quant.calibration.ranges import ESTIMATORS, _divergence, estimate_range, min_max, percentile
from circlekit.quant.calibration.recorded_ranges import record_ranges

MODEL = "graph main(%x: f32[1000]) -> %y { %y = Neg(%x) : f32[1000] }"


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    """Return 40 samples of 1000 normally distributed numbers, and two numbers far outside: 50 and -30."""
    numbers = np.random.default_rng(3).standard_normal((40, 1000)).astype(np.float32)
    numbers[5, :2] = 50, -30
    return numbers


@pytest.fixture(scope="module")
def seen(data: np.ndarray) -> TensorStatistics:
    return ck.calibrate(ck.parse(MODEL), [[x] for x in data], histograms=True)["x"]


def test_percentiles_of_samples_are_those_of_numpy(data: np.ndarray, seen: TensorStatistics) -> None:
    lows, highs = data.min(1), data.max(1)
    for low, high in ((1, 99), (0, 100), (37.5, 62.5)):
        expected = np.percentile(lows, low), np.percentile(highs, high)
        actual = estimate_range(seen, "sample_percentile", low=low, high=high)
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_the_moving_average_is_that_of_one(data: np.ndarray, seen: TensorStatistics) -> None:
    """Batches of 16, 16 and 8 samples; the largest numbers in those of ``rising`` are 15, 31 and 39."""
    batches = [data[:16].max(), data[16:32].max(), data[32:].max()]
    expected = (batches[0] * 0.9 + batches[1] * 0.1) * 0.9 + batches[2] * 0.1
    assert estimate_range(seen, "moving_average")[1] == pytest.approx(expected, rel=1e-6)
    rising = TensorStatistics(0.0, 39.0, 40, minima=[0.0] * 40, maxima=[float(n) for n in range(40)])
    assert estimate_range(rising, "moving_average")[1] == pytest.approx((15 * 0.9 + 3.1) * 0.9 + 3.9)
    last_sample = estimate_range(seen, "moving_average", batch=1, constant=1.0)
    assert last_sample == (data[-1].min(), data[-1].max())


def test_tensorflows_moving_average() -> None:
    """The range for decay 0.9 is that of ``assign_moving_average`` of TensorFlow 2.21."""
    seen = TensorStatistics(0.5, 5.0, 4, minima=[0.5] * 4, maxima=[1.0, 2.0, 5.0, 3.0])
    assert estimate_range(seen, "ema", decay=0.9) == pytest.approx((0.0, 2.8639133), rel=1e-6)
    start = estimate_range(seen, "ema", decay=0.5, start=(-1.0, 9.0))
    assert start == pytest.approx((-1 / 16, (((4.5 + 0.5) / 2 + 1) / 2 + 2.5) / 2 + 1.5))


def test_percentiles_of_numbers(data: np.ndarray, seen: TensorStatistics) -> None:
    low, high = estimate_range(seen, "value_percentile", percent=99.0)
    width = seen.histogram.width if seen.histogram is not None else 0.0
    np.testing.assert_allclose([low, high], np.percentile(data, [0.5, 99.5]), atol=1.01 * width)


@pytest.mark.parametrize("name", ["mse", "octav"])
def test_clipping_lowers_the_error_of_quantization(
    name: str, data: np.ndarray, seen: TensorStatistics
) -> None:
    def error(low: float, high: float) -> float:
        scale = (high - low) / 15
        quantized = np.clip(np.round((data - low) / scale), 0, 15) * scale + low
        return float(np.square(quantized - data).mean())

    assert error(*estimate_range(seen, name, bits=4)) < 0.2 * error(-30, 50)


@pytest.mark.parametrize("name", ["mse", "octav"])
def test_ranges_are_for_8_bits_if_no_bits_are_given(name: str, seen: TensorStatistics) -> None:
    assert (
        estimate_range(seen, name) == estimate_range(seen, name, bits=8) != estimate_range(seen, name, bits=9)
    )


def statistics_of(numbers: np.ndarray) -> TensorStatistics:
    model = ck.parse(MODEL.replace("1000", str(numbers.size)))
    return ck.calibrate(model, [[numbers]], histograms=True)["x"]


SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda r: r.normal(0, 20, 3000),
    "shifted": lambda r: r.normal(30, 10, 3000),
    "negative": lambda r: -r.exponential(20, 3000),
    "outlier": lambda r: np.append(r.normal(0, 3, 3000), [400.0, -90.0]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_of_rounding_and_clipping_is_least(shape: str) -> None:
    """The range is the best of all (low * i / 8, high * j / 8); here the error is computed number by number.

    The numbers are the centers of bins, so the histogram loses nothing.
    """
    numbers = SHAPES[shape](np.random.default_rng(2)).astype(np.float32)
    histogram = statistics_of(numbers).histogram
    assert histogram is not None
    numbers = ((np.floor(numbers / histogram.width) + 0.5) * histogram.width).astype(np.float32)
    seen = statistics_of(numbers)
    low, high = min(float(numbers.min()), 0.0), max(float(numbers.max()), 0.0)

    def error(first: float, last: float) -> float:
        outside = (numbers < first) | (numbers > last)
        clipped = np.square(numbers - np.clip(numbers, first, last))
        return float(np.where(outside, clipped, ((last - first) / 15) ** 2 / 12).mean())

    found = estimate_range(seen, "mse", bits=4, steps=8)
    ends = [(low * i / 8, high * j / 8) for i in range(1, 9) for j in range(1, 9)]
    assert any(found == pytest.approx(pair) for pair in ends)
    assert error(*found) == pytest.approx(min(error(*pair) for pair in ends), rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bits", [2, 8])
def test_octav_is_a_fixed_point(shape: str, bits: int) -> None:
    """The clip s is sum(|x| over |x| > s) / (4**-bits / 3 * #(|x| <= s) + #(|x| > s))."""
    numbers = SHAPES[shape](np.random.default_rng(2)).astype(np.float32)
    seen = statistics_of(numbers)
    low, high = estimate_range(seen, "octav", bits=bits, steps=60)
    assert min(0.0, float(numbers.min())) <= low <= 0 <= high <= max(0.0, float(numbers.max()))
    clip, magnitudes = max(-low, high), np.abs(numbers)
    outside = magnitudes > clip
    wanted = magnitudes[outside].sum() / (4.0**-bits / 3 * (~outside).sum() + outside.sum())
    assert clip == pytest.approx(wanted, rel=0.02)
    if shape in ("normal", "outlier"):
        assert clip < magnitudes.max()


@pytest.mark.parametrize("shape", ["normal", "outlier"])
def test_the_divergence_is_the_least_of_the_candidates(shape: str) -> None:
    """Here the divergence is computed bin by bin, for about 12 of the candidates."""
    numbers = np.rint(SHAPES[shape](np.random.default_rng(2))).astype(np.float32) + np.float32(0.25)
    seen = statistics_of(numbers)
    assert seen.histogram is not None
    width, levels = seen.histogram.including_zero().width, 16
    centers = (np.floor(numbers / width) + 0.5) * width
    counts = np.bincount((np.abs(centers) / width).astype(int))

    def divergence(end: int) -> float:
        wanted = [float(n) for n in counts[:end]]
        wanted[-1] += counts[end:].sum()
        merged = [0.0] * end
        for level in range(min(levels, end)):
            bins = [
                b for b in range(end) if (b * levels // end if end > levels else b) == level and counts[b]
            ]
            for b in bins:
                merged[b] = counts[bins].sum() / len(bins)
        p, q = np.array(wanted) / sum(wanted), np.array(merged) / sum(merged)
        return float(sum(a * np.log(a / max(b, 1e-12)) for a, b in zip(p, q, strict=True) if a > 0))

    low, high = estimate_range(seen, "entropy", levels=levels)
    ends = np.unique(np.linspace(min(levels, counts.size), counts.size, 200).astype(int))
    best = min(ends[:: max(1, ends.size // 12)], key=divergence)
    chosen = round(max(-low, high) / width) if max(-low, high) < np.abs(numbers).max() else counts.size
    assert divergence(chosen) <= divergence(int(best)) + 1e-9
    for end in (levels, levels + 1, *ends[:: ends.size // 3]):
        assert _divergence(counts.astype(np.float64), int(end), levels) == pytest.approx(divergence(int(end)))


@pytest.mark.parametrize(
    ("name", "options", "is_allowed"),
    [
        ("moving_average", {"constant": 0.0}, True),
        ("moving_average", {"constant": 1.0}, True),
        ("moving_average", {"constant": 1.01}, False),
        ("moving_average", {"constant": -0.01}, False),
        ("moving_average", {"batch": 1}, True),
        ("moving_average", {"batch": 0}, False),
        ("ema", {"decay": 0.0}, True),
        ("ema", {"decay": -0.01}, False),
        ("ema", {"decay": 1.0}, False),
        ("sample_percentile", {"low": 0.0, "high": 100.0}, True),
        ("sample_percentile", {"low": -0.1}, False),
        ("sample_percentile", {"high": 100.1}, False),
        ("value_percentile", {"percent": 100.0}, True),
        ("value_percentile", {"percent": 100.1}, False),
        ("value_percentile", {"percent": 50.1}, True),
        ("value_percentile", {"percent": 50.0}, False),
        ("mse", {"bits": 1, "steps": 1}, True),
        ("mse", {"bits": 0}, False),
        ("mse", {"steps": 0}, False),
        ("octav", {"bits": 1, "steps": 1}, True),
        ("octav", {"bits": 0}, False),
        ("octav", {"steps": 0}, False),
        ("entropy", {"levels": 1}, True),
        ("entropy", {"levels": 0}, False),
    ],
)
def test_limits_of_options(
    name: str, options: dict[str, Any], is_allowed: bool, data: np.ndarray, seen: TensorStatistics
) -> None:
    if not is_allowed:
        with pytest.raises(UnsupportedError, match="expected a "):
            estimate_range(seen, name, **options)
        return
    low, high = estimate_range(seen, name, **options)
    assert data.min() <= low < 0 < high <= data.max()


def test_estimators_that_equal_a_plain_statistic(data: np.ndarray, seen: TensorStatistics) -> None:
    assert estimate_range(seen, "value_percentile", percent=100.0) == (data.min(), data.max())
    assert estimate_range(seen, "ema", decay=0.0) == (data[-1].min(), data[-1].max())
    means = estimate_range(seen, "mean_of_samples")
    assert means == pytest.approx((data.min(1).mean(), data.max(1).mean()), rel=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_percentiles_of_few_samples(count: int) -> None:
    numbers = np.random.default_rng(count).normal(size=count).astype(np.float32)
    for percent in (0.0, 0.5, 25.0, 50.0, 66.7, 99.5, 99.99999, 100.0):
        assert percentile(numbers.tolist(), percent) == pytest.approx(
            float(np.percentile(numbers, percent)), rel=1e-4, abs=1e-6
        )


def test_percentiles_of_more_numbers_than_float32_has_integers() -> None:
    """float32 rounds the largest index, 2**24 + 19, to 2**24 + 20."""
    assert percentile(np.zeros(2**24 + 20, np.float32), 99.99999) == 0.0  # type: ignore[arg-type]


def test_entropy_clips_what_is_rare(seen: TensorStatistics) -> None:
    low, high = estimate_range(seen, "entropy")
    assert -30 < low < -2.5
    assert 2.5 < high < 50


def test_the_margin_shrinks_with_the_number_of_observations() -> None:
    few, many = (TensorStatistics(-1.0, 3.0, count, minima=[-1.0], maxima=[3.0]) for count in (5, 4_000_001))
    assert estimate_range(few, "margin") == (-2.0, 4.0)  # (3 + 1) / (5 - 1) = 1 at each end
    assert estimate_range(many, "margin") == pytest.approx((-1.0, 3.0), abs=2e-6)
    for count in (1, 2):
        one = TensorStatistics(-1.0, 3.0, count, minima=[-1.0], maxima=[3.0])
        assert estimate_range(one, "margin") == (-5.0, 7.0)
    positive = TensorStatistics(0.0, 3.0, 5, minima=[0.0], maxima=[3.0])
    assert estimate_range(positive, "margin")[0] == 0.0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_ranges_of_equal_numbers_of_zeros_and_of_edited_limits(name: str) -> None:
    one = ck.calibrate(ck.parse(MODEL), [[np.full(1000, 2, np.float32)]], histograms=True)
    low, high = estimate_range(one["x"], name)
    assert low <= 2.0
    assert 0.0 <= high <= 2.01
    zero = ck.calibrate(ck.parse(MODEL), [[np.zeros(1000, np.float32)]] * 2, histograms=True)
    assert estimate_range(zero["x"], name) == (0.0, 0.0)
    one["x"].max = 7.0
    assert estimate_range(one["x"], name) == (2.0, 7.0)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_without_numbers_there_is_no_range(name: str) -> None:
    with pytest.raises(ModelError, match="no finite number was observed"):
        estimate_range(TensorStatistics(minima=[np.nan], maxima=[np.nan]), name)
    for low, high in ((1.0, None), (None, 1.0)):
        with pytest.raises(ModelError, match="no finite number was observed"):
            min_max(TensorStatistics(low, high))


@pytest.mark.parametrize("steps", [1, 2, 20])
def test_octav_clips_nothing_of_equal_numbers(steps: int) -> None:
    seen = statistics_of(np.full(7, 2.0, np.float32))
    low, high = estimate_range(seen, "octav", steps=steps)
    assert low == 0
    assert high == pytest.approx(2.0, rel=1e-3)


def test_unknown_estimators_wrong_options_and_missing_histograms_are_refused(seen: TensorStatistics) -> None:
    with pytest.raises(UnsupportedError, match="no range estimator is named 'mes'; did you mean mse"):
        estimate_range(seen, "mes")
    with pytest.raises(ModelError, match="expected the name of a range estimator, got int"):
        estimate_range(seen, 5)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="from 0 to 100, got 101"):
        estimate_range(seen, "sample_percentile", high=101)
    with pytest.raises(ModelError, match="expected a histogram, got none"):
        estimate_range(TensorStatistics(0.0, 1.0, minima=[0.0], maxima=[1.0]), "mse")


def test_no_range_is_written_if_a_tensor_has_no_finite_number() -> None:
    model = ck.parse("graph g(%x: f32[1]) -> %y {\n%k = const f32[] inf\n%y = Mul(%x, %k)\n}")
    calibration = ck.calibrate(model, [[np.ones(1, np.float32)]])
    with pytest.raises(ModelError, match="no finite number was observed"):
        record_ranges(model, calibration)
    assert [value.quantization for value in model.main.values()] == [None] * 3
