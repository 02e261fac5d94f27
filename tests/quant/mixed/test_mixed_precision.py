# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: targets, budgets, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import circlekit
from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.ir.clone import clone
from circlekit.quant.mixed import mixed_precision
from circlekit.quant.mixed.mixed_precision import EXTRA_SQNR, raise_operators
from circlekit.quant.mixed.raising import Budget, choose_raised
from circlekit.quant.mixed.sensitivity import measure
from circlekit.quant.quantize import plan_model, ranges_of
from tests.quant.mixed.example_models import SAMPLES, chain, planned, random_samples, sqnr


def test_a_budget_is_spent_on_what_gains_most() -> None:
    model = chain(20.0)
    plan = planned(model)
    sensitivity = measure(model, plan, SAMPLES)
    ops = list(model.main)
    (raised,) = choose_raised(sensitivity, ops, budget=Budget.parse("25%"))
    alone = {op: sensitivity.remaining([op]) for op in ops}
    assert alone[raised] == min(alone.values())
    both = choose_raised(sensitivity, ops, budget=Budget.parse("50% macs"))
    assert len(both) == 2
    assert sensitivity.remaining(both) < alone[raised]


def test_a_target_is_reached_with_few_operators() -> None:
    model = chain(20.0)
    plain = clone(model)
    circlekit.quantize(plain, samples=SAMPLES, auto=False)
    base = sqnr(model, plain)
    raised = clone(model)
    report = circlekit.quantize(raised, samples=SAMPLES, auto=False, target_sqnr=base + 4)
    assert sqnr(model, raised) >= base + 4
    floats = [op for op in report.plan.main.operators.values() if op.is_float]
    assert 0 < len(floats) < 4
    counts = f"mixed precision: {len(floats)} of 4 quantized operators are raised"
    assert report.notes[0] == f"{counts}, {sqnr(model, raised):.1f} dB"


@pytest.mark.parametrize("auto", [False, True])
def test_int4_weights_are_raised_to_int8_for_a_target(auto: bool) -> None:
    weights = "".join(f"%w{i} = const f32[64,64] gaussian(0, 0.2)\n" for i in range(4))
    layers = "".join(f"%y{i + 1} = FullyConnected(%y{i}, %w{i})\n" for i in range(4))
    model = circlekit.parse(f"graph main(%y0: f32[1,64]) -> %y4 {{\n{weights}{layers}}}")
    samples = random_samples(1, 64)
    plain, raised = clone(model), clone(model)
    circlekit.quantize(plain, "weight_int4", samples=samples, auto=False)
    target = sqnr(model, plain, samples) + 2
    report = circlekit.quantize(
        raised, "weight_int4", samples=samples, target_sqnr=target, raise_to="weight_int8", auto=auto
    )
    schemes = [op.scheme for op in report.plan.main.operators.values()]
    assert 0 < schemes.count("weight_int8") < 4
    assert schemes.count("weight_int4") == 4 - schemes.count("weight_int8")
    assert sqnr(model, raised, samples) >= target


def test_a_target_that_is_missed_is_named() -> None:
    report = circlekit.quantize(chain(20.0), samples=SAMPLES, auto=False, target_sqnr=200.0, budget="25%")
    assert "the target of 200 dB is missed: no other operator gains within the budget" in report.notes


def test_the_goal_rises_by_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goal is the goal before, plus what the choice missed of the target, plus EXTRA_SQNR."""
    model, goals = chain(100.0), []
    names = [op.output.name for op in model.main]
    ranges = ranges_of(model, circlekit.calibrate(model, SAMPLES))

    def chosen(_sensitivity: Any, pool: list[Any], goal: float, *_: Any) -> list[Any]:
        goals.append(goal)
        return pool[: len(goals)]

    measured = iter([17.0, 19.0, 20.0])
    monkeypatch.setattr(mixed_precision, "measured_sqnr", lambda *_: next(measured))
    monkeypatch.setattr(mixed_precision, "choose_raised", chosen)
    raised = raise_operators(
        model, lambda o: plan_model(model, "int8", ranges, operators=o), SAMPLES, target_sqnr=20.0
    )
    assert goals == [20.0, 23.0 + EXTRA_SQNR, 24.0 + 2 * EXTRA_SQNR]
    assert list(raised.schemes) == names[:3]
    assert raised.sqnr == 20.0
    assert not any("missed" in note for note in raised.notes)


@pytest.mark.parametrize("text", ["20", "-1%", "120%", "20% watts", "x%"])
def test_a_text_that_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="expected 0% to 100% of one of operators, macs, bytes"):
        Budget.parse(text)


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"scheme": "int8"}, ModelError, "expected samples for mixed precision"),
        (
            {"scheme": "one_uint8", "samples": SAMPLES},
            UnsupportedError,
            "expected a scheme of LiteRT",
        ),
    ],
)
def test_mixed_precision_is_refused(
    options: dict[str, Any], kind: type[CirclekitError], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        circlekit.quantize(chain(1.0), target_sqnr=30.0, **options)
