# SPDX-License-Identifier: Apache-2.0
"""Slices move before operators: before which ones, along which axes, and when they stay."""

from __future__ import annotations

from itertools import pairwise

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.slices import backward_slice
from circlekit.passes.slices.backward_slice import BackwardSlice
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

MOVED = {
    "broadcast constants": (
        "%a = Mul(%x, [[[0.5], [0.6], [0.7], [0.8]]]) %h = Tanh(%a) %y = Slice(%h, [0, 1, 0], [2, 2, 5])",
        ["Slice", "Mul", "Tanh"],
    ),
    "every second index": (
        "%a = Relu(%x) %y = StridedSlice(%a, [0, 0, 0], [2, 4, 5], [1, 2, 1])",
        ["StridedSlice", "Relu"],
    ),
    "gather": ("%a = Relu(%x) %y = Gather(%a, [1, 2]) {axis: 1}", ["Slice", "Relu"]),
    "normalization": (
        """%m = Mean(%x, [-1]) {keep_dims: true} %d = Sub(%x, %m) %q = Mul(%d, %d)
           %v = Mean(%q, [-1]) {keep_dims: true} %r = Rsqrt(%v) %n = Mul(%d, %r)
           %y = Slice(%n, [0, 3, 0], [2, 1, 5])""",
        ["Slice", "Mean", "Sub", "Mul", "Mean", "Rsqrt", "Mul"],
    ),
    "softmax": ("%a = Softmax(%x) {beta: 1.0} %y = Slice(%a, [0, 1, 0], [2, 2, 5])", ["Slice", "Softmax"]),
    "rows of a layer": (
        "%a = FullyConnected(%x, %w, none) {keep_num_dims: true} %y = Slice(%a, [0, 1, 0], [2, 2, 6])",
        ["Slice", "FullyConnected"],
    ),
    "channels of a layer": (
        "%a = FullyConnected(%x, %w, %b) {keep_num_dims: true} %y = Slice(%a, [0, 0, 2], [2, 4, 3])",
        ["FullyConnected"],
    ),
    "one channel of a layer, without its axis": (
        """%a = FullyConnected(%x, %w, none) {keep_num_dims: true}
           %y = StridedSlice(%a, [0, 0, 2], [2, 4, 3], [1, 1, 1]) {shrink_axis_mask: 4}""",
        ["FullyConnected", "Reshape"],
    ),
    "a row of a normalization, without its axis": (
        """%m = Mean(%x, [0, 2]) {keep_dims: true} %d = Sub(%x, %m) %q = Mul(%d, %d)
           %v = Sum(%q, [-1]) {keep_dims: true} %r = Rsqrt(%v) %n = Mul(%d, %r)
           %y = StridedSlice(%n, [0, 3, 0], [2, 4, 5], [1, 1, 1]) {shrink_axis_mask: 2}""",
        ["StridedSlice", "Mean", "Sub", "Mul", "Sum", "Rsqrt", "Mul"],
    ),
    "a row of constants and of a layer, without its axis": (
        """%p = const f32[4,6] gaussian(0, 1) %c = const f32[2,1,6] gaussian(0, 1)
           %l = FullyConnected(%x, %w, none) {keep_num_dims: true} %a = Add(%l, %p) %h = Mul(%a, %c)
           %k = Softmax(%h) {beta: 1.0} %t = Mul(%k, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
           %y = StridedSlice(%t, [0, 3, 0], [2, 4, 6], [1, 1, 1]) {shrink_axis_mask: 2}""",
        ["StridedSlice", "FullyConnected", "Add", "Mul", "Softmax", "Mul"],
    ),
    "one index of a gather, without its axis": (
        "%a = Neg(%x) %s = Abs(%a) %y = Gather(%s, 2) {axis: 1}",
        ["StridedSlice", "Neg", "Abs"],
    ),
    "channels of a layer after another slice": (
        """%s = Slice(%x, [0, 1, 0], [2, 2, 5]) %a = FullyConnected(%s, %w, %b) {keep_num_dims: true}
           %y = Slice(%a, [0, 0, 2], [2, 2, 3])""",
        ["Slice", "FullyConnected"],
    ),
    "rows of a product": (
        "%a = BatchMatMul(%x, %z) %y = Slice(%a, [0, 1, 0], [2, 2, 7])",
        ["Slice", "BatchMatMul"],
    ),
    "channels of a convolution": (
        "%i = Conv2D(%u, %f, %b) %y = Slice(%i, [0, 0, 0, 1], [1, 3, 3, 2])",
        ["Conv2D"],
    ),
    "channels of a pool": (
        """%a = MaxPool2D(%u)
             {padding: VALID, filter_height: 2, filter_width: 2, stride_h: 2, stride_w: 2}
           %h = Relu6(%a) %i = Pad(%h, [[0, 0], [1, 1], [1, 1], [0, 0]])
           %y = Slice(%i, [0, 0, 0, 1], [1, 3, 3, 1])""",
        ["Slice", "MaxPool2D", "Relu6", "Pad"],
    ),
    "some of the joined parts": (
        "%j = Concatenation(%x, %x, %o) {axis: 1} %a = Neg(%j) %y = Slice(%a, [0, 4, 0], [2, 8, 5])",
        ["Concatenation", "Neg"],
    ),
    "part of a joined part": (
        "%j = Concatenation(%x, %o) {axis: 1} %a = Neg(%j) %y = Slice(%a, [0, 2, 0], [2, 6, 5])",
        ["Slice", "Concatenation", "Neg"],
    ),
    "a transpose between": (
        "%t = Transpose(%x, [1, 0, 2]) %a = Relu(%t) %y = Slice(%a, [1, 0, 0], [2, 2, 5])",
        ["Slice", "Transpose", "Relu"],
    ),
    "a reduction of another axis": (
        """%a = Neg(%x) %m = ReduceMax(%a, [2]) {keep_dims: true} %e = Mul(%m, %x)
           %y = Slice(%e, [0, 1, 0], [2, 1, 5])""",
        ["Slice", "Neg", "ReduceMax", "Mul"],
    ),
    "a product with a number that is computed": (
        """%i = Conv2D(%u, %f, %b) %p = Pad(%i, [[0, 0], [1, 1], [0, 0], [0, 0]])
           %m = Sum(%u, [0, 1, 2, 3]) {keep_dims: true} %a = Mul(%p, %m)
           %y = Slice(%a, [0, 1, 0, 0], [1, 2, 3, 6])""",
        ["Conv2D", "Pad", "Sum", "Slice", "Mul"],
    ),
    "indices in reverse": ("%a = Relu(%x) %y = Gather(%a, [2, 1]) {axis: 1}", ["StridedSlice", "Relu"]),
    "two users that are sliced together": (
        "%a = Relu(%x) %n = Neg(%a) %e = Exp(%a) %s = Add(%n, %e) %y = Slice(%s, [0, 1, 0], [2, 2, 5])",
        ["Slice", "Relu", "Neg", "Exp", "Add"],
    ),
    "an operand of one row": (
        """%m = Mean(%z, [2]) %r = Reshape(%m, [2, 1, 5]) %s = Mul(%x, %r)
           %y = Slice(%s, [0, 1, 0], [2, 2, 5])""",
        ["Mean", "Reshape", "Slice", "Mul"],
    ),
    "sums without their axis": (
        """%a = Abs(%x) %s = Sum(%a, [2]) {keep_dims: true} %m = Mul(%s, %a)
           %y = StridedSlice(%m, [0, 1, 0], [2, 2, 5], [1, 1, 1]) {shrink_axis_mask: 2}""",
        ["StridedSlice", "Abs", "Sum", "Mul"],
    ),
    "means behind the axis that the slice drops": (
        """%a = Abs(%x) %s = Mean(%a, [1, -1]) {keep_dims: true} %m = Mul(%s, %a)
           %y = StridedSlice(%m, [1, 0, 0], [2, 4, 5], [1, 1, 1]) {shrink_axis_mask: 1}""",
        ["StridedSlice", "Abs", "Mean", "Mul"],
    ),
    "across several joined parts, but not before the Concatenation": (
        """%a = Abs(%x) %c = Concatenation(%a, %o, %a) {axis: 1} %n = Neg(%c)
           %y = Slice(%n, [0, 3, 0], [2, 6, 5])""",
        ["Abs", "Concatenation", "Slice", "Neg"],
    ),
    "every second index of joined parts": (
        """%a = Abs(%x) %c = Concatenation(%a, %o) {axis: 1} %n = Neg(%c)
           %y = StridedSlice(%n, [0, 0, 0], [2, 8, 5], [1, 2, 1])""",
        ["Abs", "Concatenation", "StridedSlice", "Neg"],
    ),
    "after a sum, whose operand has more bytes": (
        "%t = Sum(%x, [0]) %n = Abs(%t) %y = Slice(%n, [1, 0], [2, 5])",
        ["Sum", "Slice", "Abs"],
    ),
    "an axis beside padded ones": (
        "%t = Pad(%x, [[0, 1], [0, 0], [2, 0]]) %y = Slice(%t, [0, 1, 0], [3, 2, 7])",
        ["Slice", "Pad"],
    ),
}


def model(body: str, outputs: str = "%y") -> str:
    """Return a graph of the lines ``body``, which may read %x, %z, %o, %u and the constants %w, %b, %f."""
    return f"""graph main(%x: f32[2,4,5], %z: f32[2,5,7], %o: f32[2,4,5], %u: f32[1,3,3,3]) -> {outputs} {{
                 %w = const f32[6,5] gaussian(0, 1)
                 %b = const f32[6] gaussian(0, 1)
                 %f = const f32[6,1,1,3] gaussian(0, 1)
                 {body}
               }}"""


@pytest.mark.parametrize(("body", "expected"), MOVED.values(), ids=MOVED)
def test_slices_move_before_operators(body: str, expected: list[str]) -> None:
    check_pass(model(body), "backward_slice", expected)


def test_a_slice_of_all_elements_is_left_alone() -> None:
    body = "%a = Relu(%x) %y = Slice(%a, [0, 0, 0], [2, 4, 5])"
    assert BackwardSlice().run(parse_model(model(body)), Context()) == 0


STAY = {
    "two operands": (
        "%a = Add(%x, %o) %y = Slice(%a, [0, 1, 0], [2, 2, 5])",
        "slices of the operands would move",
    ),
    "softmax along the axis": (
        "%a = Softmax(%x) {beta: 1.0} %y = Slice(%a, [0, 0, 1], [2, 4, 2])",
        "Softmax cannot compute only some indices of axis 2",
    ),
    "a padded axis": (
        "%a = Pad(%x, [[0, 0], [0, 0], [1, 0]]) %y = Slice(%a, [0, 0, 1], [2, 4, 2])",
        "Pad cannot compute only some indices of axis 2",
    ),
    "more bytes before a reduction": (
        "%a = Sum(%x, [2]) {keep_dims: true} %y = Slice(%a, [0, 1, 0], [2, 2, 1])",
        "slices of the operands would move",
    ),
    "an axis that the slice drops, and a pool needs": (
        """%a = MaxPool2D(%u)
             {padding: VALID, filter_height: 2, filter_width: 2, stride_h: 2, stride_w: 2}
           %y = StridedSlice(%a, [0, 0, 0, 1], [1, 1, 1, 2], [1, 1, 1, 1]) {shrink_axis_mask: 8}""",
        "MaxPool2D needs axis 3, which the slice drops",
    ),
    "an axis that the slice drops, and an operand repeats": (
        """%m = Mean(%x, [1]) {keep_dims: true} %e = Exp(%x) %a = Sub(%e, %m)
           %y = StridedSlice(%a, [0, 1, 0], [2, 2, 5], [1, 1, 1]) {shrink_axis_mask: 2}""",
        "Sub broadcasts an operand along an axis that the slice drops",
    ),
    "weights of two layers": (
        """%a = FullyConnected(%x, %w, none) {keep_num_dims: true} %y = Slice(%a, [0, 0, 2], [2, 4, 3])
           %v = FullyConnected(%o, %w, none) {keep_num_dims: true}""",
        "FullyConnected cannot compute only some indices of axis 2",
    ),
    "a shared constant": (
        """%k = const f32[4,1] gaussian(0, 1) %a = Mul(%x, %k) %v = Mul(%o, %k)
           %y = Slice(%a, [0, 1, 0], [2, 2, 5])""",
        "Mul shares a constant with other operators",
    ),
    "a constant with scales along the axis that the slice drops": (
        """%q = Quantize(%x) : i8[2,4,5] quant(scale: 0.5)
           %k = const i8[2,1,1] quant(scale: [0.5, 0.25]) [1, 2]
           %a = Mul(%q, %k) : i8[2,4,5] quant(scale: 0.5)
           %y = StridedSlice(%a, [1, 0, 0], [2, 4, 5], [1, 1, 1]) {shrink_axis_mask: 1}
             : i8[4,5] quant(scale: 0.5)""",
        "Mul has the constant %k, which cannot be sliced",
    ),
    "a factor on its way to a layer": (
        """%i = Conv2D(%u, %f, %b) %p = Pad(%i, [[0, 0], [1, 1], [0, 0], [0, 0]]) %a = Mul(%p, 2.0)
           %y = Slice(%a, [0, 1, 0, 0], [1, 2, 3, 6])""",
        "%a: the pass forward_batchnorm would undo the move",
    ),
    "another user": (
        "%a = Relu(%x) %v = Neg(%a) %y = Slice(%a, [0, 1, 0], [2, 2, 5])",
        "%a: is also read by Neg %v",
    ),
    "an output": ("%v = Relu(%x) %y = Slice(%v, [0, 1, 0], [2, 2, 5])", "%v: is an output of the graph"),
    "one joined part": (
        "%j = Concatenation(%x, %o) {axis: 1, act: RELU} %y = Slice(%j, [0, 2, 0], [2, 2, 5])",
        "only one operand of Concatenation would be left",
    ),
    "two parts of one value": (
        """%a = Relu(%x) %n = Neg(%a) %t = Transpose(%a, [0, 2, 1]) %p = Reshape(%t, [2, 4, 5])
           %s = Add(%n, %p) %y = Slice(%s, [0, 1, 0], [2, 2, 5])""",
        "%s: slices of the operands would move",
    ),
    "several results": (
        "%a, %i = TopKV2(%x, 5) %y = Slice(%a, [1, 0, 0], [1, 4, 5])",
        "%a: TopKV2 has several results",
    ),
    "rows of a layer that flattens its operand": (
        "%f2 = FullyConnected(%x, %w, none) %y = Slice(%f2, [1, 0], [2, 6])",
        "FullyConnected cannot compute only some indices of axis 0",
    ),
    "a bias with another user": (
        """%l = FullyConnected(%x, %w, %b) {keep_num_dims: true} %v = Add(%b, 1.0)
           %y = Slice(%l, [0, 0, 1], [2, 4, 3])""",
        "FullyConnected cannot compute only some indices of axis 2",
    ),
    "rows of a matrix, without their axis": (
        """%r = Reshape(%x, [8, 5]) %l = FullyConnected(%r, %w, none) {keep_num_dims: true}
           %y = StridedSlice(%l, [1, 0], [2, 6], [1, 1]) {shrink_axis_mask: 1}""",
        "FullyConnected needs axis 0, which the slice drops",
    ),
}


@pytest.mark.parametrize(("body", "sentence"), STAY.values(), ids=STAY)
def test_slices_stay(body: str, sentence: str) -> None:
    outputs = "%y, %v" if "%v =" in body else "%y"
    check_pass(model(body, outputs), "backward_slice", refused=sentence)


@pytest.mark.parametrize(
    ("inputs", "call", "cut"),
    [
        ("%d: f32[?,5], %x: f32[2,4,5]", "Mul(%d, %x)", "[0, 1, 0], [2, 2, 5]"),
        ("%d: f32[?,4,5], %x: f32[3,5,4]", "BatchMatMul(%d, %x)", "[1, 0, 0], [1, 4, 4]"),
    ],
    ids=["elementwise", "batches"],
)
def test_slices_stay_behind_an_operand_that_may_be_broadcast(inputs: str, call: str, cut: str) -> None:
    text = f"graph main({inputs}) -> %y {{ %a = {call} %y = Slice(%a, {cut}) }}"
    axis = "1" if call.startswith("Mul") else "0"
    check_refusal(text, "backward_slice", f"cannot compute only some indices of axis {axis}")


QUANTIZED = "quant(scale: 0.5, zero_point: 0)"
PER_CHANNEL = "quant(scale: [0.5, 0.25, 0.5, 0.5], zero_point: [0, 0, 0, 0], axis: 1)"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("%a = RandomUniform([2, 4, 5]) %y = Slice(%a, CUT)", "%a: RandomUniform is not pure"),
        ("%a = Transpose(%x, %i) : f32[2,4,5] %y = Slice(%a, CUT)", "%a: Transpose cannot compute"),
        (
            "%a = FullyConnected(%e, %k, none) {keep_num_dims: true} %y = Slice(%a, CUT)",
            "FullyConnected has an operand without elements",
        ),
        ("%a = Abs(%u) : f32[2,4,5] %y = Slice(%a, CUT)", "Abs cannot compute only some indices of axis 1"),
        (
            f"%a = Relu(%c) : i8[2,4,5] {QUANTIZED} %y = Slice(%a, CUT) : i8[2,2,5] {QUANTIZED}",
            "%a: an operand of Relu has different scales for its channels",
        ),
    ],
)
def test_slices_stay_behind_operators_that_need_more(body: str, sentence: str) -> None:
    inputs = "%x: f32[2,4,5], %i: i32[3], %u: f32[*], %e: f32[2,4,0], %k: f32[5,0]"
    inputs += f", %c: i8[2,4,5] {PER_CHANNEL}"
    text = f"graph main({inputs}) -> %y {{ {body.replace('CUT', '[0, 1, 0], [2, 2, 5]')} }}"
    check_refusal(text, "backward_slice", sentence)


def test_a_value_that_is_stored_in_a_variable_is_computed_as_a_whole() -> None:
    text = """graph main(%x: f32[4,2]) -> %y {
      %v = VarHandle() : i32[1]
      %a = Neg(%x)
      AssignVariable(%v, %a)
      %y = Slice(%a, [0, 0], [2, 2])
    }"""
    check_refusal(text, "backward_slice", "%a: is also read by AssignVariable")


def test_weights_keep_the_scales_of_the_channels_that_are_left() -> None:
    text = """graph main(%x: f32[1,4]) -> %y {
      %w = const i8[6,4] quant(scale: [0.5, 0.25, 0.5, 0.125, 1.0, 2.0], axis: 0) gaussian(0, 20)
      %f = FullyConnected(%x, %w, none) : f32[1,6]
      %y = Slice(%f, [0, 2], [1, 3])
    }"""
    check_pass(text, "backward_slice", ["FullyConnected"])


def test_a_slice_that_changes_the_quantization_is_left_alone() -> None:
    text = f"""graph main(%q: i8[2,4,5] {QUANTIZED}) -> %y {{
      %a = Relu(%q) : i8[2,4,5] {PER_CHANNEL}
      %y = Slice(%a, [0, 1, 0], [2, 2, 5]) : i8[2,2,5] {QUANTIZED}
    }}"""
    assert BackwardSlice().run(parse_model(text), Context()) == 0


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_slice_moves_before_a_limited_number_of_operators(
    extra: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backward_slice, "MAX_OPS", 3)
    names = ["x", *(f"n{k}" for k in range(3 + extra))]
    lines = [f"%{b} = Neg(%{a})" for a, b in pairwise(names)]
    graph = parse_model(model(" ".join([*lines, f"%y = Slice(%{names[-1]}, [0, 1, 0], [2, 2, 5])"])))
    assert BackwardSlice().run(graph, Context()) == 1
    assert [type(op).__name__ for op in graph.main].index("Slice") == max(extra, 0)
