# SPDX-License-Identifier: Apache-2.0
"""Sweeps through the layers of a model: the errors, the rows that layers are fitted to, the plan kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import circlekit as ck
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType, f16, i8, u8
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant import rounding_choice
from circlekit.quant.apply import apply
from circlekit.quant.calibration import collect
from circlekit.quant.plan import Plan, TensorForm
from circlekit.quant.quantize import plan_model, ranges_of
from circlekit.quant.rounding_choice import best_rounding
from circlekit.quant.techniques import layer_sweep
from circlekit.quant.techniques.layer_rounding import LayerData, LayerFit, correct_bias, round_nearest
from circlekit.quant.techniques.layer_sweep import Sweep, _reason
from circlekit.quant.techniques.linear_layer import linear_layer
from circlekit.quant.techniques.noise import Outcome, decibels, powers

NET = """
graph main(%x: f32[1,6,6,3], %n: i32[1]) -> %y, %s, %g, %k {
  %w1 = const f32[8,3,3,3] gaussian(0, 0.3)
  %b1 = const f32[8] gaussian(0, 0.1)
  %a = Conv2D(%x, %w1, %b1) {act: RELU}
  %w2 = const f32[1,3,3,8] gaussian(0, 0.3)
  %b2 = const f32[8] gaussian(0, 0.1)
  %d = DepthwiseConv2D(%a, %w2, %b2)
  %s = Add(%d, %a)
  %r = Reshape(%s, [1, 288])
  %w3 = const f32[4,288] gaussian(0, 0.2)
  %b3 = const f32[4] gaussian(0, 0.2)
  %y = FullyConnected(%r, %w3, %b3)
  %g = Gather(%s, %n) {axis: 3}
  %k = Neg(%n)
}
"""
TECHNIQUES = {"bias correction": correct_bias, "rounding": round_nearest}


def samples(count: int) -> list[list[Array]]:
    random = np.random.default_rng(5)
    return [
        [random.normal(0, 1, (1, 6, 6, 3)).astype(np.float32), np.array([n], np.int32)] for n in range(count)
    ]


def planned(
    scheme: str, data: Sequence[Sequence[Array]], operators: dict[str, str] | None = None
) -> tuple[Model, Plan]:
    model = ck.parse(NET)
    return model, plan_model(model, scheme, ranges_of(model, collect(model, data)), operators)


@pytest.mark.parametrize("operators", [{}, {"a": "float"}, {"s": "float"}, {"a": "weight_int8"}])
@pytest.mark.parametrize(
    ("scheme", "tolerance"), [("int8", 0.4), ("int16x8", 0.1), ("weight_int4", 0.01), ("weight_int8", 0.01)]
)
def test_a_sweep_measures_the_error_of_the_quantized_model(
    scheme: str, tolerance: float, operators: dict[str, str]
) -> None:
    """With 0 to 2 techniques; the outputs of the float model are given, or computed by the sweep."""
    data = samples(4)
    for count, held, is_given in ((0, 0, True), (0, 1, False), (1, 1, False), (2, 2, True)):
        model, plan = planned(scheme, data, operators)
        reference = [ck.run(model, sample) for sample in data]
        techniques = dict(list(TECHNIQUES.items())[:count])
        sweep = Sweep(model, plan, data, held, techniques, reference if is_given else ())
        outcome = sweep.run()
        assert set(sweep._rounded) == {*model.main.outputs}  # the other tensors are forgotten
        quantized = clone(model)
        apply(quantized, plan)
        expected = [
            [powers(a, b) for a, b in zip(reference[n][:3], ck.run(quantized, data[n])[:3], strict=True)]
            for n in range(4 - held if held else 0, 4)
        ]
        assert np.shape(outcome) == np.shape(expected) == (held or 4, 3, 2)
        assert decibels(outcome) == pytest.approx(decibels(expected), abs=tolerance)
        np.testing.assert_allclose(np.array(outcome)[..., 0], np.array(expected)[..., 0], rtol=1e-4)


@pytest.mark.parametrize(
    ("least", "per_depth", "limits"),
    [
        (0, 0, {"a": 1, "d": 1, "y": 1}),
        (40, 0, {"a": 10, "d": 10, "y": 10}),
        (0, 2, {"a": 13, "d": 4, "y": 144}),
    ],
)
def test_layers_are_fitted_to_rows_of_all_samples(
    least: int, per_depth: int, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sample gives at most ``limits`` rows, evenly spaced; the rows of the last sample are held back.

    The limit is the largest of LEAST_ROW_LIMIT / samples, ROWS_PER_DEPTH * depth / samples and 1, rounded
    down.
    For 4 samples: 40 / 4 = 10; for the depths 27, 9, 288: 2 * 27 / 4 = 13, 2 * 9 / 4 = 4, 2 * 288 / 4 = 144.
    """
    monkeypatch.setattr(layer_sweep, "LEAST_ROW_LIMIT", least)
    monkeypatch.setattr(layer_sweep, "ROWS_PER_DEPTH", per_depth)
    seen: list[tuple[LayerData, Array]] = []

    def compared(sweep: Sweep, layer: object, data: LayerData, rows: Array) -> Any:
        seen.append((data, rows))
        return {}, {}

    monkeypatch.setattr(Sweep, "_compared", compared)
    data = samples(4)
    model, plan = planned("int8", data)
    Sweep(model, plan, data, 1, TECHNIQUES).run()
    shown = ck.parse(NET.replace("-> %y, %s, %g, %k", "-> %a, %d, %y, %r"))
    runs = [ck.run(shown, sample) for sample in data]
    inputs = {"a": [s[0] for s in data], "d": [r[0] for r in runs], "y": [r[3] for r in runs]}
    outputs = {name: [run[index] for run in runs] for index, name in enumerate("ady")}
    for (found, held), (name, limit) in zip(seen, limits.items(), strict=True):
        layer = linear_layer(next(op for op in model.main if op.output.name == name))
        assert layer is not None
        whole = [layer.rows(x, y.shape) for x, y in zip(inputs[name], outputs[name], strict=True)]
        total = whole[0].shape[1]
        step = -(-total // limit)
        chosen = [*np.split(found.float_rows, 3, axis=1), held[0]]
        assert all(total // step <= rows.shape[1] <= limit for rows in chosen)
        for rows, every in zip(chosen, whole, strict=True):
            starts = [np.array_equal(every[:, start::step], rows) for start in range(step)]
            assert sum(starts) == 1
        np.testing.assert_allclose(
            found.float_mean, np.mean([w.mean(axis=1) for w in whole[:3]], axis=0), atol=1e-5
        )


@pytest.mark.parametrize(
    ("form", "shared", "is_fittable"),
    [
        (TensorForm(i8, (0.1,), (0,)), "", True),
        (TensorForm(i8, (0.1, 0.2), (0, 1)), "", False),
        (TensorForm(u8, (0.1,), (128,)), "", False),
        (TensorForm(f16), "", False),
        (TensorForm(i8, (0.1,), (0,)), "w1", False),
        (TensorForm(i8, (0.1,), (0,)), "b1", False),
    ],
)
def test_layers_are_fitted_if_their_constants_may_change(
    form: TensorForm, shared: str, is_fittable: bool
) -> None:
    other = f"  %o = Neg(%{shared})\n}}" if shared else "}"
    model = ck.parse(NET.replace("\n}", f"\n{other}"))
    layer = linear_layer(model.main.ops[0])
    assert layer is not None
    assert Sweep(model, Plan("int8"), [], 0, TECHNIQUES)._is_fittable(layer, form) == is_fittable
    assert not Sweep(model, Plan("int8"), [], 0, {})._is_fittable(layer, form)


@pytest.mark.parametrize(
    ("noises", "best"),
    [
        ([[1.0] * 4, [0.5] * 4, [0.1] * 4], 2),
        ([[1.0] * 4, [0.1] * 4, [0.5] * 4], 1),
        ([[0.5] * 4, [1.0] * 4, [0.9] * 4], 0),
        ([[1.0] * 4, [1.0] * 4, [1.0] * 4], 0),
        ([[1.0] * 4, [1.1] * 4, [0.0001, 1.05, 1.05, 1.05]], 2),  # a gain of 2.3 dB +- 2.6 dB
    ],
)
def test_the_plan_with_the_smallest_error_is_kept(
    noises: list[list[float]], best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [Plan("int8"), Plan("int8"), Plan("int8")]
    left, held_counts = iter(zip(plans, noises, strict=True)), []

    class Stub:
        """A sweep with a known outcome."""

        choices: Sequence[object] = ()

        def __init__(self, model: object, plan: object, data: object, held: int, *_: object) -> None:
            self.plan, self.noises = next(left)
            held_counts.append(held)

        def run(self) -> Outcome:
            return [[(1.0, noise)] for noise in self.noises]

    monkeypatch.setattr(rounding_choice, "Sweep", Stub)
    plan, notes = best_rounding(ck.parse(NET), lambda: Plan("int8"), samples(9), [])
    assert plan is plans[best]
    assert len(notes) == (1 if best == 2 else 2)
    assert held_counts == [2, 2, 2]  # a quarter of 9 samples


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "weight_int8"])
def test_a_corrected_bias_is_near_the_bias(scheme: str) -> None:
    """Rounding changes the mean of each output, but by at most 0.2."""
    data = samples(4)
    model, plan = planned(scheme, data)
    Sweep(model, plan, data, 1, {"bias correction": correct_bias}).run()
    for op in model.main:
        layer = linear_layer(op)
        if layer is None or layer.bias is None or plan.main.operators[op.output.name].is_float:
            continue
        numbers = plan.main.constants[layer.bias.name]
        form = plan.main.operators[op.output.name].operands.get(2)
        bias = numbers if form is None else numbers * form.scales
        assert not np.array_equal(bias, layer.bias.array())
        np.testing.assert_allclose(bias, layer.bias.array(), atol=0.2)


@pytest.mark.parametrize(
    ("bias", "is_stored"), [(0.0, True), (np.nan, False), (np.inf, False), (1e30, False)]
)
def test_a_fit_with_a_bias_that_no_integer_stands_for_is_not_stored(bias: float, is_stored: bool) -> None:
    def fitted(data: LayerData) -> LayerFit:
        return LayerFit(np.zeros_like(data.weights), data.scale, np.full_like(data.bias, bias))

    data = samples(4)
    for count in (1, 2):
        model, plan = planned("int8", data)
        Sweep(model, plan, data, 1, dict.fromkeys(["one", "two"][:count], fitted)).run()
        assert bool(plan.main.constants) == is_stored


def test_the_reason_names_the_errors() -> None:
    errors = {"GPTQ": -20.04, "rounding": -15.0, "clipping": -1.26}
    assert _reason("GPTQ", {"GPTQ": -20.04}, 1) == "GPTQ: error -20.0 dB on held-back samples"
    assert _reason("GPTQ", {"GPTQ": -20.04}, 0) == "GPTQ: error -20.0 dB on all samples"
    others = "(rounding -15.0, clipping -1.3)"
    assert _reason("GPTQ", errors, 1) == f"GPTQ: error -20.0 dB on held-back samples {others}"


def test_no_technique_is_tried_if_the_squares_of_inputs_overflow() -> None:
    """Inputs are near 1e19, outputs near 1e16: in float32, only the squares of the inputs are infinite."""
    model = ck.parse(
        "graph main(%x: f32[64,64]) -> %y {\n"
        "  %w = const f32[64,64] gaussian(0, 0.0001)\n  %y = FullyConnected(%x, %w)\n}"
    )
    random = np.random.default_rng(2)
    data = [[random.normal(0, 1e19, (64, 64)).astype(np.float32)] for _ in range(4)]
    plan = plan_model(model, "weight_int8", [])
    sweep = Sweep(model, plan, data, 1, TECHNIQUES)
    sweep.run()
    assert sweep.choices == []
    assert plan.main.constants == {}


def test_layers_that_have_packed_weights_already_are_run_with_their_elements() -> None:
    model = ck.parse("""
    graph main(%x: f32[2,32]) -> %z {
      %w = const f32[4,32] gaussian(0, 1)
      %y = FullyConnected(%x, %w, none)
      %v = const f32[3,4] gaussian(0, 1)
      %z = FullyConnected(%y, %v, none)
    }""")
    random = np.random.default_rng(3)
    data = [[random.normal(0, 1, (2, 32)).astype(np.float32)] for _ in range(4)]
    ck.quantize(model, "weight_int4_block32")
    assert [op.inputs[1].dtype for op in model.main if op.inputs[1] is not None] == [
        DType.INT4,
        DType.FLOAT32,
    ]
    expected = ck.run(model, data[0])[0]
    packed = model.main.ops[0].inputs[1]
    ck.quantize(model, "int8", data)
    assert packed is not None
    assert packed.users == [model.main.ops[0]]  # not the copies of the layer that ran
    assert [op.code for op in model.main] == ["FULLY_CONNECTED", "QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"]
    np.testing.assert_allclose(ck.run(model, data[0])[0], expected, atol=0.02 * np.abs(expected).max())
