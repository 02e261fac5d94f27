# SPDX-License-Identifier: Apache-2.0
"""Models for the tests of the IR: the project's recipes, and one text with all constructs of models."""

from __future__ import annotations

from pathlib import Path

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.verifier import verify

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*/*.ck"))

EVERYTHING = """
model tflite {version: 7, description: "all of it \\"quoted\\", \\\\ and \\n"}
metadata "text" "1.5.0\\x00\\x00"
metadata "bytes" base64("AD+A")
metadata "text" ""
signature "serving default" @main ("x y": %x, i: %i) -> (%y)
signature "other" @"a graph/with a name" (x: %x)
extra {numbers: [1, -2, 0.1, nan, inf], nothing: none, flag: true, tree: {"": "Table", "a b": [[], {}]}}

graph main(%x: f32[1,?] named("x;"), %i: i8[2,3] quant(scale: [0.5, 0.25], zero_point: [-1, 2], max: 1.5),
           %any: f32[*], %x) -> %y, %"strange name;", %x {
  %state: f32[2] variable
  %loose: resource[]
  %packed = const i4[3] raw("ECM=")
  %sparse = const f32[4]
    extra(sparsity: {traversal_order: array(i32, [0]), map: array(u8, "AAEC", [3,1])}) raw("AAAAAA==")
  %nan = const f32[3] [nan, -inf, -0.0]
  %small = const f16[2] [1e-07, 65504.0]
  %wide = const u64[1] [18446744073709551615]
  %many = const i16[40] uniform(-100, 100)
  %"same name" = const f32[1] [1.0]
  %y = Add(%x, 1.0)
    {act: RELU_N1_TO_1, version: 2, extra: {kept: [%state, none], raw: base64("AA==")}}  : f32[1,?]
  %"strange name;" = Relu(%any)
    : f32[*] quant(axis: 1, min: [0.0], max: [1.0], details: {"": "Custom", custom: array(u8, [1, 2])})
  %c, %d = Opaque(%x, none, [1, 2])
    {code: "CUSTOM", custom_code: "FlexErf", options: {"": "Any", deep: {er: 1.5}}}  : f32[2], str[?]
  Opaque(%c) {code: "UNKNOWN_310"}
  extra {unused: [%loose]}
  table
}

graph "a graph/with a name"(%x: f32[1]) -> %x {
}

graph twin(%x: f32[1]) -> %x named("main") {
  table
}
"""


def everything() -> Model:
    return parse_model(EVERYTHING, "everything")


def graph_text(*lines: str, inputs: str = "%x: f32[1,4]", outputs: str = "%y") -> str:
    """Return the text of a graph with the statements ``lines``."""
    body = "\n".join(f"  {line}" for line in lines)
    return f"graph main({inputs}) -> {outputs} {{\n{body}\n}}\n"


def reparsed(model: Model) -> Model:
    """Print and parse ``model``; return the result, which must be equal and print the same text."""
    text = print_model(model)
    other = parse_model(text)
    assert difference(model, other) is None
    assert print_model(other) == text
    return other


def same_clone(original: Model) -> Model:
    """Return a clone; assert that it equals ``original``, has the same findings and shares no values."""
    copy = clone(original)
    assert difference(original, copy) is None
    assert print_model(copy) == print_model(original)
    assert [str(f) for f in verify(copy)] == [str(f) for f in verify(original)]
    theirs = {id(v) for g in original.graphs for v in g.values()}
    for graph in copy.graphs:
        assert not theirs & {id(v) for v in graph.values()}
        for value in graph.values():
            assert all(op.graph in copy.graphs for op in value.users)
    return copy
