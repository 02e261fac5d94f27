# SPDX-License-Identifier: Apache-2.0
"""Which techniques are tried on each layer, and which plan is kept."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit as ck
from circlekit.quant.calibration import collect
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import plan_model, ranges_of
from circlekit.quant.rounding_choice import ROUNDING, best_rounding
from circlekit.quant.techniques.layer_rounding import LayerData, LayerFit, correct_bias, round_nearest
from circlekit.quant.techniques.layer_sweep import Sweep
from tests.quant.techniques.uneven_net import samples, uneven


def test_techniques_of_layers_are_dropped_if_the_outputs_are_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    def clear(layer: LayerData) -> LayerFit:
        return LayerFit(np.zeros_like(layer.weights), layer.scale, layer.bias)

    harmful = {"rounding": clear, "GPTQ": clear}
    alternatives = [
        ("nearest", {}),
        ("bias correction", {"bias correction": correct_bias}),
        ("harm", harmful),
    ]
    monkeypatch.setattr("circlekit.quant.rounding_choice.ALTERNATIVES", alternatives)
    model, data = uneven(), samples(4)
    ranges = ranges_of(model, collect(model, data))
    reference = [ck.run(model, sample) for sample in data]
    plan, notes = best_rounding(model, lambda: plan_model(model, "int8", ranges), data, reference)
    assert "is kept" in notes[-1]
    assert all(weights.any() for weights in plan.main.constants.values())


@pytest.mark.parametrize("kept", ["bias correction", "clipping"])
def test_techniques_that_are_left_out_are_not_tried(kept: str) -> None:
    model, data = uneven(), samples(4)
    ranges = ranges_of(model, collect(model, data))
    reference = [ck.run(model, sample) for sample in data]

    def make_plan() -> Plan:
        return plan_model(model, "int8", ranges)

    without = [name for name in ROUNDING if name not in ("rounding", kept)]
    _, notes = best_rounding(model, make_plan, data, reference, without)
    assert " by " in notes[0]
    assert not [name for name in without if f" by {name}" in notes[0]]


def test_the_notes_report_no_choice_if_one_technique_is_left() -> None:
    model, data = uneven(), samples(4)
    ranges = ranges_of(model, collect(model, data))
    reference = [ck.run(model, sample) for sample in data]
    without = [name for name in ROUNDING if name != "rounding"]
    _, notes = best_rounding(model, lambda: plan_model(model, "int8", ranges), data, reference, without)
    assert notes[0].startswith("layers: no technique chosen; ")


@pytest.mark.parametrize("count", [1, 2])
def test_techniques_are_compared_only_if_there_are_several(count: int) -> None:
    model, data = uneven(), samples(4)
    plan = plan_model(model, "int8", ranges_of(model, collect(model, data)))
    techniques = dict(list({"bias correction": correct_bias, "rounding": round_nearest}.items())[:count])
    sweep = Sweep(model, plan, data, 1, techniques)
    assert len(sweep.run()) == 1
    assert len(sweep.choices) == (0 if count == 1 else 3)
    assert len(plan.main.constants) > 0
