# SPDX-License-Identifier: Apache-2.0
"""The noise that each rounded constant and tensor adds: predicted against measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.interp.execution_plan import work_of
from circlekit.ir.clone import clone
from circlekit.quant.mixed import mixed_precision
from circlekit.quant.mixed.cone_runner import ConeRunner
from circlekit.quant.mixed.mixed_precision import measured_sensitivity, measured_sqnr
from circlekit.quant.mixed.sensitivity import Sensitivity, measure
from circlekit.quant.plan import GraphPlan, Plan
from circlekit.quant.quantize import plan_model, ranges_of
from tests.quant.mixed.example_models import SAMPLES, chain, planned, sqnr


def test_predicted_noise_is_that_of_the_quantized_model() -> None:
    """Noises of sources add up: the prediction is within 2 dB of a run of the quantized model."""
    model = chain(20.0)
    plan = planned(model)
    sensitivity = measure(model, plan, SAMPLES)
    predicted = -10 * np.log10(sensitivity.remaining([]))
    assert measured_sqnr(model, plan, SAMPLES) == pytest.approx(predicted, abs=2.0)
    assert sensitivity.remaining(list(model.main)) == 0.0


def test_noises_are_those_of_numpy_with_one_constant_or_tensor_rounded() -> None:
    """Round the weights of one layer, with max|row| / 127 as scales, or round one tensor to its grid."""
    model = chain(20.0)
    sensitivity = measure(model, plan := planned(model), SAMPLES)
    ops = list(model.main)
    weights = [op.inputs[1].array().astype(np.float64) for op in ops if op.inputs[1] is not None]

    def noise(layer: int | None = None, tensor: int | None = None) -> float:
        power = errors = 0.0
        for (x,) in SAMPLES:
            values = [x.astype(np.float64), x.astype(np.float64)]  # exact, rounded
            for index, w in enumerate([*weights, None]):
                if index == tensor:
                    form = plan.main.tensors[f"y{index}"]
                    integers = np.rint(values[1] / form.scale[0]) + form.zero_point[0]
                    values[1] = (np.clip(integers, -128, 127) - form.zero_point[0]) * form.scale[0]
                if w is not None:
                    scale = np.abs(w).max(axis=1, keepdims=True) / 127
                    rounded = np.rint(w / scale) * scale if index == layer else w
                    values = [values[0] @ w.T, values[1] @ rounded.T]
            power += float(np.square(values[0]).sum())
            errors += float(np.square(values[1] - values[0]).sum())
        return errors / power

    for index, op in enumerate(ops):
        assert sensitivity.constants[op] == pytest.approx(noise(layer=index), rel=0.01)
    tensors = [*model.main.inputs, *(op.output for op in ops)]
    assert [sensitivity.tensors[v] for v in tensors] == pytest.approx(
        [noise(tensor=index) for index in range(5)], rel=0.01
    )


def test_samples_may_be_infinite() -> None:
    """The results of layers are then NaN.  NaN does not count as noise, and numpy must not warn."""
    model = chain(20.0)
    plan = planned(model)
    (x,) = SAMPLES[0]
    assert set(measure(model, plan, [[np.full_like(x, np.inf)]]).constants.values()) == {0.0}


def test_the_worst_output_counts() -> None:
    """The last sample is 30 times as large as the others, and its %z 900 times: int8 rounds their %z to 0."""
    model = circlekit.parse("graph main(%x: f32[4,8]) -> %y, %z {\n  %y = Abs(%x)\n  %z = Mul(%x, %x)\n}")
    samples = [*SAMPLES[:3], [SAMPLES[3][0] * 30]]
    plan = plan_model(model, "int8", ranges_of(model, circlekit.calibrate(model, samples)))
    quantized = clone(model)
    circlekit.quantize(quantized, plan=plan)
    expected = min(sqnr(model, quantized, samples, index) for index in range(2))
    assert measured_sqnr(model, plan, samples) == pytest.approx(expected, abs=1e-6)


def test_outputs_count_alike_unless_they_have_reached_the_goal() -> None:
    """%y counts as much as %z, although it has less than a tenth of the relative noise.

    With a goal that %y reaches, only %z counts.
    ``alone``: the noises if the model has only this output.
    """
    model = circlekit.parse("""
    graph main(%x: f32[4,8]) -> %y, %z {
      %a = Relu(%x)
      %y = Add(%a, 500.0)
      %z = Mul(%a, %x)
    }
    """)
    plan = planned(model)
    both = measure(model, plan, SAMPLES).tensors
    alone = []
    for output in model.main.outputs:
        single = clone(model)
        single.main.outputs = [v for v in single.main.values() if v.name == output.name]
        alone.append({v.name: n for v, n in measure(single, plan, SAMPLES).tensors.items()})
    totals = [sum(noises.values()) for noises in alone]
    assert totals[0] < totals[1] / 10
    for value, noise in both.items():
        shares = [noises[value.name] / total for noises, total in zip(alone, totals, strict=True)]
        assert noise == pytest.approx(max(totals) * np.mean(shares))
    only_z = measure(model, plan, SAMPLES, goal=totals[1] / 2).tensors
    assert {v.name: n for v, n in only_z.items()} == pytest.approx(alone[1])
    below_goal = measure(model, plan, SAMPLES, goal=1.0).tensors
    assert below_goal == pytest.approx(both)  # no output has more noise than the goal: all count


@pytest.mark.parametrize(
    ("runs", "count"), [(0, 1), (0.99, 1), (1, 1), (1.99, 1), (2, 2), (3.5, 3), (100, 5)]
)
@pytest.mark.parametrize("target", [None, 30.0])
def test_noise_is_measured_on_as_many_samples_as_the_work_allows(
    runs: float, count: int, target: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample costs two runs of the model for each quantized operator: for its constants and its tensors."""
    text = "graph main(%x: f32[1,8]) -> %y, %z { %w = const f32[4,8] gaussian(0, 1)\n %y = "
    model = circlekit.parse(text + "FullyConnected(%x, %w)\n %z = Relu(%y)\n }")
    data = [[np.full((1, 8), n, np.float32)] for n in range(9)]
    plan = plan_model(model, "int8", ranges_of(model, circlekit.calibrate(model, data)))
    seen = []

    def measured(model: Any, plan: Plan, samples: Any, goal: float) -> Sensitivity:
        seen.append((len(samples), goal))
        return Sensitivity()

    monkeypatch.setattr(mixed_precision, "measure", measured)
    monkeypatch.setattr(mixed_precision, "MEASURED_SAMPLES", 5)
    work = 2 * 2 * sum(map(work_of, model.main))  # two runs for each of two operators
    monkeypatch.setattr(mixed_precision, "MEASURED_WORK", int(runs * work))
    measured_sensitivity(model, plan, data, target)
    assert seen == [(count, 0.0 if target is None else pytest.approx(1e-3))]
    empty = circlekit.parse("graph main(%x: f32[1]) -> %x { }")
    measured_sensitivity(empty, Plan("int8", [GraphPlan()]), data)  # counted as one multiply-accumulate
    assert seen[1] == (min(int(runs * work) or 1, 5), 0.0)


LSTM = """
graph main(%x: f32[1,3,2]) -> %y {
  %w = const f32[3,2] gaussian(0, 0.4)
  %r = const f32[3,3] gaussian(0, 0.4)
  %b = const f32[3] gaussian(0, 0.1)
  %hidden: f32[1,3] variable
  %cell: f32[1,3] variable
  %n = Neg(%x)
  %y = UnidirectionalSequenceLstm(%n, %w, %w, %w, %w, %r, %r, %r, %r, none, none, none,
      %b, %b, %b, %b, none, none, %hidden, %cell) {act: TANH}
}"""
RANDOM = """
graph main(%x: f32[1,3,2]) -> %y {
  %n = Neg(%x)
  %s = Shape(%n) {out_type: i32}
  %r = RandomUniform(%s) {seed: 1}
  %y = Add(%n, %r)
}"""


@pytest.mark.parametrize("text", [LSTM, RANDOM], ids=["LSTM", "random numbers"])
def test_operators_with_state_are_computed_from_the_initial_state(text: str) -> None:
    """If %n is changed to %k, the outputs are those for the input -%k."""
    model = circlekit.parse(text)
    x, k = (np.random.default_rng(seed).normal(size=(1, 3, 2)).astype(np.float32) for seed in (1, 2))
    runner = ConeRunner(model)
    for _ in range(2):
        (y,) = runner.run([x])
        np.testing.assert_array_equal(y, circlekit.run(model, [x])[0])
        (changed,) = runner.outputs({next(v for v in model.main.values() if v.name == "n"): k})
        np.testing.assert_array_equal(changed, circlekit.run(model, [-k])[0])


HALF_PRECISION = """
graph main(%x: f32[1,4,4,2]) -> %y {
  %h = const f16[3,1,1,2] [[[[1, 2]]], [[[3, 4]]], [[[5, 6]]]]
  %w = Dequantize(%h)
  %y = Conv2D(%x, %w) {padding: VALID, stride_h: 1, stride_w: 1}
}"""


def test_changed_weights_that_a_dequantize_makes_count() -> None:
    """The fast path of the convolution holds the weights before the change."""
    model = circlekit.parse(HALF_PRECISION)
    runner = ConeRunner(model)
    (y,) = runner.run([np.ones((1, 4, 4, 2), np.float32)])
    values = {v.name: v for v in model.main.values()}
    (changed,) = runner.outputs({values["w"]: 2 * runner.values[values["w"]]})
    np.testing.assert_array_equal(changed, 2 * y)
    (changed,) = runner.outputs({values["h"]: 2 * values["h"].array()})
    np.testing.assert_array_equal(changed, 2 * y)


def test_the_noise_before_and_in_an_lstm_counts() -> None:
    model = circlekit.parse(LSTM)
    samples = [[np.random.default_rng(seed).normal(size=(1, 3, 2)).astype(np.float32)] for seed in range(3)]
    plan = plan_model(model, "int8", ranges_of(model, circlekit.calibrate(model, samples)))
    found = measure(model, plan, samples)
    assert {op.code: noise > 0 for op, noise in found.constants.items()} == {
        "UNIDIRECTIONAL_SEQUENCE_LSTM": True
    }
    assert {value.name: noise > 0 for value, noise in found.tensors.items()} == {"n": True, "y": True}
    sqnr = measured_sqnr(model, plan, samples)
    assert sqnr == pytest.approx(-10 * np.log10(found.remaining([])), abs=3.0)
    assert measured_sqnr(model, plan, samples[::-1]) == pytest.approx(
        sqnr
    )  # each begins with the initial state
