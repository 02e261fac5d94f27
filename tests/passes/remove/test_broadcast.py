# SPDX-License-Identifier: Apache-2.0
"""A broadcast before an operator that broadcasts by itself disappears; LiteRT has the same results."""

from __future__ import annotations

import pytest

from circlekit.equivalence.litert import run_model
from circlekit.ir.text import parse_model
from tests.passes.kit import assert_close, check_pass, make_input

FUNCTIONS = "Add Sub Mul Div Maximum Minimum SquaredDifference FloorDiv FloorMod Equal Less GreaterEqual"


@pytest.mark.parametrize("function", FUNCTIONS.split())
@pytest.mark.parametrize("operands", ["%x, %b", "%b, %x"])
@pytest.mark.parametrize("broadcast", ["BroadcastTo(%y, [2, 3, 4])", "Tile(%y, [2, 1, 4])"])
def test_operators_broadcast_by_themselves(function: str, operands: str, broadcast: str) -> None:
    text = f"""graph main(%x: f32[2,3,4], %y: f32[1,3,1]) -> %z {{
      %b = {broadcast}
      %z = {function}({operands})
    }}"""
    after = check_pass(text, "remove_broadcast", [function])
    inputs = [make_input(value, "normal") for value in after.main.inputs]
    assert_close(run_model(after, inputs), run_model(parse_model(text), inputs))
