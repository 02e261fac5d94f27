# SPDX-License-Identifier: Apache-2.0
"""Groups of the drawing: sizes, scopes, and the values that cross a cut."""

from __future__ import annotations

import circlekit
from circlekit.ir.graph import Graph
from circlekit.report.folding import MAX_CHILDREN, crossing_values, fold, scope_of


def chain(length: int) -> Graph:
    kinds = ["Abs", "Neg", "Exp", "Square", "Tanh"]
    lines = "".join(f"  %v{i + 1} = {kinds[i % 5]}(%v{i})\n" for i in range(length))
    return circlekit.parse(f"graph main(%v0: f32[4]) -> %v{length} {{\n{lines}}}").main


def test_a_graph_that_fits_one_drawing_has_single_operators() -> None:
    group = fold(chain(MAX_CHILDREN))
    assert group.children == tuple(range(MAX_CHILDREN))
    larger = fold(chain(MAX_CHILDREN + 1))
    assert len(larger.children) <= MAX_CHILDREN
    assert any(not isinstance(child, int) for child in larger.children)
    assert (larger.first, larger.stop) == (0, MAX_CHILDREN + 1)


def test_values_that_cross_a_cut() -> None:
    """Before each operator, and after the last: %a is read twice, %u by nobody."""
    graph = circlekit.parse("""graph main(%x: f32[4]) -> %y {
      %a = Abs(%x)
      %u = Neg(%a)
      %b = Exp(%x)
      %y = Add(%a, %b)
    }""").main
    assert crossing_values(graph.ops) == [0, 1, 1, 2, 0]


def test_scopes_are_the_parts_of_a_name() -> None:
    graph = circlekit.parse('graph main(%x: f32[4]) -> %"m/l.1::a;q/z" {\n %"m/l.1::a;q/z" = Abs(%x)\n}').main
    assert scope_of(graph.ops[0]) == ["m", "l", "1"]
