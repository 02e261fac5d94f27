# SPDX-License-Identifier: Apache-2.0
"""Partial matches for ``--explain``: the closest attempt, or the operators that the model lacks."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.engine.explain import MAX_PARTIAL_MATCHES, explain_pass
from circlekit.rewrite.match import Matcher
from circlekit.rewrite.partial_match import partial_matches
from circlekit.rewrite.picture import parse_picture


def sentences(body: str, name: str, inputs: str = "%x: f32[2,3]", outputs: str = "%y") -> list[str]:
    model = parse_model(f"graph main({inputs}) -> {outputs} {{\n{body}\n}}")
    return [refusal.sentence for refusal in explain_pass(model, name, "circle") if refusal.is_partial]


@pytest.mark.parametrize(
    ("body", "name", "sentence"),
    [
        (  # the operator before the last one differs
            "%m = Exp(%x)\n%y = Relu(%m)",
            "transform_min_relu_to_relu6",
            "%m: comes from Exp, expected Minimum",
        ),
        (  # the last operator differs
            "%m = Minimum(%x, 6.0)\n%y = Tanh(%m)",
            "transform_min_relu_to_relu6",
            "%m: is read by Tanh %y, expected Relu",
        ),
        (  # the interior value has no user
            "%y = Minimum(%x, 6.0)",
            "transform_min_relu_to_relu6",
            "%y: is an output that no operator reads, expected Relu",
        ),
        (
            "%m = Minimum(%x, 6.0)\n%y = Tanh(%x)",
            "transform_min_relu_to_relu6",
            "%m: has no use, expected Relu",
        ),
        (  # the interior does not match either
            "%m = Minimum(%x, 5.0)\n%y = Tanh(%m)",
            "transform_min_relu_to_relu6",
            "%m/rhs: expected the constant 6.0",
        ),
        (  # no operator of the picture
            "%y = Tanh(%x)",
            "decompose_softmax",
            "%y: the model has no Softmax",
        ),
        ("%y = Mul(%x, 2.0)", "fold_mul", "%y: reads %x, which is not constant"),
        ("%k = Add(1.0, 2.0)\n%y = Add(%x, %k)", "fold_mul", "%k: expected MUL, got ADD"),
        (
            "%m = Exp(%x)\n%y = Relu(%m)",
            "fuse_activation_function",
            "%m: expected the result of an operator that can fuse an activation,"
            " or data movement of such a result with one use",
        ),
        (
            "%a = Softmax(%x)\n%y = Reshape(%a, [6])",
            "remove_reshape_around_unaryop",
            "%a: is not computed by elementwise operators from Reshapes and constants alone",
        ),
        (
            "%w = const f32[4,3] gaussian(0, 1)\n%y = FullyConnected(%x, %w)",
            "replace_non_const_fc_with_batch_matmul",
            "%w: is constant",
        ),
    ],
)
def test_message_names_the_first_difference(body: str, name: str, sentence: str) -> None:
    assert sentences(body, name) == [sentence]


def test_message_names_the_operand_that_no_reshape_and_elementwise_operator_computes() -> None:
    body = "%r = Reshape(%x, [6])\n%e = Relu(%r)\n%s = Softmax(%r)\n%a = Add(%e, %s)\n%y = Reshape(%a, [3,2])"
    why = "is not computed by elementwise operators from Reshapes and constants alone"
    assert sorted(sentences(body, "remove_reshape_around_unaryop")) == [
        f"%a: {why}: it depends on %s",
        f"%x: {why}",
    ]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("%y = Sum(%x, [0])\n%z = Sum(%x, [1])", "%z: reads %z/axis, but %y reads %y/axis"),
        (
            "%y = Sum(%x, [0])\n%z = Sum(%x, [0]) {keep_dims: true}",
            "%z: keep_dims is True, but False in %y",
        ),
        (
            "%y = Cast(%x) : i32[2,3]\n%z = Cast(%x) : i8[2,3]",
            "%z: out_data_type is INT8, but INT32 in %y",
        ),
        (
            "%y = Quantize(%x) : i8[2,3] quant(scale: 0.5)\n%z = Quantize(%x) : u8[2,3] quant(scale: 0.5)",
            "%z: is u8[2,3], but %y is i8[2,3]",
        ),
    ],
)
def test_subexpressions_that_are_nearly_equal(body: str, sentence: str) -> None:
    assert sentences(body, "common_subexpression_elimination", outputs="%y, %z") == [sentence]


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ("f32[3] [0.0, 1, 2]", "%b: equals %a, but has other bits, such as 0.0 and -0.0"),
        ("f32[3] [3.0, 1, 2]", "%b: has other elements than %a"),
        ("i32[3] [0, 1, 2]", "%b: is i32, %a is f32"),
    ],
)
def test_constants_that_are_nearly_equal(second: str, sentence: str) -> None:
    body = f"""
        %a = const f32[3] [-0.0, 1, 2]
        %b = const {second}
        %y = Add(%x, %a)
        %c = Cast(%b) {{in_data_type: {second[:3]}, out_data_type: f32}} : f32[3]
        %z = Mul(%x, %c)
    """
    assert sentences(body, "remove_duplicate_const", outputs="%y, %z") == [sentence]


def test_what_a_partial_match_lacks() -> None:
    """Of the picture, the Minimum matches and the Relu does not.

    The progress counts 2 for each operator that matches, and 1 more if all of them do.
    """
    model = parse_model("graph main(%x: f32[2,3]) -> %y { %m = Minimum(%x, 6.0) %y = Tanh(%m) }")
    (refusal,) = explain_pass(model, "transform_min_relu_to_relu6", "circle")
    assert (refusal.progress, refusal.missing) == (2, 2 + 2 + 1 - 2)


def test_number_of_partial_matches_is_limited() -> None:
    body = "\n".join(f"%r{i} = Relu(%x{i})" for i in range(20))
    inputs = ", ".join(f"%x{i}: f32[2]" for i in range(20))
    outputs = ", ".join(f"%r{i}" for i in range(20))
    assert len(sentences(body, "transform_min_relu_to_relu6", inputs, outputs)) == MAX_PARTIAL_MATCHES


def test_equally_close_partial_matches_are_all_reported() -> None:
    """In each, one operator of the picture Minimum, Maximum matches: the Maximum %b or %y, the Minimum %n."""
    body = "%n = Minimum(%x, 6.0)\n%a = Abs(%n)\n%b = Maximum(%a, 0.0)\n%y = Maximum(%x, 0.0)"
    assert sentences(body, "transform_min_max_to_relu6", outputs="%b, %y") == [
        "%a: comes from Abs, expected Minimum",
        "%x: comes from an input, expected Minimum",
        "%n: is read by Abs %a, expected Maximum",
    ]


def test_no_partial_match_after_a_near_miss_or_a_change() -> None:
    near = "%m = Minimum(%x, 5.0)\n%a = Relu(%m)\n%y = Relu(%x)"
    assert sentences(near, "transform_min_relu_to_relu6", outputs="%a, %y") == []
    done = "%m = Minimum(%x, 6.0)\n%a = Relu(%m)\n%y = Relu(%x)"
    assert sentences(done, "transform_min_relu_to_relu6", outputs="%a, %y") == []


def test_the_sentence_about_a_region_is_not_that_of_another_region() -> None:
    """The search from %r1 ends at the Reshape %y and at the input %b, the search from %r2 at %y only."""
    body = """
      %y = Reshape(%x, [3,4])
      %a = Relu(%y)
      %s = Add(%a, %b)
      %r1 = Reshape(%s, [12])
      %r2 = Reshape(%a, [4,3])
    """
    model = parse_model(f"graph main(%x: f32[2,6], %b: f32[3,4]) -> %r1, %r2 {{{body}}}")
    refusals = explain_pass(model, "remove_reshape_around_unaryop", "circle")
    sentences_of_last = [r.sentence for r in refusals if r.op is not None and r.op.output.name == "r2"]
    assert sentences_of_last == ["%a: has 2 users, some outside of the Reshapes"]


def partial(picture: str, body: str, outputs: str = "%z") -> list[tuple[str, str, int]]:
    """Return the name, the sentence and the progress of each partial match."""
    model = parse_model(f"graph g(%x: f32[2,3]) -> {outputs} {{ {body} }}")
    matcher = Matcher(parse_picture(picture, "before"), explain=True)
    found = partial_matches(matcher, model.main)
    return [(op.output.name, sentence, progress) for op, sentence, progress in found]


def test_operators_that_lack_the_user_of_the_picture() -> None:
    assert partial("a = Abs(x)  z = Neg(a)", "%z = Abs(%x)") == [
        ("z", "%z: is an output that no operator reads, expected Neg", 2)
    ]
    assert partial("a = Abs(x)  z = Neg(a)", "%a = Abs(%x) %z = Neg(%a)") == []
    found = partial("a, b = Split(axis, x)  z = Add(a, b)", "%z = Split(0, %x) {num_splits: 1}")
    assert [name for name, *_ in found] == ["z"]  # one result: there is no second one to look at


def test_custom_operators_with_another_code() -> None:
    picture = 'z = Custom("MyOp|Its", x)'
    body = '%z = Opaque(%x) {{code: "CUSTOM", custom_code: "{code}"}} : f32[2,3]'
    assert partial(picture, body.format(code="MyOp")) == []
    sentence = "%z: is Other, expected the custom operator MyOp or Its"
    assert partial(picture, body.format(code="Other")) == [("z", sentence, 1)]
    assert partial(picture, "%z = Abs(%x)") == []
    assert partial("z = Abs(x)", "%z = Neg(%x)") == []
