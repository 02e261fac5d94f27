# SPDX-License-Identifier: Apache-2.0
"""Tiny models, many of which ONE's passes handle wrongly.

Each case runs the passes that it names, and O1, in both formats.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import circlekit
from circlekit.equivalence.litert import run_litert
from circlekit.equivalence.model_comparison import interface_of
from circlekit.ir.clone import clone
from circlekit.ir.text import print_model
from circlekit.ir.verifier import check
from circlekit.passes.engine.registry import all_passes
from tests.conftest import SHARED, without
from tests.passes.kit import assert_close
from tests.recorded_values import recorded

TRAPS = sorted(SHARED.glob("peer/traps/*/case.json"))

if not TRAPS:
    pytestmark = pytest.mark.skip(reason=without("peer/traps"))


@pytest.mark.parametrize("case", TRAPS, ids=lambda path: path.parent.name)
def test_pass_on_trap(case: Path, tmp_path: Path) -> None:
    folder, known = case.parent, json.loads(case.read_text())
    original = circlekit.load(next(folder.glob("model.*")))
    before = print_model(original)
    inputs, wanted = recorded(folder / "io.npz")
    assert_close(circlekit.run(original, inputs), wanted)
    named = [name for name in known["passes"] if name in all_passes()]
    runs: list[str | list[str]] = [*([named] if named else []), "O1"]
    for passes in runs:
        for format in ("circle", "tflite"):
            model = clone(original)
            report = circlekit.optimize(model, passes, format=format)
            if passes is named and must_fire(known):
                assert report.changes, known["expected"]
                assert print_model(model) != before
            check(model)
            assert interface_of(model) == interface_of(original)
            assert_close(circlekit.run(model, inputs), wanted)
            path = tmp_path / f"model.{format}"
            circlekit.save(model, path)
            assert_close(circlekit.run(circlekit.load(path), inputs), wanted)
            if format == original.format == "tflite":
                assert_close(run_litert(path.read_bytes(), inputs), wanted)
            if passes is named and is_refused(known):
                assert not report.changes, known["expected"]
                # for circle, operator versions that are too low are cleared
                assert print_model(model) == before or format == "circle"


PARTIAL_REWRITES = {
    "b10_instnorm_v2_div_relu": "the part up to the RELU becomes a norm with a fused RELU",
    "b10_instnorm_v3_gamma_along_h": "the norm is there, its factors stay a MUL",
    "b10_instnorm_v3_gamma_along_h_eq_c": "the norm is there, its factors stay a MUL",
    "b10_instnorm_v3_gamma_full_shape": "the norm is there, its factors stay a MUL",
    "b12_preact_add_relu_between": "the factors go into the next convolution, the offset stays an ADD",
    "b12_preact_conv_relu_before": "the factors go into the next convolution, the offset stays an ADD",
    "b12_preact_negative_gamma": "a convolution directly before takes any factor",
    "b12_preact_pad_between": "the factors go into the next convolution, the offset stays an ADD",
    "b13_fc_bmm_identity_transpose_square": "the Transpose stays",
    "b13_fc_bmm_input_identity_square": "the Transpose stays",
    "b13_fc_bmm_input_perm_102": "the Transpose stays",
}
"""Cases in which ONE's rewrite must be refused, but the pass may rewrite a smaller part of the model."""


def must_fire(known: dict[str, str]) -> bool:
    """Return whether a correct compiler must apply the pass."""
    expected = known["expected"]
    return expected.startswith("fire") and " or " not in expected and "only if" not in expected


def test_most_cases_are_strict() -> None:
    """Expected texts begin with ``fire`` (103), ``refuse`` (86) or ``keep`` (2).

    A text with the word ``or`` allows two results, so it is not strict.
    """
    known = [json.loads(case.read_text()) for case in TRAPS]
    assert len(known) == 191
    assert all(name in all_passes() for case in known for name in case["passes"])
    assert sum(map(must_fire, known)) > 60
    assert sum(map(is_refused, known)) > 55


def is_refused(known: dict[str, str]) -> bool:
    """Return whether a correct compiler must leave the model unchanged."""
    expected = known["expected"]
    return expected.startswith("refuse") and " or " not in expected and known["name"] not in PARTIAL_REWRITES
