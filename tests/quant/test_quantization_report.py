# SPDX-License-Identifier: Apache-2.0
"""The report of a quantization: its lines, and its document."""

from __future__ import annotations

import html

import pytest

import circlekit
from circlekit.quant.quantization_report import QuantizationReport


def report(floats: int) -> QuantizationReport:
    """Return the report about %a, the only layer, and ``floats`` operators that are chosen to stay float."""
    names = [f"s{index}" for index in range(floats)]
    lines = "\n".join(f"%{name} = Softmax(%a) {{beta: 1.{name[1:]}}}" for name in names)
    model = circlekit.parse(f"""
    graph main(%x: f32[1,64]) -> %a{"".join(f", %{name}" for name in names)} {{
      %w = const f32[64,64] gaussian(0, 1)
      %a = FullyConnected(%x, %w)
      {lines}
    }}""")
    return circlekit.quantize(model, "weight_int8", operators=dict.fromkeys(names, "float"))


@pytest.mark.parametrize(("count", "more"), [(1, ""), (2, " and 1 more"), (3, " and 2 more")])
def test_operators_that_stay_float_for_one_reason_are_counted(count: int, more: str) -> None:
    lines = str(report(count)).splitlines()
    assert lines[lines.index("stays float:") + 1] == f"  SOFTMAX %s0{more}: chosen to stay float"


def test_nothing_is_said_of_floats_if_there_are_none() -> None:
    made = report(0)
    assert "stays float" not in str(made)
    sizes = made.before.file_size, made.after.file_size
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert f"weight_int8: {sizes[0]:,} -> {sizes[1]:,} bytes, {sizes[1] / sizes[0]:.0%}" in str(made)


def test_the_document_has_milliseconds() -> None:
    made = report(0)
    made.seconds = 1.23456
    assert made.document()["seconds"] == 1.235
    assert str(made).endswith("quantized in 1.23 s")


def test_a_notebook_shows_the_text_and_a_prompt_one_line() -> None:
    made = report(1)
    sizes = f"{made.before.file_size:,} -> {made.after.file_size:,} bytes"
    assert repr(made) == f"<QuantizationReport: {sizes}; operators: 1 weight_int8, 1 float>"
    made.notes = ["%x is <odd>"]
    assert made._repr_html_() == f"<pre>{html.escape(str(made))}</pre>"
