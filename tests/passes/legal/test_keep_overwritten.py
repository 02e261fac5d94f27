# SPDX-License-Identifier: Apache-2.0
"""Values that LiteRT would overwrite before their last use are kept."""

from __future__ import annotations

import re
from collections.abc import Container

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.legal import keep_overwritten
from circlekit.targets.overwritten_values import Overwritten, overwritten_values
from circlekit.targets.planners import Planner
from tests.ops.litert import run_litert
from tests.passes.legal.for_formats import check

OVERWRITTEN = """
graph main(%a: f32[2,6]) -> {outputs} {{
  %n = Neg(%a)                       : f32[2,6]
  %v = {source}
  %w = Reshape(%v, [3,4])            : f32[3,4]
  {between}
  %s = Softmax(%w)                   : f32[3,4]
  %t = Reshape(%s, [2,6])            : f32[2,6]
  %y = Sub(%v, %t)
}}
"""


@pytest.mark.parametrize("source", ["Mul(%n, 3.0)", "Reshape(%n, [2,6])"])
def test_a_value_that_litert_would_overwrite_is_kept(source: str) -> None:
    """SOFTMAX works in place on a view; the planner does not count that %v is read later."""
    names = [source.partition("(")[0], "Reshape", "Softmax", "Reshape", "Reshape", "Sub"]
    check(OVERWRITTEN.format(source=source, between="", outputs="%y"), "tflite", ["Neg", *names])


def test_values_of_several_buffers_are_kept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first search finds all values; later searches find none."""
    counts = []

    def counted(graph: Graph, planner: Planner, settled: Container[Op]) -> list[Overwritten]:
        counts.append(len(found := overwritten_values(graph, planner, settled)))
        return found

    monkeypatch.setattr(keep_overwritten, "overwritten_values", counted)
    body = OVERWRITTEN.format(source="Mul(%n, 3.0)", between="", outputs="%y").strip().splitlines()[1:-1]
    lines = []
    for number, data in enumerate(["%a", "%y0", "%y1"]):
        # %n0 is the %n of the first copy of the body, and so on; each copy reads the %y of the one before
        lines += [re.sub(r"%([b-z])\b", rf"%\g<1>{number}", line).replace("%a", data) for line in body]
    kinds = ["Neg", "Mul", "Reshape", "Softmax", "Reshape", "Reshape", "Sub"]
    check("\n".join(["graph main(%a: f32[2,6]) -> %y2 {", *lines, "}"]), "tflite", kinds * 3)
    assert counts[0] == 3
    assert not any(counts[1:])


@pytest.mark.parametrize(("shape", "kept"), [("?,2", "Reshape"), ("?,?", "Transpose")])
def test_a_view_of_unknown_shape_that_litert_would_overwrite_is_kept(shape: str, kept: str) -> None:
    """A RESHAPE can state one unknown dimension; with two, SOFTMAX reads a copy, made by a TRANSPOSE."""
    model = parse_model(f"""
    graph main(%a: f32[{shape},4]) -> %y {{
      %n = Neg(%a)
      %v = ExpandDims(%n, 0)
      %w = Reshape(%v, [1,3,2,4])
      %s = Softmax(%w)
      %y = Mul(%v, %s)
    }}
    """)
    legal = legalize(model, "tflite")
    data = [np.linspace(-1, 2, 24, dtype=np.float32).reshape(3, 2, 4)]
    names = ["Softmax", kept] if kept == "Reshape" else [kept, "Softmax"]
    assert [type(op).__name__ for op in legal.main] == ["Neg", "ExpandDims", "Reshape", *names, "Mul"]
    np.testing.assert_array_equal(run(legal, data)[0], run(model, data)[0])
    np.testing.assert_allclose(run_litert(legal.main, data)[0], run(model, data)[0], atol=1e-6)


def test_an_operator_on_two_views_of_a_value_that_litert_would_overwrite_reads_one() -> None:
    text = """
    graph main(%a: f32[2,6]) -> %y {
      %n = Neg(%a)                       : f32[2,6]
      %v = Reshape(%n, [4,3])            : f32[4,3]
      %w = Reshape(%v, [3,4])            : f32[3,4]
      %x = Reshape(%v, [3,4])            : f32[3,4]
      %s = Add(%w, %x) {act: RELU6}      : f32[3,4]
      %t = Sum(%v, [0])                  : f32[3]
      %u = Sum(%s, [0, 1])               : f32[]
      %y = Sub(%t, %u)                   : f32[3]
    }
    """
    check(text, "tflite", ["Neg", "Reshape", "Reshape", "Reshape", "Add", "Reshape", "Sum", "Sum", "Sub"])


@pytest.mark.parametrize(
    ("source", "between", "outputs"),
    [
        # EXP does not work in place.  So %v is the first value of its buffer, and LiteRT counts its readers
        ("Exp(%n)", "", "%y"),
        # SOFTMAX and EXP read %w, and LiteRT counts the readers of the operand
        ("Mul(%n, 3.0)", "%u = Exp(%w)", "%y, %u"),
    ],
)
def test_a_value_that_litert_does_not_overwrite_stays(source: str, between: str, outputs: str) -> None:
    text = OVERWRITTEN.format(source=source, between=between, outputs=outputs)
    check(text, "tflite", [type(op).__name__ for op in parse_model(text).main])
