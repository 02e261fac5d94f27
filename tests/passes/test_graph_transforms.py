# SPDX-License-Identifier: Apache-2.0
"""Passes with the names of TensorFlow's graph transforms."""

from __future__ import annotations

from tests.passes.kit import check_pass


def test_unused_operators_and_identities_are_removed() -> None:
    text = """
    graph main(%x: f32[2,4]) -> %y {
      %unused = Tanh(%x)
      %a = Reshape(%x, [2,4])
      %b = Concatenation(%a) {axis: 0}
      %y = Neg(%b)
    }
    """
    check_pass(text, "strip_unused_nodes", ["Reshape", "Concatenation", "Neg"])
    check_pass(text, "remove_nodes", ["Tanh", "Neg"])
