# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: predicted noise against measured noise, targets, budgets, patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.interp.execution_plan import work_of
from circlekit.ir.clone import clone
from circlekit.quant.mixed import mixed_precision
from circlekit.quant.mixed.mixed_precision import (
    EXTRA_SQNR,
    MIN_PATTERN_GAIN,
    MIN_SQNR,
    measured_sensitivity,
    measured_sqnr,
    raise_operators,
    raise_patterns,
)
from circlekit.quant.mixed.patterns import find_patterns
from circlekit.quant.mixed.raised_outputs import last_operators
from circlekit.quant.mixed.raised_weights import RAISED_SHARE, raise_weights
from circlekit.quant.mixed.raising import Budget, choose_raised
from circlekit.quant.mixed.sensitivity import Sensitivity, measure
from circlekit.quant.plan import GraphPlan, Plan
from circlekit.quant.quantize import plan_model, ranges_of

SAMPLES = [[x] for x in np.random.default_rng(7).normal(size=(4, 4, 8)).astype(np.float32)]


def chain(spread: float) -> circlekit.Model:
    """Four fully connected layers; one column of the second has weights ``spread`` times as large."""
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(8, 8)).round(3) for _ in range(4)]
    weights[1][:, 0] *= spread
    lines = [
        f"  %y{i + 1} = FullyConnected(%y{i}, {w.tolist()}, {[0.0] * 8}) : f32[4,8]"
        for i, w in enumerate(weights)
    ]
    return circlekit.parse("graph main(%y0: f32[4,8]) -> %y4 {\n" + "\n".join(lines) + "\n}")


def planned(model: circlekit.Model) -> Plan:
    return plan_model(model, "int8", ranges_of(model, circlekit.calibrate(model, SAMPLES)))


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
    rng = np.random.default_rng(7)
    samples = [[rng.normal(size=(1, 64)).astype(np.float32)] for _ in range(4)]
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
    assert "the target of 200 dB is missed: the budget is spent" in report.notes


def sqnr(
    model: circlekit.Model, other: circlekit.Model, samples: list[Any] = SAMPLES, index: int = 0
) -> float:
    """Return the SQNR in dB of output ``index`` of ``other``, over all samples."""
    pairs = [(circlekit.run(model, x)[index], circlekit.run(other, x)[index]) for x in samples]
    signal = sum(float(np.square(a).sum()) for a, _ in pairs)
    return float(10 * np.log10(signal / sum(float(np.square(a - b).sum()) for a, b in pairs)))


def test_the_worst_output_counts() -> None:
    """The last sample is 30 times as large, so its %z is 900 times as large: int8 rounds other %z to 0."""
    model = circlekit.parse("graph main(%x: f32[4,8]) -> %y, %z {\n  %y = Abs(%x)\n  %z = Mul(%x, %x)\n}")
    samples = [*SAMPLES[:3], [SAMPLES[3][0] * 30]]
    plan = plan_model(model, "int8", ranges_of(model, circlekit.calibrate(model, samples)))
    quantized = clone(model)
    circlekit.quantize(quantized, plan=plan)
    expected = min(sqnr(model, quantized, samples, index) for index in range(2))
    assert measured_sqnr(model, plan, samples) == pytest.approx(expected, abs=1e-6)


def test_outputs_count_alike_unless_they_have_reached_the_goal() -> None:
    """%y has less than a tenth of the relative noise of %z, but counts as much.  With a goal only %z counts.

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


def spectrogram() -> circlekit.Model:
    """Layer, square, logarithm, layer: int8 has no numbers for small squares, whose logarithms are large."""
    rng = np.random.default_rng(7)
    first, last = rng.normal(size=(32, 64)).round(2).tolist(), rng.normal(size=(4, 32)).round(2).tolist()
    return circlekit.parse(f"""
graph main(%x: f32[1,64]) -> %z {{
  %a = FullyConnected(%x, {first}) : f32[1,32]
  %s = Square(%a) : f32[1,32]
  %p = Add(%s, 1.0e-7) : f32[1,32]
  %l = Log(%p) : f32[1,32]
  %z = FullyConnected(%l, {last}) : f32[1,4]
}}
""")


@pytest.mark.parametrize(
    ("name", "body", "raised"),
    [
        ("spectrogram front", "%s = Square(%x)\n%p = Sum(%s, [1])\n%l = Sqrt(%p)", "spl"),
        ("spectrogram front", "%s = Mul(%x, %x)\n%p = Sum(%s, [1])", "sp"),
        ("spectrogram front", "%a = Square(%x)\n%n = Neg(%x)\n%b = Square(%n)\n%p = Add(%a, %b)", "anbp"),
        ("spectrogram front", "%a = Mul(%x, %x)\n%n = Neg(%x)\n%b = Mul(%n, %n)\n%p = Add(%a, %b)", "anbp"),
        ("spectrogram front", "%o = Neg(%x)\n%p = Log(%o)\n%w = FullyConnected(%p, $w)\n%q = Neg(%w)", "op"),
        ("variance of a layer norm", "%d = SquaredDifference(%x, 1.0)\n%v = Mean(%d, [1])", "dv"),
        ("variance of a layer norm", "%c = Sub(%x, 1.0)\n%d = Square(%c)\n%v = Mean(%d, [1])", "cdv"),
        ("variance of a layer norm", "%c = Sub(%x, 1.0)\n%d = Mul(%c, %c)\n%v = Mean(%d, [1])", "cdv"),
        ("variance of a layer norm", "%a = Neg(%x)\n%r = Rsqrt(%a)\n%b = Neg(%r)", "r"),
        ("softmax", "%e = Exp(%x)\n%s = Sum(%e, [1]) {keep_dims: true}\n%z = Div(%e, %s)", "esz"),
        ("softmax", "%a = Neg(%x)\n%z = Softmax(%a)\n%b = Neg(%z)", "z"),
    ],
)
def test_patterns_and_what_is_raised_with_them(name: str, body: str, raised: str) -> None:
    """``raised``: the names of the results of the raised operators.

    With a spectrogram front, the operators before it are raised, and those after it up to the next weights.
    """
    output = body.splitlines()[-1].split()[0]
    text = f"graph main(%x: f32[2,8]) -> {output} {{\n{body.replace('$w', str([[1.0] * 8]))}\n}}"
    found = find_patterns(circlekit.parse(text).main)
    assert [(n, sorted(op.output.name for op in ops)) for n, ops in found] == [(name, sorted(raised))]


def test_patterns_that_lose_much_are_raised_without_being_asked() -> None:
    model = spectrogram()
    assert [(name, len(ops)) for name, ops in find_patterns(model.main)] == [("spectrogram front", 4)]
    rng = np.random.default_rng(7)
    samples = [[rng.normal(size=(1, 64)).astype(np.float32)] for _ in range(4)]
    ranges = ranges_of(model, circlekit.calibrate(model, samples))
    raised = raise_patterns(model, lambda o: plan_model(model, "int8", ranges, operators=o), samples)
    assert set(raised.schemes) == {"a", "p", "l"}  # SQUARE has no integer kernel
    assert raised.sqnr is not None
    assert raised.sqnr > 25
    assert "kept" in raised.notes[-1]


TWO_PATTERNS = """
graph main(%x: f32[2,8]) -> %m, %s {
  %r = Rsqrt(%x)
  %m = Mul(%r, %x)
  %s = Softmax(%x)
}"""


@pytest.mark.parametrize(
    ("measured", "kept", "last"),
    [
        ([MIN_SQNR[8]], "", 0),
        ([None], "", 0),
        ([2.0, 2.0 + MIN_PATTERN_GAIN, 2.0 + 2 * MIN_PATTERN_GAIN], "rs", 2),
        ([2.0, 2.0 + MIN_PATTERN_GAIN, 1.9 + 2 * MIN_PATTERN_GAIN], "r", 1),
        ([2.0, 1.9 + MIN_PATTERN_GAIN, 2.0 + MIN_PATTERN_GAIN], "s", 2),
        ([2.0, None, 1.9 + MIN_PATTERN_GAIN], "", 0),
    ],
)
def test_a_pattern_is_raised_if_it_gains_enough(
    measured: list[float | None], kept: str, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pattern must gain MIN_PATTERN_GAIN over the patterns that were kept before it.

    ``measured``: the SQNR without patterns, then with each pattern that is tried: Rsqrt (%r), Softmax (%s).
    ``kept``: the raised operators.  ``last``: the index of their SQNR in ``measured``.
    """
    model = circlekit.parse(TWO_PATTERNS)
    samples = [[np.full((2, 8), 2.0, np.float32)]]
    ranges = ranges_of(model, circlekit.calibrate(model, samples))
    results = iter(measured)
    monkeypatch.setattr(mixed_precision, "measured_sqnr", lambda *_: next(results))
    raised = raise_patterns(model, lambda o: plan_model(model, "int8", ranges, operators=o), samples)
    assert "".join(sorted(raised.schemes)) == kept
    assert raised.sqnr == measured[last]
    assert next(results, "none is left") == "none is left"
    assert len([note for note in raised.notes if note.endswith("kept")]) == len(kept)


def test_patterns_without_quantized_operators_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_precision, "measured_sqnr", None)
    model = circlekit.parse(TWO_PATTERNS)
    raised = raise_patterns(model, lambda o: plan_model(model, "float16", [], operators=o), [])
    assert (raised.schemes, raised.sqnr, raised.notes) == ({}, None, [])


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


def test_the_calibration_of_another_model_is_refused() -> None:
    other = spectrogram()
    calibration = circlekit.calibrate(other, [[np.ones((1, 64), np.float32)]])
    with pytest.raises(ModelError, match="got one with 0 of its 5 tensors"):
        circlekit.quantize(chain(1.0), calibration=calibration)


def test_a_small_softmax_before_a_float_output_is_computed_on_int16() -> None:
    """Probabilities near 1/8 take few steps of 1/256.

    The softmax stays int8 if the outputs are integers, or if the user gives ``operators``.
    """

    def quantized(**options: Any) -> tuple[str, float]:
        model = circlekit.parse(
            f"graph main(%x: f32[4,8]) -> %s {{\n"
            f"  %y = FullyConnected(%x, {weights}, {[0.0] * 8}) : f32[4,8]\n  %s = Softmax(%y) : f32[4,8]\n}}"
        )
        expected = [circlekit.run(model, sample)[0] for sample in SAMPLES]
        circlekit.quantize(model, "int8", samples=SAMPLES, **options)
        actual = [circlekit.run(model, sample)[0] for sample in SAMPLES]
        error = max(float(np.abs(a - b).max()) for a, b in zip(actual, expected, strict=True))
        (softmax,) = (op for op in model.main if op.code == "SOFTMAX")
        return softmax.output.dtype.short, error

    rng = np.random.default_rng(7)
    weights = (rng.normal(size=(8, 8)) / 30).round(3).tolist()
    raised, error = quantized()
    assert raised == "i16"
    kept, coarse_error = quantized(operators={"FULLY_CONNECTED": "int8"})
    assert kept == "i8"
    assert error < coarse_error / 2
    assert quantized(outputs="integer")[0] == "i8"
    assert quantized(budget="0%")[0] == "i16"  # a budget comes on top of what is raised anyway


def test_operators_with_weights_and_those_before_them_are_not_last() -> None:
    model = circlekit.parse(
        "graph main(%x: f32[2,8]) -> %t, %r, %y {\n"
        "  %b = Tanh(%x) : f32[2,8]\n"
        f"  %y = FullyConnected(%b, {np.eye(8).tolist()}, {[0.0] * 8}) : f32[2,8]\n"
        "  %s = Softmax(%y) : f32[2,8]\n  %t = Reshape(%s, [8, 2]) : f32[8,2]\n"
        "  %a = Tanh(%y) : f32[2,8]\n  %r = Relu(%a) : f32[2,8]\n}"
    )
    assert [op.code for op in last_operators(model.main)] == ["SOFTMAX", "RESHAPE", "TANH", "RELU"]


def three_layers(inputs: int) -> circlekit.Model:
    """Return fully connected layers from ``inputs`` to 32, to 1024 and to 32 channels."""
    return circlekit.parse(f"""
graph main(%x: f32[4,{inputs}]) -> %z {{
  %u = const f32[32,{inputs}] gaussian(0, 1)
  %v = const f32[1024,32] gaussian(0, 1)
  %w = const f32[32,1024] gaussian(0, 1)
  %a = FullyConnected(%x, %u)
  %b = FullyConnected(%a, %v)
  %z = FullyConnected(%b, %w)
}}""")


def test_the_layer_with_few_weights_stays_int8_in_place_of_int4() -> None:
    """The first layer has 256 of 65,792 weights, but much of the noise."""
    errors = []
    rounding = ["gptq", "gptq-with-compensation", "clipping"]  # they remove part of the same noise
    for without in ([], ["raising"]):
        model = three_layers(8)
        expected = [circlekit.run(model, sample)[0] for sample in SAMPLES]
        report = circlekit.quantize(model, "weight_int4", samples=SAMPLES, without=rounding + without)
        actual = [circlekit.run(model, sample)[0] for sample in SAMPLES]
        errors.append(sum(float(np.square(a - b).sum()) for a, b in zip(actual, expected, strict=True)))
        raised = {} if without else {"weight_int8": 1}
        assert report.schemes == {"weight_int4": 3 - len(raised), **raised}
        assert any("1 of 3 operators are int8" in note for note in report.notes) == bool(raised)
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize(("inputs", "count"), [(8, 1), (32, 0)])
def test_int8_weights_stay_within_their_share(inputs: int, count: int) -> None:
    """32 x 32 of 66,560 weights are 1.54 %, more than the limit of 1.5 %; 8 x 32 of 65,792 are 0.4 %.

    Without samples nothing is raised.
    """
    model = three_layers(inputs)
    rng = np.random.default_rng(7)
    samples = [[rng.normal(size=(4, inputs)).astype(np.float32)]]

    def make_plan(operators: Any) -> Plan:
        return plan_model(model, "weight_int4", [], operators=operators)

    assert len(raise_weights(model, make_plan, samples).schemes) == count
    assert raise_weights(model, make_plan, []).schemes == {}
    total = sum(value.numel for op in model.main for value in op.inputs if value and value.is_const)
    assert (32 * inputs <= RAISED_SHARE * total) == bool(count)


def test_the_note_counts_raised_layers_that_are_too_small_for_int8() -> None:
    """70 weights save 21 bytes as int4, with scales and a DEQUANTIZE, but none as int8: they become float."""
    model = circlekit.parse("""
graph main(%x: f32[8,35]) -> %z {
  %u = const f32[2,35] gaussian(0, 1)
  %v = const f32[80,2] gaussian(0, 1)
  %w = const f32[80,80] gaussian(0, 0.1)
  %a = FullyConnected(%x, %u)
  %b = FullyConnected(%a, %v)
  %z = FullyConnected(%b, %w)
}""")
    rng = np.random.default_rng(7)
    samples = [[rng.normal(size=(8, 35)).astype(np.float32)] for _ in range(4)]
    report = circlekit.quantize(model, "weight_int4", samples=samples)
    assert report.schemes == {"weight_int4": 1, "float": 2}
    notes = [note for note in report.notes if note.startswith("the weights of ")]
    assert [note.partition(":")[0] for note in notes] == [
        "the weights of 1 of 2 operators are float, too small for int8"
    ]


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


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "uint8"])
def test_patterns_are_not_tried_if_the_error_is_small(scheme: str) -> None:
    text = "graph main(%x: f32[4,8]) -> %y { %s = Softmax(%x)\n %y = Mul(%s, 2.0)\n }"
    model = circlekit.parse(text)
    ranges = ranges_of(model, circlekit.calibrate(model, SAMPLES))
    found = raise_patterns(model, lambda schemes: plan_model(model, scheme, ranges, schemes), SAMPLES)
    assert found.sqnr is not None
    assert found.sqnr > MIN_SQNR[16 if scheme == "int16x8" else 8]
    assert (found.schemes, found.notes) == ({}, [])
