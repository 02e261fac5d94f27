# SPDX-License-Identifier: Apache-2.0
"""Operators that are raised without a request of the user: the last ones, and some with int4 weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.quant.mixed.raised_outputs import last_operators
from circlekit.quant.mixed.raised_weights import RAISED_SHARE, raise_weights
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import plan_model
from tests.quant.mixed.example_models import SAMPLES, random_samples


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

    weights = (np.random.default_rng(7).normal(size=(8, 8)) / 10).round(3).tolist()
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
    samples = random_samples(4, inputs, count=1)

    def make_plan(operators: Any) -> Plan:
        return plan_model(model, "weight_int4", [], operators=operators)

    assert len(raise_weights(model, make_plan, samples).schemes) == count
    assert raise_weights(model, make_plan, []).schemes == {}
    total = sum(value.numel for op in model.main for value in op.inputs if value and value.is_const)
    assert (32 * inputs <= RAISED_SHARE * total) == bool(count)


def test_the_note_counts_raised_layers_that_are_too_small_for_int8() -> None:
    """With scales and a DEQUANTIZE, 70 weights save 21 bytes as int4 and none as int8: they become float."""
    model = circlekit.parse("""
graph main(%x: f32[8,35]) -> %z {
  %u = const f32[2,35] gaussian(0, 1)
  %v = const f32[80,2] gaussian(0, 1)
  %w = const f32[80,80] gaussian(0, 0.1)
  %a = FullyConnected(%x, %u)
  %b = FullyConnected(%a, %v)
  %z = FullyConnected(%b, %w)
}""")
    samples = random_samples(8, 35)
    report = circlekit.quantize(model, "weight_int4", samples=samples)
    assert report.schemes == {"weight_int4": 1, "float": 2}
    notes = [note for note in report.notes if note.startswith("the weights of ")]
    assert [note.partition(":")[0] for note in notes] == [
        "the weights of 1 of 2 operators are float, too small for int8"
    ]
