# SPDX-License-Identifier: Apache-2.0
"""Chains of data movement: what is written in their place, and orders of channels that weights absorb."""

from __future__ import annotations

import pytest

from circlekit.ir.graph import Model
from tests.passes.kit import check_pass

MERGE = "merge_data_movement"

POOL = "{padding: SAME, filter_height: 2, filter_width: 2, stride_h: 1, stride_w: 1}"

# lines that shuffle the channels of %n; the result is %s
SHUFFLE = """%r = Reshape(%n, [1,4,4,2,3])
             %t = Transpose(%r, [0,1,2,4,3])
             %s = Reshape(%t, [1,4,4,6])"""


def kinds(model: Model) -> list[str]:
    return [type(op).__name__ for op in model.main]


def graph(body: str, inputs: str = "%x: f32[1,4,4,6]", outputs: str = "%y") -> str:
    return f"graph main({inputs}) -> {outputs} {{\n{body}\n}}"


FORMS = {
    "two transposes": ("%t = Transpose(%x, [0,3,1,2]) %y = Transpose(%t, [0,3,1,2])", ["Transpose"]),
    "only views": (
        "%t = Transpose(%x, [0,3,1,2]) %r = Reshape(%t, [6,16]) %y = Transpose(%r, [1,0])",
        ["Reshape"],
    ),
    "parts in their order": (
        "%a, %b = Split(3, %x) {num_splits: 2} %c = Concatenation(%a, %b) {axis: 3} %y = Relu(%c)",
        ["Relu"],
    ),
    "stacked parts": (
        "%a, %b = Split(3, %x) {num_splits: 2} %y = Pack(%a, %b) {values_count: 2, axis: 3}",
        ["Reshape"],
    ),
    "slice of a slice": (
        "%a = Slice(%x, [0,1,0,0], [1,2,4,6]) %y = StridedSlice(%a, [0,0,1,0], [1,2,3,6], [1,1,1,1])",
        ["Slice"],
    ),
    "reversed twice": ("%a = ReverseV2(%x, [1]) %b = ReverseV2(%a, [1]) %y = Relu(%b)", ["Relu"]),
    "slice of a join": (
        "%a = Relu(%x) %c = Concatenation(%a, %x) {axis: 3} "
        "%s = Slice(%c, [0,0,0,0], [1,4,4,6]) %y = Abs(%s)",
        ["Relu", "Abs"],
    ),
    "depth to space": (
        "%r = Reshape(%d, [1,2,2,2,2,6]) %t = Transpose(%r, [0,1,3,2,4,5]) %y = Reshape(%t, [1,4,4,6])",
        ["DepthToSpace"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_chain_becomes_the_cheapest_operators(name: str) -> None:
    body, expected = FORMS[name]
    inputs = "%d: f32[1,2,2,24]" if "%d" in body else "%x: f32[1,4,4,6]"
    assert kinds(check_pass(graph(body, inputs), MERGE)) == expected


LAYERS = {
    "weights of the producer": (
        f"""%w = const f32[6,1,1,6] gaussian(0, 1)
            %b = const f32[6] gaussian(0, 1)
            %n = Conv2D(%x, %w, %b) {{act: RELU}}
            {SHUFFLE}
            %y = MaxPool2D(%s) {POOL}""",
        ["Conv2D", "MaxPool2D"],
    ),
    "weights of the user": (
        f"""%w = const f32[5,3,3,6] gaussian(0, 1)
            %n = MaxPool2D(%x) {POOL}
            {SHUFFLE}
            %y = Conv2D(%s, %w, none)""",
        ["MaxPool2D", "Conv2D"],
    ),
    "pixel shuffle": (
        """%w = const f32[12,3,3,6] gaussian(0, 1)
           %n = Conv2D(%x, %w, none)
           %r = Reshape(%n, [1,4,4,3,2,2])
           %t = Transpose(%r, [0,1,4,2,5,3])
           %y = Reshape(%t, [1,8,8,3])""",
        ["Conv2D", "DepthToSpace"],
    ),
    "fully connected": (
        f"""%w = const f32[6,6] gaussian(0, 1)
            %n = FullyConnected(%x, %w, none) {{keep_num_dims: true}}
            {SHUFFLE}
            %y = Tanh(%s)""",
        ["FullyConnected", "Tanh"],
    ),
    "quantized": (
        """%w = const i8[4,1,1,6] quant(scale: [0.1, 0.2, 0.3, 0.4], zero_point: [0, 0, 0, 0]) [
             1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 7, 0, 1, 0, 2, 0, 1, 1, 1, 2, 2, 2]
           %n = Conv2D(%x, %w, none) : i8[1,4,4,4] quant(scale: 0.5)
           %r = Reshape(%n, [1,4,4,2,2]) : i8[1,4,4,2,2] quant(scale: 0.5)
           %t = Transpose(%r, [0,1,2,4,3]) : i8[1,4,4,2,2] quant(scale: 0.5)
           %y = Reshape(%t, [1,4,4,4]) : i8[1,4,4,4] quant(scale: 0.5)""",
        ["Conv2D"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_weights_take_another_order_of_channels(name: str) -> None:
    body, expected = LAYERS[name]
    inputs = "%x: i8[1,4,4,6] quant(scale: 0.05)" if name == "quantized" else "%x: f32[1,4,4,6]"
    assert kinds(check_pass(graph(body, inputs), MERGE)) == expected


# lines that make %n with a layer whose channels must keep their order
HELD = {
    "groups": "%w = const f32[6,1,1,3] gaussian(0, 1) %n = Conv2D(%x, %w, none)",
    "second user": "%w = const f32[6,1,1,6] gaussian(0, 1) %n = Conv2D(%x, %w, none) %z = Abs(%n)",
    "output": "%w = const f32[6,1,1,6] gaussian(0, 1) %z = Conv2D(%x, %w, none) %n = Reshape(%z, [1,4,4,6])",
    "shared weights": (
        "%w = const f32[6,1,1,6] gaussian(0, 1) %z = Conv2D(%x, %w, none) %n = Conv2D(%x, %w, none)"
    ),
    "depthwise": (
        "%w = const f32[1,1,1,6] gaussian(0, 1) %n = DepthwiseConv2D(%x, %w, none) {depth_multiplier: 1}"
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_channels_stay(name: str) -> None:
    outputs = "%y, %z" if "%z" in HELD[name] else "%y"
    model = check_pass(graph(f"{HELD[name]}\n{SHUFFLE}\n%y = MaxPool2D(%s) {POOL}", outputs=outputs), MERGE)
    assert kinds(model).count("Transpose") == 1


WHY = {
    "interface": (
        "%t = Transpose(%x, [0,3,1,2]) %y = SpaceToDepth(%t) {block_size: 2}",
        "%t: moves data from %x, an input of the graph, to an output of the graph;",
    ),
    "parts": (
        "%a = Abs(%x) %p, %q = Split(3, %a) {num_splits: 2} %r = Reshape(%q, [-1]) %s = Sum(%r, 0)"
        " %y = Add(%p, %s)",
        "%p: moves data from Abs %a to Add %y and Sum %s",
    ),
    "several sources": (
        "%a = Abs(%x) %b = Neg(%x) %c = Concatenation(%a, %b) {axis: 3} %y = Relu(%c)",
        "%c: moves data from Abs %a and Neg %b to Relu %y;",
    ),
    "no map": (
        "%a = Abs(%x) %b = Mean(%x, 3) {keep_dims: true} %c = Concatenation(%b, %a) {axis: 3} %y = Relu(%c)",
        "%c: moves data from Mean %b and Abs %a to Relu %y",
    ),
    "own layout": (
        f"%t = Transpose(%x, [0,3,1,2]) %y = MaxPool2D(%t) {POOL}",
        "to MaxPool2D %y, which works only in its own layout; no operators that do so are cheaper",
    ),
    "output": (
        "%a = Abs(%x) %y = Transpose(%a, [0,3,1,2])",
        "%y: moves data from Abs %a to an output of the graph;",
    ),
    "unknown shape": (
        "%s = Shape(%x) {out_type: i32} %r = Reshape(%x, %s) %y = Abs(%r)",
        "%r: its operand or its result has an unknown rank, or more than one unknown dimension",
    ),
}


@pytest.mark.parametrize("name", WHY)
def test_the_refusal_says_what_holds_a_data_movement(name: str) -> None:
    body, sentence = WHY[name]
    check_pass(graph(body), MERGE, refused=sentence)


@pytest.mark.parametrize(
    "call",
    [
        "Concatenation(%x, %x) {axis: 1}",
        "Pack(%x, %x) {values_count: 2, axis: 1}",
        "BroadcastTo(%x, [2,0,3])",
        "Transpose(%x, [1,0])",
    ],
)
def test_movements_of_no_elements_stay(call: str) -> None:
    for name in (MERGE, "optimize_layout", "order_channels"):
        check_pass(f"graph main(%x: f32[0,3]) -> %y {{ %y = {call} }}", name, [call.partition("(")[0]])
