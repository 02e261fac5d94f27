# SPDX-License-Identifier: Apache-2.0
"""Values that a runtime overwrites before their last use: which are found, and who reads them."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.ir.graph import Graph
from circlekit.targets.overwritten_values import overwritten_values
from circlekit.targets.planners import LITERT, PLANNERS


def graph_with(lines: str) -> Graph:
    """Return a graph in which %r is a view of %a, and %s a view of %r; ``lines`` follow."""
    return circlekit.parse(f"""
graph main(%x: f32[2,3], %v: f32[6]) -> %y, %z {{
  %a = Exp(%x)
  %r = Reshape(%a, [6])
  %s = Reshape(%r, [3, 2])
{lines}
}}""").main


def test_later_readers_of_other_views_are_found_in_order() -> None:
    graph = graph_with("%b = Add(%s, 1.0)\n%n = Neg(%r)\n%m = Mul(%r, %r)\n%y = Sub(%m, %n)\n%z = Neg(%b)")
    (found,) = overwritten_values(graph, LITERT)
    assert (found.writer.output.name, found.operand.name) == ("b", "s")
    readers = [(op.output.name, index) for op, index in found.readers]
    assert readers == [("n", 0), ("m", 0), ("m", 1)]
    assert [value.name for value in found.same_data] == ["a", "r", "s"]
    assert overwritten_values(graph, LITERT, {found.writer}) == []
    assert overwritten_values(graph, PLANNERS["tflm"]) == []


@pytest.mark.parametrize(
    "lines",
    [
        "%b = Add(%a, 1.0)\n%y = Neg(%s)\n%z = Neg(%b)",  # %a has two readers, so %b has a buffer of its own
        "%p = Reshape(%a, [1, 6])\n%b = Add(%s, 1.0)\n%w = Neg(%r)\n%y = Sub(%w, %p)\n%z = Neg(%b)",
        "%y = Neg(%r)\n%b = Add(%s, 1.0)\n%z = Neg(%b)",  # nothing is read later
        "%b = Maximum(%s, 1.0)\n%y = Neg(%r)\n%z = Neg(%b)",  # MAXIMUM has a buffer of its own
        "%b = Add(%s, 1.0)\n%y = Neg(%b)\n%z = Abs(%b)",  # only the result is read
    ],
)
def test_no_value_is_overwritten(lines: str) -> None:
    assert overwritten_values(graph_with(lines), LITERT) == []


def test_values_of_unknown_shape_are_not_examined() -> None:
    text = """graph main(%x: f32[?,3]) -> %y, %z {
      %a = Exp(%x)
      %r = Reshape(%a, [-1])
      %s = Reshape(%r, [-1, 3])
      %b = Add(%s, 1.0)
      %y = Neg(%r)
      %z = Neg(%b)
    }"""
    assert overwritten_values(circlekit.parse(text).main, LITERT) == []
    assert len(overwritten_values(circlekit.parse(text.replace("?", "2")).main, LITERT)) == 1
