# SPDX-License-Identifier: Apache-2.0
"""Settings of the search: the ranges that they give, from which samples, and when they are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit as ck
from circlekit.ir.dtypes import DType
from circlekit.quant import settings_search
from circlekit.quant import trials as trials_module
from circlekit.quant.calibration import TensorStatistics, collect
from circlekit.quant.choose import Ranges
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import plan_model
from circlekit.quant.search_budget import WORK_PER_SECOND, SearchBudget
from circlekit.quant.settings_search import FEW_SAMPLES_DB, SEARCH_SHARE, Change, SettingsSearch
from circlekit.quant.techniques.equalization import channel_magnitudes
from circlekit.quant.techniques.noise import decibels
from circlekit.quant.trials import (
    FEW_NUMBERS,
    LARGEST_FLOAT32,
    PER_TENSOR,
    QUARTERS,
    Settings,
    Trials,
    estimated_ranges,
    widened,
    with_margins,
)

TEXT = """
graph main(%x: f32[1,4]) -> %z {
  %a = Relu(%x)
  %y = Neg(%a)
  %z = Reshape(%y, [4])
}
"""
SAMPLES = [[np.array([[-n, 0, n, 1]], np.float32)] for n in (1, 2, 3, 4, 50, 6)]
"""Sample i is in quarter i % 4: quarter 0 has the samples with 1 and 50."""


def trials(count: int = len(SAMPLES)) -> Trials:
    """Return trials on the first ``count`` samples."""

    def no_plan(model: ck.Model, ranges: Ranges) -> Plan:
        raise AssertionError("no plan is needed")

    return Trials(ck.parse(TEXT), no_plan, DType.INT8, "min_max", SAMPLES[:count], SAMPLES[:count], [{}, {}])


@pytest.mark.parametrize(("quarter", "largest"), [(0, 6), (1, 50), (QUARTERS, 50)])
def test_ranges_are_from_the_other_quarters(quarter: int, largest: float) -> None:
    """``quarter`` is left out; QUARTERS leaves out none."""
    ranges = trials().ranges(Settings(), quarter)
    assert ranges[0]["x"] == (-largest, largest)
    assert ranges[0]["a"] == (0, largest)


@pytest.mark.parametrize("quarter", [0, 1, QUARTERS])
@pytest.mark.parametrize("estimator", ["min_max", PER_TENSOR])
def test_a_single_sample_gives_its_own_ranges(estimator: str, quarter: int) -> None:
    ranges = trials(1).ranges(Settings(estimator=estimator), quarter)
    assert ranges[0]["x"] == (-1, 1)


def test_ranges_are_widened_and_get_margins() -> None:
    """Outputs, and what is moved to outputs, get no margin."""
    plain, made = trials().ranges(Settings(), QUARTERS)[0], trials()
    assert made.ranges(Settings(widening=0.5), QUARTERS)[0] == {
        name: (low / 2, high / 2) for name, (low, high) in plain.items()
    }
    wider = made.ranges(Settings(margin=True), QUARTERS)[0]
    assert {name for name, ends in wider.items() if ends != plain[name]} == {"x", "a"}
    factor = np.sqrt(np.log(4 * 24) / np.log(24))  # 6 samples of 4 numbers
    assert wider["x"] == pytest.approx((-50 * factor, 50 * factor))


def test_models_without_activations_in_integers_need_no_ranges() -> None:
    found = trials()
    found.activations = None
    assert found.ranges(Settings(), 0) == []


def test_ranges_stay_finite() -> None:
    assert widened((-1.0, 3.0), 2.0) == (-2.0, 6.0)
    assert widened((-LARGEST_FLOAT32, LARGEST_FLOAT32), 2.0) == (-LARGEST_FLOAT32, LARGEST_FLOAT32)


@pytest.mark.parametrize(
    ("count", "has_margin"), [(1, False), (2, True), (FEW_NUMBERS - 1, True), (FEW_NUMBERS, False)]
)
def test_tensors_with_few_numbers_get_margins(count: int, has_margin: bool) -> None:
    wider = with_margins({"x": (-1.0, 1.0)}, {"x": TensorStatistics(-1.0, 1.0, count)})
    assert ("x" in wider) == has_margin


def test_settings_are_described() -> None:
    assert str(Settings()) == "no equalization, ranges from minimum to maximum"
    every = Settings(0.5, "mse", 1.25, by_readers=True, margin=True)
    assert str(every) == (
        "equalization 0.5, ranges by mse, ranges times 1.25, ranges chosen for the readers, "
        "margins for small tensors"
    )


class Spent(SearchBudget):
    """A budget of 100 runs.  The share of the search for settings and ``extra`` further runs are spent."""

    def __init__(self, extra: float) -> None:
        super().__init__(100.0, WORK_PER_SECOND)
        self.spent = self.runs(SEARCH_SHARE) + extra


@pytest.mark.parametrize(("above", "is_kept"), [(0.0, False), (1e-6, True), (-1e-6, False)])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_a_setting_must_gain_more_than_the_least_gain_and_what_few_samples_cost(
    above: float, is_kept: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = 0.5 + FEW_SAMPLES_DB / count
    monkeypatch.setattr(settings_search, "paired_gain", lambda *_: needed + above)
    search = SettingsSearch(trials(), Spent(0), [])
    changes: list[Change] = [({"widening": 1.5}, 0.5), ({"margin": True}, 9.0)]
    best = search._best(Settings(), changes, lambda _: [[(1.0, 0.1)]] * count, "measured")
    assert best == (Settings(widening=1.5) if is_kept else Settings())
    first, second, third = search.notes
    assert first == f"{Settings()}: 10.00 dB measured"
    numbers = f"{needed + above:.2f} dB, needed above {needed:.2f} dB"
    assert second.endswith("better" if is_kept else f"rejected: gain minus standard errors {numbers}")
    assert third.endswith(f"needed above {9 + FEW_SAMPLES_DB / count:.2f} dB")


def test_no_setting_is_tried_once_the_part_of_the_budget_is_exceeded() -> None:
    ran = []

    def run(settings: Settings) -> list[list[tuple[float, float]]]:
        ran.append(settings)
        return [[(1.0, 0.1)]]

    search = SettingsSearch(trials(), Spent(1e-6), [])
    assert search._best(Settings(), [({"margin": True}, 0.0)], run, "measured") == Settings()
    assert ran == [Settings()]
    assert search.notes[1].endswith("not tried, the budget is spent")


@pytest.mark.parametrize("count", [1, 2])
def test_one_sample_is_too_few_for_a_search(count: int) -> None:
    made = trials()
    made.activations, made.tried = None, SAMPLES[:count]
    search = SettingsSearch(made, Spent(0), [])
    assert search.run() == Settings()
    assert any("only one sample" in note for note in search.notes) == (count == 1)


@pytest.mark.parametrize(
    ("dtype", "without", "kept"),
    [
        (DType.INT16, (), Settings(widening=2.0)),
        (DType.INT8, (), Settings(margin=True)),
        (DType.INT8, ("ranges",), Settings()),
    ],
)
@pytest.mark.parametrize("count", [1, 2, QUARTERS - 1])
def test_wider_ranges_are_the_default_also_if_samples_are_too_few_for_a_trial(
    dtype: DType, without: tuple[str, ...], kept: Settings, count: int
) -> None:
    made = trials(count)
    made.activations = dtype
    assert SettingsSearch(made, Spent(0), [], ("equalization", *without)).run() == kept


@pytest.mark.parametrize("estimator", ["min_max", "entropy"])
def test_histograms_are_made_for_the_estimators_that_read_them(
    estimator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def recording(*arguments: Any, histograms: bool) -> Any:
        made.append(histograms)
        return collect(*arguments, histograms=histograms)

    monkeypatch.setattr(trials_module, "collect", recording)
    (ranges,) = estimated_ranges(ck.parse(TEXT), SAMPLES, estimator, 8)
    assert ranges["x"][1] <= 50
    assert made == [estimator == "entropy"]


def test_equalization_is_measured_with_the_magnitudes_of_the_other_half() -> None:
    """Channel i % 4 is large in sample i, so each half of the samples has other large channels."""
    model = ck.parse("""graph main(%x: f32[1,4]) -> %y {
      %w = const f32[4,4] [1, 0, 0, 0,  0, 1, 0, 0,  0, 0, 1, 0,  0, 0, 0, 1]
      %h = FullyConnected(%x, %w) {act: RELU}
      %v = const f32[2,4] uniform(0.5, 1)
      %y = FullyConnected(%h, %v) : f32[1,2]
    }""")
    samples = [[np.full((1, 4), 0.01, np.float32)] for _ in range(8)]
    for index, (array,) in enumerate(samples):
        array[0, index % 4] = 10.0
    halves = [channel_magnitudes(collect(model, samples[half::2], channels=True)) for half in range(2)]

    def plan_of(changed: ck.Model, ranges: Ranges) -> Plan:
        return plan_model(changed, "int8", ranges)

    made = Trials(model, plan_of, DType.INT8, "min_max", samples, samples, halves)
    search = SettingsSearch(made, SearchBudget.of(model, 60.0), [], without=["ranges"])
    assert made.all_magnitudes()["h"].tolist() == [10.0] * 4
    for half in range(2):
        weights = made.equalized_without(1.0, half).main.ops[0].inputs[1]
        assert weights is not None
        factors = np.diag(weights.array())
        # the channels that are large in the other half are made smaller than those of this half
        assert (factors[1 - half :: 2] < factors[half::2]).all()
    plain, equalized = (search._corrected(Settings(strength=strength)) for strength in (0.0, 1.0))
    assert len(plain) == len(samples)
    assert decibels(equalized) < decibels(plain) - 10
