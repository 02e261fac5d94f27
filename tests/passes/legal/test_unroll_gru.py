# SPDX-License-Identifier: Apache-2.0
"""A GRU becomes its steps."""

from __future__ import annotations

import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from tests.ops.litert import run_litert
from tests.passes.kit import assert_close, make_input
from tests.passes.legal.made_up_runtimes import check, runtime

GRU = """
    %hh = const f32[9,2] gaussian(0, 0.4)
    %hb = const f32[9] gaussian(0, 0.1)
    %hi = const f32[9,3] gaussian(0, 0.4)
    %ib = const f32[9] gaussian(0, 0.1)
    %s = const f32[2,3] gaussian(0, 1)
    %y = Gru(%x, %hh, %hb, %hi, %ib, %s) {return_sequences: false, time_major: true}
"""

STEP = "FullyConnected Split Split Add Logistic Add Logistic Mul Add Tanh Mul Sub Mul Add"


def test_gru_is_unrolled() -> None:
    head = "Reshape FullyConnected Reshape Unpack Reshape"
    check(GRU, runtime("GRU"), f"{head} {STEP} {STEP} {STEP} Reshape", shape="3,2,2")
    check(GRU, runtime(), "Gru", shape="3,2,2")


def test_gru_with_inputs_of_size_0_stays() -> None:
    text = GRU.replace("f32[9,2] gaussian(0, 0.4)", "f32[9,0] []")
    check(text, runtime("GRU"), "Gru", shape="3,2,0")


def test_gru_with_a_bias_of_another_size_stays() -> None:
    model = parse_model(f"graph main(%x: f32[3,2,2]) -> %y {{ {GRU} }}")
    bias = next(op for op in model.main if op.code == "GRU").inputs[2]
    assert bias is not None
    bias.shape, bias.data = (8,), bias.array()[:8]  # as in a damaged file: the shape rule refuses it
    assert difference(legalize(model, "circle", targets=[runtime("GRU")]), model) is None


def test_gru_with_a_bias_of_integers_stays() -> None:
    text = GRU.replace("%hb = const f32[9] gaussian(0, 0.1)", "%hb = const i32[9] ones")
    model = parse_model(f"graph main(%x: f32[3,2,2]) -> %y {{ {text} }}")
    assert difference(legalize(model, "circle", targets=[runtime("GRU")]), model) is None


def test_gru_with_a_state_without_axes_stays() -> None:
    model = parse_model(f"graph main(%x: f32[3,1,2]) -> %y {{ {GRU.replace('f32[2,3] g', 'f32[1,3] g')} }}")
    (gru,) = model.main
    state = gru.inputs[5]
    assert state is not None
    state.shape, state.data = (), state.array()[0, 0]  # as in a damaged file
    gru.output.shape = ()
    assert difference(legalize(model, "circle", targets=[runtime("GRU")]), model) is None


@pytest.mark.parametrize("attribute", ["return_sequences: true", "return_sequences: false, act: TANH"])
def test_other_forms_of_gru_stay(attribute: str) -> None:
    text = GRU.replace("return_sequences: false", attribute).replace("%y = Gru", "%z = Gru")
    result = ": f32[3,2,3]" if "true" in attribute else ""
    model = parse_model(f"graph main(%x: f32[3,2,2]) -> %z {{ {text} {result} }}")
    assert difference(legalize(model, "circle", targets=[runtime("GRU")]), model) is None


@pytest.mark.parametrize("bias", ["%hb", "none"])
def test_gru_runs_in_litert(bias: str) -> None:
    model = parse_model("graph main(%x: f32[3,2,2]) -> %y {" + GRU.replace("%hb, %hi", f"{bias}, %hi") + "}")
    legal = legalize(model, "tflite")
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    assert_close(run_litert(legal.main, inputs), run(model, inputs), "LiteRT")
