# SPDX-License-Identifier: Apache-2.0
"""Refusals as they are printed."""

from __future__ import annotations

import pytest

from circlekit.cli.terminal_output import print_refusals
from circlekit.ir.text import parse_model
from circlekit.rewrite.base import Refusal

MODEL = parse_model("graph main(%x: f32[2]) -> %y { %z = Neg(%x) %y = Relu(%z) }")
NEAR = Refusal("fold", "main", MODEL.main.ops[0], "too far")
PARTIAL = Refusal("fold", "main", MODEL.main.ops[1], "half", is_partial=True)


@pytest.mark.parametrize(
    ("refusals", "head"),
    [
        ([], "fold found no near miss\n"),
        ([NEAR], "fold almost matched in 1 place:\n  %z = Neg(%x) : f32[2]\n    too far\n"),
        ([NEAR, NEAR], "fold almost matched in 2 places:\n"),
        ([PARTIAL], "fold found no near miss; the closest partial matches are:\n  %y = Relu("),
    ],
)
def test_refusals(refusals: list[Refusal], head: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_refusals("fold", refusals)
    assert capsys.readouterr().out.startswith(head)
