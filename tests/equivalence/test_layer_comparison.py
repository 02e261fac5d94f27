# SPDX-License-Identifier: Apache-2.0
"""Comparison of two models layer by layer."""

from __future__ import annotations

import circlekit
from circlekit.equivalence.layer_comparison import compare_layers
from circlekit.equivalence.verify import Verifier

CALLER = """
graph main(%c: bool[], %x: f32[2]) -> %y {
  %y = If(%c, %x) {then_graph: @called, else_graph: @called} : f32[2]
}
graph called(%p: f32[2]) -> %z {
  %y = OPERATOR(%p) : f32[2]
  %z = Mul(%p, [2.0]) : f32[2]
}
"""


def test_values_of_called_graphs_are_not_those_of_the_main_graph() -> None:
    before, after = (circlekit.parse(CALLER.replace("OPERATOR", name)) for name in ("Exp", "Neg"))
    (outcome,) = compare_layers(before, after, Verifier(before).runs[0])
    assert outcome.name == "y"
    assert outcome.equal
