# SPDX-License-Identifier: Apache-2.0
"""How many samples the search for the best settings can afford, and what it spends."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit as ck
from circlekit.ir.value import Array
from circlekit.quant import technique_search
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import plan_model
from circlekit.quant.search_budget import CORRECTING_RUNS, OPERATOR_WORK, WORK_PER_SECOND, SearchBudget
from circlekit.quant.technique_search import LEAST_SAMPLES, TechniqueSearch
from circlekit.quant.techniques.layer_sweep import stream_bytes

NET = "graph main(%x: f32[1,8]) -> %y { %w = const f32[4,8] gaussian(0, 1)\n %y = FullyConnected(%x, %w)\n }"


def samples(count: int) -> list[list[Array]]:
    return [[np.full((1, 8), n, np.float32)] for n in range(count)]


@pytest.mark.parametrize(
    ("runs", "bytes_of", "given", "count"),
    [
        (7.5, 1e9, 20, 7),
        (7.5, 6.5, 20, 6),  # the memory allows fewer
        (7.5, 1e9, 6, 6),
        (0.0, 1e9, 20, LEAST_SAMPLES),
        (7.5, 0.5, 20, LEAST_SAMPLES),
        (0.0, 1e9, 2, 2),
        (1e9, 1e9, 20, 20),
    ],
)
def test_samples_that_are_affordable(
    runs: float, bytes_of: float, given: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``runs``, ``bytes_of``: how many samples the budget and the memory are enough for."""
    model = ck.parse(NET)
    monkeypatch.setattr(technique_search, "LARGEST_STREAM_BYTES", bytes_of * stream_bytes(model))
    monkeypatch.setattr(SearchBudget, "runs", lambda budget, part: runs * CORRECTING_RUNS * part / 0.5)
    assert TechniqueSearch(model, samples(given), lambda *_: Plan("x"), None)._affordable(0.5) == count


def test_a_budget_is_counted_in_runs() -> None:
    """A run costs the products of the layer, 4 * 8 = 32, and OPERATOR_WORK for each operator."""
    budget = SearchBudget.of(ck.parse(NET), 3.0)
    assert budget.runs() == pytest.approx(3 * WORK_PER_SECOND / (32 + OPERATOR_WORK), rel=1e-4)
    assert budget.runs(0.25) == pytest.approx(budget.runs() / 4)
    assert budget.spent == 0


@pytest.mark.parametrize("count", [6, 12])
def test_a_search_spends_in_proportion_to_its_samples(count: int) -> None:
    """Each step costs some runs for each sample.

    The search for rotations is left out: it costs the same for any number of samples.
    """
    spent = []
    for given in (count, 2 * count):
        search = TechniqueSearch(
            ck.parse(NET),
            samples(given),
            lambda model, ranges: plan_model(model, "weight_int8", ranges),
            None,
            seconds=1e9,
            without=["rotation"],
        )
        search.run()
        spent.append(search._budget.spent)
    assert spent[1] == 2 * spent[0] > 0
