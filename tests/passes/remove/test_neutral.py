# SPDX-License-Identifier: Apache-2.0
"""x + 0, x - 0, x * 1, x / 1, splits into one part, and other operators whose result is their operand."""

from __future__ import annotations

import pytest

from tests.passes.kit import check_pass, check_refusal

ADD, MUL, DIV = "remove_unnecessary_add", "remove_unnecessary_mul", "remove_unnecessary_div"


def between(call: str, type: str = "f32[2,3]") -> str:
    """Return a model with ``call``, which reads %x and makes %z, between Neg and Abs."""
    return f"""
        graph main(%in: {type}) -> %y {{
          %x = Neg(%in)
          %z = {call}
          %y = Abs(%z)
        }}
    """


@pytest.mark.parametrize(
    ("name", "call"),
    [
        (ADD, "Add(%x, 0.0)"),
        (ADD, "Add(0.0, %x)"),
        (ADD, "Add(%x, [[0.0, -0.0, 0.0]])"),
        (ADD, "Add(%x, [0.0, 0.0, 0.0]) {pot_scale_int16: false}"),
        (ADD, "Sub(%x, 0.0)"),
        (MUL, "Mul(%x, 1.0)"),
        (MUL, "Mul([1.0], %x)"),
        (DIV, "Div(%x, [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])"),
        ("remove_identity", "Concatenation(%x) {axis: 1}"),
        ("remove_identity", "AddN(%x)"),
        ("remove_identity", "Squeeze(%x)"),
        ("remove_identity", "BroadcastTo(%x, [2, 3])"),
        ("remove_identity", "Tile(%x, [1, 1])"),
        ("remove_unnecessary_split", "Split(1, %x) {num_splits: 1}"),
        ("remove_unnecessary_split", "SplitV(%x, [3], 1) {num_splits: 1}"),
    ],
)
def test_operand_replaces_the_result(name: str, call: str) -> None:
    check_pass(between(call), name, ["Neg", "Abs"])


@pytest.mark.parametrize(
    ("name", "call"), [(ADD, "Add(%x, [0])"), (MUL, "Mul(1, %x)"), (DIV, "Div(%x, [1, 1, 1])")]
)
def test_integers(name: str, call: str) -> None:
    check_pass(between(call, "i32[2,3]"), name, ["Neg", "Abs"])


@pytest.mark.parametrize(
    ("name", "call", "sentence"),
    [
        (ADD, "Add(%x, [0.0, 1e-30, 0.0])", "expected only 0, got 1e-30"),
        (ADD, "Add(%x, 0.0) {act: RELU}", "act is RELU, expected NONE"),
        (ADD, "Add(%x, [[[0.0, 0.0, 0.0]]])", "may change the shape [2,3] of %x"),
        (ADD, "Sub(0.0, %x)", "is not constant"),
        (ADD, "Add(%x, %x)", "is not constant"),
        (MUL, "Mul(%x, 0.9999999)", "expected only 1, got 0.9999999"),
        (MUL, "Mul(%x, [[[1.0]], [[1.0]]])", "may change the shape [2,3] of %x"),
        (MUL, "Mul(%x, 1.0) {act: RELU6}", "act is RELU6"),
        (DIV, "Div(1.0, %x)", "is not constant"),
        (DIV, "Div(%x, [2.0])", "expected only 1, got 2.0"),
        (DIV, "Div(%x, 1.0) {act: RELU_N1_TO_1}", "act is RELU_N1_TO_1"),
        ("remove_identity", "Concatenation(%x) {axis: 0, act: RELU}", "act is RELU"),
        ("remove_identity", "Tile(%x, [1, 2])", "f32[2,6], %x is f32[2,3]"),
        ("remove_identity", "BroadcastTo(%x, [4, 2, 3])", "f32[4,2,3], %x is f32[2,3]"),
        ("remove_unnecessary_split", "Split(1, %x) {num_splits: 3}", "num_splits is 3"),
    ],
)
def test_near_miss(name: str, call: str, sentence: str) -> None:
    text = between(call)
    if "num_splits: 3" in call:
        text = text.replace("%z =", "%z, %z1, %z2 =")
    check_pass(text, name, refused=sentence)


def test_constant_that_may_broadcast_an_unknown_dimension() -> None:
    check_pass(
        between("Add(%x, [[0.0], [0.0], [0.0]])", "f32[?,3]"), ADD, refused="may change the shape [?,3]"
    )
    check_pass(between("Add(%x, [[0.0, 0.0, 0.0]])", "f32[?,3]"), ADD, ["Neg", "Abs"])


def test_quantized_is_refused() -> None:
    q = "quant(scale: 0.5, zero_point: 3)"
    text = f"""
        graph main(%x: i8[2,3] {q}) -> %y {{
          %c = const i8[1] {q} [0]
          %z = Add(%x, %c)              : i8[2,3] {q}
          %y = Reshape(%z, [3, 2])      : i8[3,2] {q}
        }}
    """
    check_refusal(text, ADD, "is quantized")


def test_output_keeps_its_name() -> None:
    model = check_pass(
        """
        graph main(%x: f32[2,3]) -> %sum {
          %n = Neg(%x)
          %sum = Add(%n, 0.0)
        }
        """,
        ADD,
        ["Neg"],
    )
    assert model.main.ops[0].output is model.main.outputs[0]
    assert model.main.outputs[0].name == "sum"


def test_two_inputs_or_outputs_never_become_one_value() -> None:
    text = "graph main(%x: f32[2,3]) -> %y { %y = Mul(%x, 1.0) }"
    check_pass(text, MUL, refused="is an output of the graph, and %x is an input or an output, too")
    text = """
        graph main(%x: f32[2,3]) -> %n, %y {
          %n = Neg(%x)
          %y = Mul(%n, 1.0)
        }
    """
    check_pass(text, MUL, refused="is an output of the graph, and %n is an input or an output, too")


def test_an_operand_may_have_other_users() -> None:
    check_pass(
        """
        graph main(%x: f32[2,3]) -> %y, %w {
          %n = Neg(%x)
          %y = Mul(%n, 1.0)
          %w = Exp(%n)
        }
        """,
        MUL,
        ["Neg", "Exp"],
    )
