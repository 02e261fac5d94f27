# SPDX-License-Identifier: Apache-2.0
"""The choice of operators to raise: within the budget, no more than the target needs; and its notes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

import circlekit
from circlekit.ir.op import Op
from circlekit.quant.mixed import mixed_precision
from circlekit.quant.mixed.mixed_precision import Raised
from circlekit.quant.mixed.raising import COSTS, Budget, choose_raised
from circlekit.quant.mixed.sensitivity import measure
from circlekit.quant.plan import key_of
from tests.quant.mixed.example_models import SAMPLES, chain, planned, spectrogram


@pytest.mark.parametrize("unit", COSTS)
@pytest.mark.parametrize("share", [0.0, 0.24, 0.25, 0.5, 0.99, 1.0])
def test_a_budget_is_never_exceeded_and_spent_on_all_that_fits_and_helps(unit: str, share: float) -> None:
    model = chain(20.0)
    sensitivity, ops, cost = measure(model, planned(model), SAMPLES), list(model.main), COSTS[unit]
    raised = choose_raised(sensitivity, ops, budget=Budget(share, unit))
    limit = share * sum(map(cost, ops))
    spent = sum(map(cost, raised))
    assert spent <= limit
    left = sensitivity.remaining(raised)
    for op in set(ops) - set(raised):
        assert spent + cost(op) > limit or sensitivity.remaining([*raised, op]) >= left


@pytest.mark.parametrize("target", [-50.0, 5.0, 20.0, 30.0, 36.0, 40.0, 200.0])
def test_a_predicted_target_is_reached_with_no_operator_too_many(target: float) -> None:
    model = chain(20.0)
    sensitivity, ops = measure(model, planned(model), SAMPLES), list(model.main)
    raised = choose_raised(sensitivity, ops, target_sqnr=target)
    goal = 10 ** (-target / 10)
    assert sensitivity.remaining(raised) <= goal
    if raised:
        assert sensitivity.remaining([]) > goal
    for op in raised:
        assert sensitivity.remaining([other for other in raised if other is not op]) > goal
    with_budget = choose_raised(sensitivity, ops, target, Budget(0.25, "operators"))  # 1 of 4 operators
    assert len(with_budget) == min(len(raised), 1)


@pytest.mark.parametrize("target", [25.0, 60.0])
def test_the_notes_count_the_operators_of_a_pattern(target: float) -> None:
    model = spectrogram()
    samples = [[np.random.default_rng(seed).normal(size=(1, 64)).astype(np.float32)] for seed in range(4)]
    report = circlekit.quantize(model, samples=samples, auto=False, target_sqnr=target)
    raised = [name for name, op in report.plan.main.operators.items() if op.is_float]
    (note,) = (note for note in report.notes if note.startswith("spectrogram front"))
    pattern = r"spectrogram front: (\d) of 4 operators raised; all 4 make (\d+)% of the noise"
    found = re.fullmatch(pattern, note)
    assert found is not None
    assert 1 <= int(found[1]) <= len(raised)
    assert 50 < int(found[2]) <= 100, "a spectrogram makes most of the noise"


def test_the_notes_say_how_much_of_the_noise_a_pattern_makes() -> None:
    class Known:
        """A stand-in for Sensitivity: a quarter of the noise remains if any operators are raised."""

        def remaining(self, ops: Sequence[Op]) -> float:
            return 2.0 if ops else 8.0

    ops = spectrogram().main.ops
    result = Raised({key_of(op): "float" for op in ops[:1]})
    clusters = [("front", ops[:2]), ("rear", ops[2:])]
    _, note = mixed_precision._notes(Known(), clusters, result, 4)  # type: ignore[arg-type]
    assert note == "front: 1 of 2 operators raised; all 2 make 75% of the noise"
