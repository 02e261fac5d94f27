# SPDX-License-Identifier: Apache-2.0
"""Dequantization of a constant table that a GATHER reads."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

TABLE = "quant(scale: 0.5, zero_point: 1)"


def lookup(table: str = TABLE, rows: str = TABLE, shape: str = "[2,3]", attributes: str = "{axis: 0}") -> str:
    return f"""graph main(%i: i32[2]) -> %y {{
      %k = const i8{shape} {table} [[1, 2, 3], [-4, 5, 127]]
      %g = Gather(%k, %i) {attributes} : i8[2,3] {rows}
      %r = Dequantize(%g) : f32[2,3]
      %y = Neg(%r)
    }}"""


@pytest.mark.parametrize("grid", [TABLE, "quant(scale: 0.5)"])
def test_gather_of_a_dequantized_table_reads_its_real_values(grid: str) -> None:
    text = lookup(grid, grid).replace("main(%i: i32[2])", "main(%x: f32[2])")
    text = text.replace("%g =", "%b = Greater(%x, [0.0, 0.0])\n%i = Cast(%b) : i32[2]\n%g =")
    check_pass(text, "fold_dequantize", ["Greater", "Cast", "Gather", "Neg"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (lookup(rows="quant(scale: 0.25, zero_point: 1)"), "%g: has other quantization parameters than %k"),
        (lookup("quant(scale: [0.5, 0.25], zero_point: [0, 0], axis: 0)"), "%k: expected one scale"),
        (lookup().replace("-> %y", "-> %y, %g"), "%g: is an output of the graph"),
    ],
)
def test_gather_near_misses(text: str, sentence: str) -> None:
    check_refusal(text, "fold_dequantize", sentence)


@pytest.mark.parametrize(("limit", "changes"), [(23, 0), (24, 1)])
def test_table_is_dequantized_up_to_the_size_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int, changes: int
) -> None:
    monkeypatch.setattr("circlekit.passes.fold.fold_dequantize.MAX_FOLDED_BYTES", limit)
    context = Context(refusals=[])
    assert all_passes()["fold_dequantize"]().run(parse_model(lookup()), context) == changes
    sentences = [r.sentence for r in context.refusals or ()]
    assert sentences == ([] if changes else ["%k: would have 24 bytes in float32, the limit is 23"])
