# SPDX-License-Identifier: Apache-2.0
"""Sentences about data movement that stays: between which operators it stands, or why it has no index map."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.layout.held_in_place import NAMED_ENDS, route_of, why_no_map

INPUTS = "%x: f32[2,3], %z: f32[2,3]"
FIXED = "FullyConnected %y, which works only in its own layout"


@pytest.mark.parametrize(
    ("body", "outputs", "expected"),
    [
        ("%v = Transpose(%x, [1,0]) %y = Relu(%v)", "%y", ("%x, an input of the graph,", "Relu %y")),
        ("%a = Neg(%x) %v = Transpose(%a, [1,0]) %y = Abs(%v)", "%y", ("Neg %a", "Abs %y")),
        ("%v = Transpose(%k, [1,0]) %y = Add(%v, %v)", "%y", ("%k, a constant,", "Add %y")),
        ("%v = Transpose(%x, [1,0])", "%v", ("%x, an input of the graph,", "an output of the graph")),
        ("%v = Transpose(%x, [1,0]) %y = Abs(%x)", "%y", ("%x, an input of the graph,", "nothing")),
        (
            "%v = Transpose(%x, [1,0]) %y = FullyConnected(%v, %w)",
            "%y",
            ("%x, an input of the graph,", FIXED),
        ),
        (
            "%v = Reshape(%x, [3,2]) %y = FullyConnected(%v, %w)",
            "%y",
            ("%x, an input of the graph,", "FullyConnected %y"),
        ),
        (
            "%v = Transpose(%x, [1,0]) %r = Reshape(%v, [3,2]) %y = FullyConnected(%r, %w)",
            "%y",
            ("%x, an input of the graph,", "FullyConnected %y"),
        ),
        (
            "%a = Abs(%x) %b = Reshape(%a, [6]) %v = Reshape(%b, [3,2]) %y = Relu(%v)",
            "%y",
            ("Abs %a", "Relu %y"),
        ),
        (
            "%a = Abs(%x) %b = Neg(%x) %v = Concatenation(%a, %b, %a) {axis: 0} %y = Relu(%v)",
            "%y",
            ("Abs %a and Neg %b", "Relu %y"),
        ),
        (
            "%a = Abs(%x) %b = Neg(%x) %v = Concatenation(%a, %b, %z) {axis: 0} %y = Relu(%v)",
            "%y",
            ("Abs %a and Neg %b and 1 more", "Relu %y"),
        ),
        (
            "%v = Transpose(%x, [1,0]) %y = Relu(%v) %p = Abs(%v) %q = Neg(%v) %s = Add(%v, %v)",
            "%y, %p, %q, %s",
            ("%x, an input of the graph,", "Relu %y and Abs %p and 2 more"),
        ),
        (
            "%v = Transpose(%x, [1,0]) %r = Reshape(%v, [6]) %s = Reshape(%v, [2,3]) %y = Abs(%r)",
            "%y, %s",
            ("%x, an input of the graph,", "Abs %y and an output of the graph"),
        ),
    ],
)
def test_ends_of_data_movement(body: str, outputs: str, expected: tuple[str, str]) -> None:
    text = f"""graph main({INPUTS}) -> {outputs} {{
      %k = const f32[2,3] gaussian(0, 1)
      %w = const f32[4,2] gaussian(0, 1)
      {body}
    }}"""
    graph = parse_model(text).main
    last = next(op for op in graph if op.output.name == "v")
    assert route_of(graph, last) == f"moves data from {expected[0]} to {expected[1]}"
    assert NAMED_ENDS == 2


SCALE = "quant(scale: 0.5, zero_point: 0)"
SCALES = "quant(scale: [0.5, 0.25], zero_point: [0, 0], axis: 1)"


@pytest.mark.parametrize(
    ("inputs", "call", "reason"),
    [
        ("%x: f32[?,?]", "Transpose(%x, [1,0])", "more than one unknown dimension"),
        ("%x: f32[*]", "Reshape(%x, [2,3])", "more than one unknown dimension"),
        ("%x: f32[6]", "Reshape(%x, [2,-1]) : f32[?,?]", "more than one unknown dimension"),
        (f"%x: i8[6] {SCALE}", "Reshape(%x, [2,3]) : i8[2,3] quant(scale: 0.25)", "different quantization"),
        (f"%x: i8[6] {SCALE}", f"Gather(%x, [2,3,1]) : i8[3] {SCALE}", "where its elements go"),
        (f"%x: i8[6] {SCALE}, %i: i32[3]", f"Gather(%x, %i) : i8[3] {SCALE}", "where its elements go"),
        ("%x: f32[0,3]", "Transpose(%x, [1,0])", "a dimension of 0"),
        ("%x: f32[2,3] variable", "Transpose(%x, [1,0])", "a variable, which may change"),
        (f"%x: i8[2,2] {SCALES}", f"Transpose(%x, [1,0]) : i8[2,2] {SCALES}", "quantized per channel"),
        ("%x: f32[?,3]", "Gather(%x, [2,0,1]) {axis: 1}", "where its elements go"),
        ("%x: f32[2,3], %i: i32[2]", "Transpose(%x, %i) : f32[2,3]", "where its elements go"),
    ],
)
def test_why_there_is_no_index_map(inputs: str, call: str, reason: str) -> None:
    op = parse_model(f"graph main({inputs}) -> %y {{ %y = {call} }}").main.ops[0]
    assert reason in why_no_map(op)
