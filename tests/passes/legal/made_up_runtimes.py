# SPDX-License-Identifier: Apache-2.0
"""Runtimes that are made up: they have all operators but those that a test takes away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from circlekit.interp.interpreter import run
from circlekit.ir.declaration import DECLARATIONS
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from circlekit.targets.target import Target
from tests.passes.kit import KINDS, assert_close, interface_of, make_input, verify

ANY: Mapping[str, Any] = {"version": 99, "forms": "any"}

NO_ACTIVATION: Mapping[str, Any] = {"values": {"act": ["NONE"]}}


def runtime(
    lacks: str = "", forms: Mapping[str, Mapping[str, Any]] | None = None, name: str = "bare"
) -> Target:
    """Return a runtime that has all operators except those named in ``lacks``, separated by spaces.

    ``forms``: {operator: the forms in which the runtime has it}; it has all other operators in any form.
    """
    operators = {code: ANY for code in DECLARATIONS if code not in lacks.split()}
    limited = {code: {"version": 99, "forms": kinds} for code, kinds in (forms or {}).items()}
    return Target(name, name, "1", "made up", frozenset({"circle"}), {**operators, **limited})


def check(body: str, target: Target, ops: str, outputs: str = "%y", shape: str = "1,8,6,4") -> Model:
    """Legalize a model for ``target``, check the result, and return it.

    ``ops``: the classes of its operators, in order.  The interface and the values stay, and a second run
    changes nothing.  If the model changed, the target takes all operators of the result.  The same operators
    result if the model states [] for the shapes of results, as old files do.
    """
    model = parse_model(f"graph main(%x: f32[{shape}]) -> {outputs} {{\n{body}\n}}")
    legal = legalize(model, "circle", targets=[target])
    verify(legal)
    assert [type(op).__name__ for op in legal.main] == ops.split()
    assert interface_of(legal) == interface_of(model)
    for kind in KINDS:
        inputs = [make_input(value, kind) for value in model.main.inputs]
        assert_close(run(legal, inputs), run(model, inputs), f"{kind} inputs")
    if difference(legal, model) is not None:
        assert not [sentence for op in legal.main if (sentence := target.refusal(op))]
    assert difference(legalize(legal, "circle", targets=[target]), legal) is None
    for value in (value for op in model.main for value in op.results):
        value.shape = ()
    assert [type(op).__name__ for op in legalize(model, "circle", targets=[target]).main] == ops.split()
    return legal
