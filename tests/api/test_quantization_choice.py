# SPDX-License-Identifier: Apache-2.0
"""Which arguments of ``quantize`` start a search, raise operators, and run samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.api import quantization_choice, quantizing
from circlekit.api.quantization_choice import QuantizationChoice
from circlekit.errors import ModelError
from circlekit.quant.mixed.mixed_precision import Raised
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import ranges_of
from circlekit.quant.scheme import SCHEMES
from circlekit.quant.technique_search import TechniqueSearch
from circlekit.targets.target import find_target

NET = """
graph main(%x: f32[1,8]) -> %y {
  %w = const f32[8,8] gaussian(0, 0.3)
  %b = const f32[8] gaussian(0, 0.3)
  %f = FullyConnected(%x, %w, %b)
  %y = Logistic(%f)
}
"""
# NET, but a FakeQuant rounds its input first
ROUNDED = NET.replace(
    "FullyConnected(%x,", "FullyConnected(%q,"
).replace("  %f", "  %q = FakeQuant(%x) {min: -2.0, max: 2.0, num_bits: 8}\n  %f")  # fmt: skip
SAMPLES = [[np.random.default_rng(seed).normal(size=(1, 8)).astype(np.float32)] for seed in range(4)]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that ran, in order; each is replaced by a function that notes its name.

    "ranges", "histograms": calibration, without or with histograms.  "patterns", "weights", "outputs": the
    function ``raise_patterns``, ``raise_weights`` or ``raise_outputs``, which raises operators although the
    user did not ask for that.  "search": techniques are tried.  "operators": mixed precision, for which the
    user asked.
    """
    ran: list[str] = []

    def raising(name: str, scheme: str = "") -> Callable[..., Raised]:
        """Return a step that raises %f to ``scheme``; it raises nothing if ``scheme`` is empty."""

        def step(*_: object, **__: object) -> Raised:
            ran.append(name)
            return Raised({"f": scheme} if scheme else {}, notes=[name])

        return step

    def search(self: TechniqueSearch) -> Plan:
        ran.append("search")
        ranges = self._plain_ranges()
        self.before_rounding(self.model, ranges)
        return self.plan_of(self.model, ranges)

    def collect(*arguments: Any, histograms: bool) -> circlekit.Calibration:
        ran.append("histograms" if histograms else "ranges")
        return circlekit.calibrate(*arguments, histograms=histograms)

    monkeypatch.setattr(quantization_choice, "raise_patterns", raising("patterns"))
    monkeypatch.setattr(quantization_choice, "raise_weights", raising("weights"))
    monkeypatch.setattr(quantization_choice, "raise_outputs", raising("outputs"))
    monkeypatch.setattr(quantizing, "raise_operators", raising("operators", "int16x8"))
    monkeypatch.setattr(quantization_choice, "collect", collect)
    monkeypatch.setattr(TechniqueSearch, "run", search)
    return ran


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "ranges patterns outputs search"),
        ({"estimator": "mse"}, "histograms patterns outputs search"),
        ({"inputs": "integer"}, "ranges patterns outputs search"),
        ({"outputs": "integer"}, "ranges patterns search"),
        ({"scheme": "int8_per_tensor"}, "ranges patterns search"),
        ({"scheme": "int16x8"}, "ranges patterns search"),
        ({"scheme": "weight_int4"}, "ranges weights search"),
        ({"scheme": "weight_int8"}, "search"),
        ({"scheme": "weight_int4_block32"}, "search"),
        ({"scheme": "dynamic_int8"}, "search"),
        ({"scheme": "float16"}, ""),
        ({"scheme": "one_uint8"}, "ranges"),
        ({"operators": {"f": "float"}}, "search"),
        ({"without": ["raising"]}, "search"),
        ({"without": ["rotation"]}, "ranges patterns outputs search"),
        ({"auto": False}, "ranges"),
        ({"seconds": 0.0}, "ranges"),
        ({"auto": False, "estimator": "mse"}, "histograms"),
        ({"target_sqnr": 30.0}, "ranges outputs search operators"),
        ({"budget": "20%", "outputs": "integer"}, "search operators"),
        ({"target_sqnr": 30.0, "auto": False}, "ranges operators"),
    ],
    ids=str,
)
def test_arguments_decide_which_steps_run_on_samples(
    steps: list[str], arguments: dict[str, Any], expected: str
) -> None:
    circlekit.quantize(circlekit.parse(NET), samples=SAMPLES, **arguments)
    assert " ".join(steps) == expected


@pytest.mark.parametrize("text", [NET, ROUNDED])
@pytest.mark.parametrize("has_samples", [False, True])
def test_with_a_calibration_only_mixed_precision_runs_samples(
    steps: list[str], text: str, has_samples: bool
) -> None:
    model = circlekit.parse(text)
    calibration = circlekit.calibrate(model, SAMPLES)
    arguments: dict[str, Any] = {"samples": SAMPLES if has_samples else None, "calibration": calibration}
    circlekit.quantize(model, **arguments)
    assert steps == []
    if has_samples:
        circlekit.quantize(circlekit.parse(text), target_sqnr=30.0, **arguments)
        assert steps == ["operators"]


def test_the_grid_of_a_fake_quant_prevents_search_and_raising(steps: list[str]) -> None:
    """Samples are not required; if given, they serve for calibration only."""
    circlekit.quantize(circlekit.parse(ROUNDED))
    assert steps == []
    circlekit.quantize(circlekit.parse(ROUNDED), samples=SAMPLES)
    assert steps == ["ranges"]


@pytest.mark.parametrize("scheme", ["int8", "weight_int8", "one_uint8"])
def test_only_integer_activations_of_circlekits_own_schemes_take_grids(scheme: str) -> None:
    """A FakeQuant whose grid is taken is removed."""
    model = circlekit.parse(ROUNDED)
    circlekit.quantize(model, scheme, samples=SAMPLES, auto=False)
    assert any(op.code == "FAKE_QUANT" for op in model.main) == (scheme != "int8")


@pytest.mark.parametrize("scheme", ["int8", "one_uint8"])
def test_integer_activations_need_ranges(scheme: str) -> None:
    with pytest.raises(ModelError, match=f"^{scheme} needs the ranges of activations: give samples or a"):
        circlekit.quantize(circlekit.parse(NET), scheme)
    with pytest.raises(ModelError, match=r"^int8 needs the ranges"):
        circlekit.quantize(circlekit.parse(NET), "dynamic_int8", operators={"y": "float", "f": "int8"})


def test_the_users_own_choice_comes_before_a_raised_scheme(steps: list[str]) -> None:
    for operators, scheme in (({}, "int16x8"), ({"f": "int8"}, "int8"), ({"y": "float"}, "int16x8")):
        report = circlekit.quantize(
            circlekit.parse(NET), samples=SAMPLES, operators=operators, target_sqnr=30.0, auto=False
        )
        assert report.plan.main.operators["f"].scheme == scheme


def test_the_interface_of_trials_is_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan that is kept has the interface for which the user asked."""
    plans: list[Plan] = []

    def check(model: circlekit.Model, make_plan: Callable[[dict[str, str]], Plan], *_: object) -> Raised:
        plan = make_plan({"f": "float"})
        plans.append(plan)
        assert (plan.inputs, plan.outputs) == (None, None)
        assert plan.main.operators["f"].is_float
        return Raised()

    monkeypatch.setattr(quantization_choice, "raise_patterns", check)
    model = circlekit.parse(NET)
    circlekit.quantize(model, "int16x8", SAMPLES, inputs="integer", outputs="integer", seconds=1e-9)
    assert plans
    assert [v.dtype.short for v in (*model.main.inputs, *model.main.outputs)] == ["i16", "i16"]


def test_raising_an_operator_that_is_named_like_a_class_raises_no_other() -> None:
    """TensorFlow names the first Relu of a model Relu."""
    plan = plan_with_raised({}, {"Relu": "int16x8"})
    assert plan == {"a": "int8", "Relu": "int16x8", "b": "int8", "Relu_1": "int8"}


def test_the_scheme_that_the_user_chose_for_a_raised_operator_counts() -> None:
    """Of the user's patterns, the last one that selects the operator counts, as without raised operators."""
    plan = plan_with_raised({"RELU": "int8", "Relu_1": "float"}, {"Relu_1": "int16x8", "a": "int16x8"})
    assert plan == {"a": "int16x8", "Relu": "int8", "b": "int8", "Relu_1": "float"}


def plan_with_raised(operators: dict[str, str], raised: dict[str, str]) -> dict[str, str]:
    """Return the scheme of each operator of a plan, by the name of its result."""
    model = circlekit.parse("""
        graph main(%x: f32[1,4]) -> %Relu_1 {
          %w = const f32[4,4] gaussian(0, 1)
          %a = FullyConnected(%x, %w)
          %Relu = Relu(%a)
          %b = FullyConnected(%Relu, %w)
          %Relu_1 = Relu(%b)
        }""")
    samples = [[np.random.default_rng(seed).normal(size=(1, 4)).astype(np.float32)] for seed in range(4)]
    choice = QuantizationChoice(
        SCHEMES["int8"], "min_max", operators, None, find_target("litert"), (None, None), given=()
    )
    ranges = ranges_of(model, circlekit.calibrate(model, samples))
    found = choice.plan(model, ranges, raised).main.operators
    return {name: op.scheme for name, op in found.items()}
