# SPDX-License-Identifier: Apache-2.0
"""Legalize a model for a format, and check values, interface and, for TFLite, the values of LiteRT."""

from __future__ import annotations

from circlekit.interp.interpreter import run
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from tests.ops.litert import run_litert
from tests.passes.kit import KINDS, assert_close, interface_of, make_input, verify


def check(text: str, format: str, ops: list[str]) -> Model:
    """Return the legalized model of ``text``; it must have ``ops``, and the values of the original."""
    model = parse_model(text)
    before = clone(model)
    lowered = legalize(model, format)
    assert difference(model, before) is None
    verify(lowered)
    assert [type(op).__name__ for op in lowered.main] == ops
    assert interface_of(lowered) == interface_of(model)
    assert [v.name for v in lowered.main.outputs] == [v.name for v in model.main.outputs]
    for kind in KINDS:
        inputs = [make_input(v, kind) for v in model.main.inputs]
        wanted = run(model, inputs)
        assert_close(run(lowered, inputs), wanted, f"{kind} inputs")
        if format == "tflite":
            assert_close(run_litert(lowered.main, inputs), wanted, f"{kind} inputs in LiteRT")
    again = legalize(lowered, format)
    assert difference(again, lowered) is None
    return lowered
