# SPDX-License-Identifier: Apache-2.0
"""Transposes and Reshapes move after their users."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

TRANSPOSE, RESHAPE = "forward_transpose_op", "forward_reshape_to_unaryop"


def turned(*calls: str, shape: str = "[2,3,4,5]", perm: str = "[0,3,1,2]", outputs: str = "%y") -> str:
    """Return %t, the Transpose of %x by ``perm``, then the lines ``calls``."""
    lines = "\n".join(calls)
    return (
        f"graph main(%x: f32{shape}, %u: f32{shape}) -> {outputs} {{\n%t = Transpose(%x, {perm})\n{lines}\n}}"
    )


@pytest.mark.parametrize(
    "call",
    [
        "Relu(%t)",
        "Abs(%t)",
        "Mul(%t, 3.0)",
        "Sub([2.0], %t) {act: RELU}",
        "Add(%t, [1.0, 2, 3, 4])",
        "Mul([[[1.0]], [[2.0]], [[3.0]], [[4.0]], [[5.0]]], %t)",
        "Div(%t, [[[[2.0]]]])",
    ],
)
def test_transpose_moves_after_one_operator(call: str) -> None:
    check_pass(turned(f"%y = {call}"), TRANSPOSE, [call.split("(")[0], "Transpose"])


def test_transpose_moves_after_many_operators() -> None:
    text = turned("%a = Relu(%t)", "%b = Add(%a, [1.0, 2, 3, 4])", "%y = Abs(%b)")
    check_pass(text, TRANSPOSE, ["Relu", "Add", "Abs", "Transpose"])


def test_transposes_of_both_operands_move_after_the_operator() -> None:
    both = ("%s = Transpose(%u, [0,-1,1,2])", "%y = Add(%t, %s)")
    check_pass(turned(*both), TRANSPOSE, ["Add", "Transpose"])
    check_pass(turned(*both, outputs="%y, %t"), TRANSPOSE, ["Transpose", "Add", "Transpose"])
    check_pass(turned("%y = Mul(%t, %t)"), TRANSPOSE, ["Mul", "Transpose"])


def test_transpose_moves_after_an_operator_without_elements() -> None:
    text = """graph main(%x: f32[0,2]) -> %y {
      %t = Transpose(%x, [1, 0])
      %k = const f32[0] zeros()
      %z = Add(%t, %k)
      %y = Neg(%z)
    }"""
    check_pass(text, "forward_transpose_op", ["Add", "Neg", "Transpose"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (turned("%y = Relu(%t)", "%z = Neg(%t)", outputs="%y, %z"), "%t: has other users"),
        (turned("%y = Relu(%t)", outputs="%y, %t"), "%t: is an output of the graph"),
        (turned("%y = Softmax(%t)"), "%y: expected an elementwise operator, got Softmax"),
        (
            turned("%v = Reshape(%u, [2,5,3,4])", "%y = Add(%t, %v)"),
            "%v: expected a constant or the result of a Transpose",
        ),
        (
            turned("%v = Transpose(%u, [0,3,2,1])", "%y = Mul(%t, %v)", shape="[2,3,3,5]"),
            "expected one constant perm for all operands, got [[0, 3, 1, 2], [0, 3, 2, 1]]",
        ),
        (turned("%y = Add(%t, [[[[[1.0]]]], [[[[2.0]]]]])"), "%y: expected rank 4, as %t has, got 5"),
    ],
)
def test_transpose_near_misses(text: str, sentence: str) -> None:
    check_pass(text, TRANSPOSE, refused=sentence)


def test_a_computed_transpose_stays() -> None:
    text = turned("%y = Neg(%t)", perm="%p").replace("%u: f32[2,3,4,5]", "%p: i32[4]")
    check_refusal(text, TRANSPOSE, "%t: expected a constant perm and a known rank")


def shaped(*calls: str, shape: str = "[2,3,4]", to: str = "[2,12]", outputs: str = "%y") -> str:
    """Return %t, the Reshape of %x to ``to``, then the lines ``calls``."""
    lines = "\n".join(calls)
    return f"graph main(%x: f32{shape}, %u: f32[2,12]) -> {outputs} {{\n%t = Reshape(%x, {to})\n{lines}\n}}"


@pytest.mark.parametrize(
    ("call", "to"),
    [
        ("Neg(%t)", "[2,12]"),
        ("Logistic(%t)", "[-1]"),
        ("Mul(%t, 3.0)", "[2,12]"),
        ("Div([[2.0]], %t)", "[2,12]"),
        ("Mean(%t, [0]) {keep_dims: true}", "[2,12]"),
        ("Mean(%t, [-4, 1]) {keep_dims: true}", "[2,3,2,2]"),  # axes 0 and 1
    ],
)
def test_reshape_moves_after_one_operator(call: str, to: str) -> None:
    check_pass(shaped(f"%y = {call}", to=to), RESHAPE, [call.split("(")[0], "Reshape"])


def test_reshape_of_leading_axes_moves_after_a_softmax() -> None:
    check_pass(shaped("%y = Softmax(%t)", to="[6,4]"), RESHAPE, ["Softmax", "Reshape"])


def test_reshape_moves_after_many_operators() -> None:
    text = shaped("%a = Relu(%t)", "%b = Mul(%a, [[2.0]])", "%y = Abs(%b)", shape="[24]")
    check_pass(text, RESHAPE, ["Relu", "Mul", "Abs", "Reshape"])
    dynamic = shaped("%y = Relu(%t)", shape="[?,3,4]", to="[-1,12]")
    check_pass(dynamic, RESHAPE, ["Relu", "Reshape"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (shaped("%y = Relu(%t)", "%z = Neg(%t)", outputs="%y, %z"), "%t: has other users"),
        (shaped("%y = Relu(%t)", outputs="%y, %t"), "%t: is an output of the graph"),
        (
            shaped("%y = Add(%t, %u)"),
            "%y: expected an elementwise operator of one value and constants of one element, got Add",
        ),
        (
            "graph main(%x: f32[2,2]) -> %y { %t = Reshape(%x, [4]) %y = Mul(%t, [1.0, 2.0, 3.0, 4.0]) }",
            "%y: expected an elementwise operator of one value and constants of one element, got Mul",
        ),
        (shaped("%y = Softmax(%t)"), "%y: works along the last axis, which %t changes"),
        (shaped("%y = Mul(%t, [[[2.0]]])"), "%y: is broadcast to another rank"),
        (
            shaped("%y = Mean(%t, [1]) {keep_dims: true}"),
            "expected a mean over axes below 1, which the Reshape keeps, got [1]",
        ),
        (shaped("%y = Mean(%t, [0])"), "expected a mean with keep_dims over constant axes"),
    ],
)
def test_reshape_near_misses(text: str, sentence: str) -> None:
    check_pass(text, RESHAPE, refused=sentence)


def test_a_quantized_reshape_takes_the_parameters_of_the_result() -> None:
    text = """graph main(%x: i8[6] quant(scale: 0.05)) -> %y {
      %t = Reshape(%x, [3, 2]) : i8[3,2] quant(scale: 0.05)
      %l = Logistic(%t) : i8[3,2] quant(scale: 0.00390625, zero_point: -128)
      %y = Dequantize(%l)
    }"""
    check_pass(text, RESHAPE, ["Logistic", "Reshape", "Dequantize"])
    other = text.replace("i8[3,2] quant(scale: 0.05)", "i8[3,2] quant(scale: 0.1)")
    check_refusal(other, RESHAPE, "%t: has other quantization parameters than %x")


def test_a_reshape_before_a_mean_over_unknown_axes_stays() -> None:
    body = "%t = Reshape(%x, [2,3,1]) %y = Mean(%t, %i) {keep_dims: true} : f32[?,?,?]"
    sentence = "%y: has more than one unknown dimension: [?,?,?]"
    check_refusal(f"graph main(%x: f32[2,3], %i: i32[1]) -> %y {{ {body} }}", RESHAPE, sentence)


@pytest.mark.parametrize(
    ("constant", "is_larger"), [("[[1.0, 2.0], [3.0, 4.0]]", True), ("[[1.0, 2.0]]", False)]
)
def test_pipelines_move_no_transpose_to_a_larger_result(constant: str, is_larger: bool) -> None:
    body = f"%t = Transpose(%x, [1,0]) %y = Mul(%t, {constant}) %z = Neg(%y)"
    text = f"graph main(%x: f32[2,1]) -> %z {{ {body} }}"
    for exact in (False, True):
        context = Context(exact=exact, refusals=[])
        changes = all_passes()["forward_transpose_op"]().run(parse_model(text), context)
        is_refused = exact and is_larger
        assert (changes == 0) == is_refused
        sentences = [refusal.sentence for refusal in context.refusals or ()]
        assert any("is larger than %t, so more data would be moved" in s for s in sentences) == is_refused
