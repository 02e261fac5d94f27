# SPDX-License-Identifier: Apache-2.0
"""The search tries techniques on samples, keeps those that help, and says what it kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import circlekit as ck
from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.quant.calibration import TensorStatistics
from circlekit.quant.choose import Ranges
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import plan_model
from circlekit.quant.settings_search import SettingsSearch
from circlekit.quant.technique_search import TECHNIQUES, TechniqueSearch
from circlekit.quant.techniques.linear_layer import linear_layer
from circlekit.quant.techniques.noise import Outcome
from circlekit.quant.trials import Settings, with_margins
from tests.quant.techniques.uneven_net import samples, uneven

Array = NDArray[Any]


def repeated_samples() -> list[list[Array]]:
    """Return two samples, four times each, so that every quarter of them (each fourth sample) has both.

    Then no quarter has a number outside of the ranges of the others.
    """
    return [sample for sample in samples(2) for _ in range(4)]


def search(data: list[list[Array]]) -> tuple[TechniqueSearch, Plan]:
    def plan_of(model: Model, ranges: Ranges) -> Plan:
        return plan_model(model, "int8", ranges)

    auto = TechniqueSearch(uneven(), data, plan_of, DType.INT8)
    return auto, auto.run()


def test_auto_equalizes_uneven_channels_and_says_why() -> None:
    auto, plan = search(repeated_samples())
    assert any(note.startswith("kept: equalization") for note in auto.notes)
    assert any(note.startswith("layers: ") for note in auto.notes)
    assert all(tensor.reason for tensor in plan.main.tensors.values())


def test_plans_may_change_once_the_settings_are_known() -> None:
    """``before_rounding`` gets the equalized model and its ranges, and chooses operators to raise."""
    schemes: dict[str, str] = {}
    seen = []

    def plan_of(model: Model, ranges: Ranges) -> Plan:
        return plan_model(model, "int8", ranges, schemes)

    def choose(model: Model, ranges: Ranges) -> None:
        seen.append((model, ranges))
        schemes[model.main.ops[-1].results[0].name] = "float"

    auto = TechniqueSearch(uneven(), repeated_samples(), plan_of, DType.INT8, before_rounding=choose)
    plan = auto.run()
    ((model, ranges),) = seen
    assert model is auto.trials.equalized(1.0) is not auto.model
    assert [name for name, op in plan.main.operators.items() if op.is_float] == list(schemes)
    assert plan_model(model, "int8", ranges, schemes).main.tensors == plan.main.tensors


@pytest.mark.parametrize(
    ("noises", "kept"),
    [
        ({0.5: 0.1, 0.75: 0.1, 1.0: 0.1}, "equalization 0.5"),
        ({0.5: 0.1, 0.75: 0.1, 1.0: 0.01}, "equalization 1"),
        ({0.5: 1.0, 0.75: 1.0, 1.0: 1.0}, "no equalization"),
    ],
)
def test_a_greater_strength_must_be_better_than_a_smaller_one(
    noises: dict[float, float], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(search: SettingsSearch, settings: Settings) -> Outcome:
        return [[(1.0, noises.get(settings.strength, 1.0))]] * 6

    monkeypatch.setattr(SettingsSearch, "_corrected", outcome)
    report = ck.quantize(uneven(), "int8", samples=samples(6), without=["ranges"])
    assert any(note.startswith(f"kept: {kept}") for note in report.notes)


def test_raised_operators_are_chosen_by_plain_rules_if_no_trial_is_possible() -> None:
    text = """
    graph main(%x: f32[1,4]) -> %y {
      %h = VarHandle() {container: "", shared_name: "state"} : resource[]
      AssignVariable(%h, %x)
      %s = ReadVariable(%h) : f32[1,4]
      %a = Mul(%s, [1.5, -0.3, 20.0, 0.01])
      %y = Tanh(%a)
    }
    """
    data = [[np.linspace(-1, k + 1, 4, dtype=np.float32)[None]] for k in range(6)]
    report = ck.quantize(ck.parse(text), "int8", samples=data, budget="50%")
    assert any(note.startswith("plain rules: ") for note in report.notes)
    assert any(
        note.startswith("mixed precision: 1 of 2 quantized operators are raised") for note in report.notes
    )


def test_auto_keeps_plain_rules_if_nothing_can_be_held_back() -> None:
    auto, plan = search(samples(1))
    assert not plan.main.constants
    assert any("one sample" in note for note in auto.notes)


def test_the_search_counts_work_and_reads_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget pays for some trials, and notes name the others, although the clock runs very fast."""
    monkeypatch.setattr("time.monotonic", iter(range(0, 10**9, 1000)).__next__)
    report = ck.quantize(uneven(), "int8", samples=samples(6), seconds=0.25)
    assert any("the budget is spent" in note for note in report.notes)
    assert any("better" in note or "rejected" in note for note in report.notes)


def test_two_samples_are_enough_to_choose_the_rounding() -> None:
    auto, _ = search(samples(2))
    assert any(note.startswith("layers: ") for note in auto.notes)


def test_margins_widen_ranges_of_few_numbers() -> None:
    seen = {name: TensorStatistics(-1.0, 3.0, count) for name, count in (("few", 100), ("many", 10**6))}
    wider = with_margins({"few": (-1.0, 3.0), "many": (-1.0, 3.0)}, seen)
    factor = np.sqrt(np.log(400) / np.log(100))  # the largest of 400 numbers, four times as many as seen
    assert wider == {"few": pytest.approx((-factor, 3 * factor))}


def test_auto_leaves_models_with_state_to_plain_rules() -> None:
    text = """
    graph main(%x: f32[1,4]) -> %y {
      %w = const f32[3,4] gaussian(0, 1)
      %r = RandomUniform([1, 4]) : f32[1,4]
      %s = Add(%x, %r)
      %y = FullyConnected(%s, %w)
    }
    """
    data = [[np.full((1, 4), i, np.float32)] for i in range(4)]
    report = ck.quantize(ck.parse(text), "weight_int8", samples=data)
    assert any("keeps state" in note for note in report.notes)


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "weight_int4"])
def test_auto_lowers_the_error_and_gives_the_same_again(scheme: str) -> None:
    """The plan is made twice for weight_int4 only."""
    test = samples(8, seed=9)
    expected = [ck.run(uneven(), sample)[0] for sample in test]
    errors = []
    plans = []
    for auto in (False, True, *[True] * (scheme == "weight_int4")):
        model = uneven()
        plans.append(ck.quantize(model, scheme, samples=samples(6), auto=auto).plan.to_json())
        pairs = zip(test, expected, strict=True)
        errors.append(sum(np.square(ck.run(model, s)[0] - e).sum() for s, e in pairs))
    assert errors[1] < errors[0]
    assert scheme != "weight_int4" or plans[1] == plans[2]


def test_layers_with_infinite_weights_stay_float() -> None:
    model = uneven()
    layer = linear_layer(model.main.ops[0])
    assert layer is not None
    layer.weights.data = np.full(layer.weights.static_shape, np.inf, np.float32)
    report = ck.quantize(model, "int8", samples=samples(2))
    assert any("has no range" in op.reason for op in report.floats)


def test_custom_operators_stay_float() -> None:
    """The search runs custom operators; a plan cannot quantize a custom operator."""
    text = """
    graph main(%x: f32[4,8]) -> %y {
      %w = const f32[8,8] gaussian(0, 0.5)
      %a = FullyConnected(%x, %w)
      %y = Opaque(%a) {code: "CUSTOM", custom_code: "Erf"} : f32[4,8]
    }"""
    report = ck.quantize(ck.parse(text), "int8", [[np.ones((4, 8), np.float32)]] * 8)
    assert [op.code for op in report.floats] == ["CUSTOM"]
    planned = report.plan.main.operators
    planned["y"] = replace(planned["a"], code="CUSTOM", operands={0: report.plan.main.tensors["a"]})
    report.plan.main.tensors["y"] = report.plan.main.tensors["a"]
    with pytest.raises(ModelError, match="LiteRT has no custom Erf"):
        ck.quantize(ck.parse(text), plan=report.plan)


def test_techniques_can_be_left_out() -> None:
    """The notes name each technique that is tried, and none that is left out."""

    def notes(*without: str) -> str:
        return "\n".join(ck.quantize(uneven(), samples=samples(8), without=without).notes)

    everything = notes()
    for word, text in (("equalization", "equalization"), ("ranges", "ranges times"), ("gptq", "by GPTQ")):
        assert text in everything
        assert text not in notes(word).replace("by GPTQ with compensation", "")
    all_but_raising = [word for word in TECHNIQUES if word != "raising"]
    assert "by rounding," not in notes(*all_but_raising)
    with pytest.raises(UnsupportedError, match=r"without: expected some of rotation, .*, got 'gtpq'"):
        notes("gtpq")
