# SPDX-License-Identifier: Apache-2.0
"""An LSTM, also one with optional operands, becomes its steps; near misses stay."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.rewrite.base import Context
from tests.passes.kit import apply, check_pass, check_refusal

LSTM = """
graph main(%x: f32[{}]) -> %y {{
  %wi = const f32[3,2] uniform(-1, 1)
  %wf = const f32[3,2] uniform(-1, 1)
  %wc = const f32[3,2] uniform(-1, 1)
  %wo = const f32[3,2] uniform(-1, 1)
  %ri = const f32[3,3] uniform(-1, 1)
  %rf = const f32[3,3] uniform(-1, 1)
  %rc = const f32[3,3] uniform(-1, 1)
  %ro = const f32[3,3] uniform(-1, 1)
  %bi = const f32[3] uniform(-1, 1)
  %bf = const f32[3] uniform(-1, 1)
  %bc = const f32[3] uniform(-1, 1)
  %bo = const f32[3] uniform(-1, 1)
  %p = const f32[3] uniform(-1, 1)
  %h: f32[{},3] variable
  %c: f32[{},3] variable
  %y = UnidirectionalSequenceLstm(%x, {}, %wf, %wc, %wo, {}, %rf, %rc, %ro,
    none, {}, none, {}, %bf, %bc, %bo, none, none,
    %h, %c) {{{}}}
}}
"""


def lstm(
    shape: str, batch: int, attributes: str = "act: TANH", cifg: bool = False, peephole: str = "none"
) -> str:
    """Return an LSTM on an input of ``shape``.

    ``cifg``: the input gate is coupled to the forget gate.  ``peephole``: the cell_to_forget_weights.
    """
    gate = ("none", "none", "none") if cifg else ("%wi", "%ri", "%bi")
    return LSTM.format(shape, batch, batch, gate[0], gate[1], peephole, gate[2], attributes)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (lstm("2,1,2", 2), 10),
        (lstm("2,4,2", 2), 10 + 3 * 12),
        (lstm("4,2,2", 2, "act: TANH, time_major: true"), 10 + 3 * 12),
        (lstm("?,4,2", 3), 10 + 3 * 12),
        (lstm("4,?,2", 3, "act: TANH, time_major: true"), 10 + 3 * 12),
        (lstm("2,2,2", 2, "act: RELU, cell_clip: 0.25"), 12 + 14),
        (lstm("2,3,2", 2, cifg=True), 11 + 2 * 12),
    ],
)
def test_lstm_is_unrolled(text: str, count: int) -> None:
    """The first step, with the operators around the steps, takes 10 operators; each later step 12.

    A clipped cell takes 2 more in each step, a coupled input gate 1 more in the first step.
    """
    model = check_pass(text, "unroll_unidirseqlstm")
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in [op.code for op in model.main]
    assert len(model.main) == count


FULL = """
graph main(%x: f32[{shape}]) -> %y {{
  %wi = const f32[3,2] uniform(-1, 1)
  %wf = const f32[3,2] uniform(-1, 1)
  %wc = const f32[3,2] uniform(-1, 1)
  %wo = const f32[3,2] uniform(-1, 1)
  %ri = const f32[{recurrent}] uniform(-1, 1)
  %rf = const f32[{recurrent}] uniform(-1, 1)
  %rc = const f32[{recurrent}] uniform(-1, 1)
  %ro = const f32[{recurrent}] uniform(-1, 1)
  %bi = const f32[3] uniform(-1, 1)
  %bf = const f32[3] uniform(-1, 1)
  %bc = const f32[3] uniform(-1, 1)
  %bo = const f32[3] uniform(-1, 1)
  %pi = const f32[3] uniform(-1, 1)
  %pf = const f32[3] uniform(-1, 1)
  %po = const f32[3] uniform(-1, 1)
  %ni = const f32[3] uniform(0.5, 1)
  %nf = const f32[3] uniform(0.5, 1)
  %nc = const f32[3] uniform(0.5, 1)
  %no = const f32[3] uniform(0.5, 1)
  %wp = const f32[4,3] uniform(-1, 1)
  %bp = const f32[4] uniform(-1, 1)
  %h: f32[2,{outputs}] variable
  %c: f32[2,3] variable
  %y = UnidirectionalSequenceLstm(%x, %wi, %wf, %wc, %wo, %ri, %rf, %rc, %ro,
    {peephole}, %bi, %bf, %bc, %bo, {projection}, %h, %c{norm}) {{act: TANH{more}}}
}}
"""

PLAIN = {
    "shape": "2,3,2", "recurrent": "3,3", "outputs": "3",
    "peephole": "none, none, none", "projection": "none, none", "norm": "", "more": "",
}  # fmt: skip
PEEPHOLE = {"peephole": "%pi, %pf, %po"}
PROJECTION = {"projection": "%wp, none", "outputs": "4", "recurrent": "3,4"}
NORM = {"norm": ", %ni, %nf, %nc, %no"}
FORMS: dict[str, dict[str, str]] = {
    "peephole": PEEPHOLE,
    "projection": PROJECTION,
    "biased projection": {**PROJECTION, "projection": "%wp, %bp", "more": ", proj_clip: 0.3"},
    "normalized": NORM,
    "diagonal": {"recurrent": "3", "more": ", diagonal_recurrent_tensors: true"},
    "all": {
        **PEEPHOLE,
        **PROJECTION,
        **NORM,
        "projection": "%wp, %bp",
        "more": ", cell_clip: 0.4, proj_clip: 0.7",
    },
}


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_lstm_with_optional_operands_is_unrolled(form: str, time_major: bool) -> None:
    given = {**PLAIN, **FORMS[form], "shape": "3,2,2" if time_major else "2,3,2"}
    given["more"] += f", time_major: {str(time_major).lower()}"
    model = check_pass(FULL.format(**given), "unroll_unidirseqlstm")
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in [op.code for op in model.main]


STATE = "%h = const f32[2,3] uniform(0.5, 1)"
"""A state that does not start at zero."""


def test_a_constant_state_of_zeros_is_unrolled() -> None:
    text = lstm("2,2,2", 2).replace("%h: f32[2,3] variable", "%h = const f32[2,3] zeros")
    assert apply(parse_model(text), "unroll_unidirseqlstm", Context()) == 1


@pytest.mark.parametrize("time_major", [False, True])
def test_longest_sequence_that_is_unrolled(monkeypatch: pytest.MonkeyPatch, time_major: bool) -> None:
    monkeypatch.setattr("circlekit.passes.replace.unroll_unidirseqlstm.MAX_STEPS", 3)
    for steps, changes in ((3, 1), (4, 0)):
        shape = f"{steps},5,2" if time_major else f"5,{steps},2"
        text = lstm(shape, 5, f"act: TANH, time_major: {str(time_major).lower()}")
        assert apply(parse_model(text), "unroll_unidirseqlstm", Context()) == changes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (lstm("2,?,2", 2), "expected a known length and no empty dimension, got f32[2,?,2]"),
        (lstm("2,0,2", 2), "expected a known length and no empty dimension, got f32[2,0,2]"),
        (lstm("2,2,2", 2).replace("f32[2,2,2]", "f32[*]"), "expected an input of f32 and rank 3, got f32[*]"),
        (lstm("2,2", 2), "expected an input of f32 and rank 3, got f32[2,2]"),
        (lstm("2,2,2", 2).replace("f32[2,2,2]", "i8[2,2,2]"), "rank 3, got i8[2,2,2]"),
        (lstm("2,2,2", 2).replace("%wf = const f32", "%wf = const f16"), "%wf is not a constant of f32"),
        (lstm("2,2,2", 2).replace("%h: f32[2,3] variable", STATE), "%h does not start at zero"),
        (lstm("2,2,2", 2).replace("%bf, %bc", "none, %bc"), "has no forget_gate_bias"),
        (lstm("2,2,2", 2, "act: SIGN_BIT"), "act is SIGN_BIT, for which there is no operator"),
        (
            FULL.format(**PLAIN | {"norm": ", none, %nf"}),
            "has no input_layer_norm_coefficients",
        ),
        (FULL.format(**PLAIN | {"norm": ", %ni, %nf, none, %no"}), "has no cell_layer_norm_coefficients"),
        (
            lstm("2,2,2", 2, peephole="%q").replace("%x: f32[2,2,2]", "%x: f32[2,2,2], %q: f32[3]"),
            "cell_to_forget_weights %q is not a constant of f32",
        ),
    ],
)
def test_lstm_near_misses(text: str, sentence: str) -> None:
    check_refusal(text, "unroll_unidirseqlstm", sentence)
