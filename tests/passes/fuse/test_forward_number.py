# SPDX-License-Identifier: Apache-2.0
"""forward_number moves a number into earlier layers; fuse_neg_with_factor moves signs into a factor."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from circlekit.ir.op import Op
from circlekit.ir.text import parse_model
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.unary import Neg
from circlekit.passes.fuse import forward_number
from circlekit.rewrite.base import Context
from tests.passes.kit import apply, check_pass, check_refusal, refusals

NAME = "forward_number"
LAYER = "%w = const f32[6,4] gaussian(0, 1)\n%f = FullyConnected(%x, %w) {keep_num_dims: true}\n"


def graph(body: str, shape: str = "1,5,4", outputs: str = "%y") -> str:
    return f"graph main(%x: f32[{shape}]) -> {outputs} {{ {body} }}"


@pytest.mark.parametrize(
    "body",
    [
        "%i = Cast(%x) : i32[1,5,4]\n%y = Mul(%i, 3) : i32[1,5,4]",
        "%y = Mul(2.0, 3.0)",
        f"{LAYER}%y = Mul(%f, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])",
        f"{LAYER}%y = Mul(%f, %f)",
    ],
)
def test_what_is_no_product_with_a_number_is_no_near_miss(body: str) -> None:
    assert refusals(graph(body), NAME) == []


@pytest.mark.parametrize("kind", ["f32[1,5,6] quant(scale: 0.5)", "f32[*]"])
def test_values_with_scales_or_of_unknown_rank_stay(kind: str) -> None:
    body = f"%n = Neg(%f) : {kind}\n%r = Neg(%n) : f32[1,5,6]\n%y = Mul(%r, 0.5)"
    assert refusals(graph(LAYER + body), NAME) == ["%n: expected f32 without quantization, and a known rank"]


def test_no_number_moves_before_a_maximum() -> None:
    body = "%r = ReduceMax(%f, [2]) {keep_dims: true}\n%y = Mul(%r, -0.5)"
    sentence = "%r: comes from ReduceMax, past which the pass moves no factor"
    check_pass(graph(LAYER + body), NAME, refused=sentence)


def test_a_number_moves_before_a_reversal_by_lengths() -> None:
    body = "%r = ReverseSequence(%f, [2]) {seq_dim: 1}\n%y = Mul(%r, -0.5)"
    check_pass(graph(LAYER + body), NAME, ["FullyConnected", "ReverseSequence"])
    lengths = "%a = ArgMax(%x, 2) {output_type: i32}\n%n = ReduceMax(%a, [1])\n"
    computed = graph(LAYER + lengths + body.replace("[2]", "%n"))
    check_pass(computed, NAME, ["FullyConnected", "ArgMax", "ReduceMax", "ReverseSequence"])


def test_a_number_moves_into_some_channels_of_a_depthwise_convolution() -> None:
    body = """
        %w = const f32[1,2,3,8] gaussian(0, 1)
        %f = DepthwiseConv2D(%x, %w, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) {depth_multiplier: 2}
        %a, %b = Split(3, %f) {num_splits: 2}
        %n = Mul(%a, 0.25)
        %y = Concatenation(%n, %b) {axis: 3}
    """
    check_pass(graph(body, "1,6,5,4"), NAME, ["DepthwiseConv2D", "Split", "Concatenation"])


@pytest.mark.parametrize(("gamma", "is_moved"), [("[2.0]", False), ("[2.0, 1.0, 3.0, 4.0]", True)])
def test_a_number_moves_into_some_channels_of_a_normalization_with_a_gamma_for_each(
    gamma: str, is_moved: bool
) -> None:
    """One gamma for all channels would multiply the other channels, too."""
    body = f"""
        %f = RmsNorm(%x, {gamma}) {{epsilon: 0.1}}
        %a, %b = Split(2, %f) {{num_splits: 2}}
        %n = Mul(%a, 0.25)
        %y = Concatenation(%n, %b) {{axis: 2}}
    """
    if is_moved:
        check_pass(graph(body), NAME, ["RmsNorm", "Split", "Concatenation"])
    else:
        check_pass(graph(body), NAME, refused="%b: its channels are also read elsewhere")


def test_weights_that_are_also_the_data_stay() -> None:
    """With both operands multiplied, the result would be multiplied twice."""
    body = "%w = const f32[3,3] gaussian(0, 1)\n%f = FullyConnected(%w, %w)\n%y = Mul(%f, 0.5)"
    check_pass(graph(body), NAME, refused="%w: has other uses")


@pytest.mark.parametrize(
    "quotient",
    ["%d = Div(%f, %g)", "%e = Exp(%g)\n%d = Div(%f, %e)", "%c = Div(3.0, %f)\n%d = Mul(%c, 2.0)"],
)
def test_no_number_moves_before_a_quotient(quotient: str) -> None:
    body = f"%g = Mul(%x, 0.0)\n%f = Mul(%x, 2.0)\n{quotient}\n%r = Neg(%d)\n%y = Mul(%r, 0.001)"
    check_pass(graph(body), NAME, refused="is a quotient, which may be so large")


def test_a_factor_after_a_quotient_does_not_go_to_another_operand() -> None:
    body = "%d = Div(1.0, %x)\n%q = Reshape(%d, [1,4,5])\n%m = Mul(%q, 8.0)\n%y = BatchMatMul(%m, %f)"
    check_pass(graph(LAYER + body), NAME, refused="%d: is a quotient, which may be so large")


@pytest.mark.parametrize("extra", [0, 1])
def test_the_search_for_a_layer_examines_a_limited_number_of_operators(
    extra: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_number, "MAX_OPERATORS", 4)
    names = ["f", *(f"n{k}" for k in range(3 + extra))]  # 4 operators with the layer
    body = "\n".join([f"%{b} = Neg(%{a})" for a, b in pairwise(names)] + [f"%y = Mul(%{names[-1]}, 0.5)"])
    if extra:
        check_pass(graph(LAYER + body), NAME, refused="%f: the search ends here, after 4 operators")
    else:
        check_pass(graph(LAYER + body), NAME, ["FullyConnected", "Neg", "Neg", "Neg"])


def test_each_operator_before_a_product_is_examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both factors of each product come from the two products before it: there are 2^24 ways to %x."""
    examined = []

    def recorded(op: Op) -> Iterator[list[Value]]:
        examined.append(op)
        return operands_to_multiply(op)

    operands_to_multiply = forward_number._operands_to_multiply
    monkeypatch.setattr(forward_number, "_operands_to_multiply", recorded)
    lines = ["%a0 = Relu(%x)", "%b0 = Exp(%x)"]
    for k in range(24):
        lines += [f"%a{k + 1} = Mul(%a{k}, %b{k})", f"%b{k + 1} = Mul(%b{k}, %a{k})"]
    lines.append("%y = Mul(%a24, 0.5)")
    sentence = "%a0: comes from Relu, past which the pass moves no factor"
    assert refusals(graph("\n".join(lines)), NAME) == [sentence]
    assert len(examined) == len(set(examined)) == 49  # all operators but %y and %b24


INDEX_OUT_OF_RANGE = "%g = Gather(%f, [9]) {axis: 2}\n%y = Mul(%g, 0.5)"


def test_channels_are_not_followed_through_an_invalid_gather() -> None:
    """The number moves all the same: all channels of the layer are multiplied."""
    model = parse_model(graph(LAYER + INDEX_OUT_OF_RANGE))
    assert apply(model, NAME, Context()) == 1
    assert [type(op).__name__ for op in model.main] == ["FullyConnected", "Gather"]


# -- signs ---------------------------------------------------------------------------------------

SIGNS = "fuse_neg_with_factor"
HALVES = "%lo, %hi = Split(2, %x) {num_splits: 2}\n%n = Neg(%hi)\n%c = Concatenation(%n, %lo) {axis: 2}\n"


@pytest.mark.parametrize(
    ("shape", "factor", "is_moved"),
    [
        ("2,3,4", "3,4", True),  # 12 elements, as many as %hi has
        ("2,3,4", "2,3,4", False),
        ("1,2,4", "?,1,4", True),  # an unknown size counts as 1; %hi has 4 elements
        ("1,2,4", "?,2,4", False),
    ],
)
def test_signs_move_into_a_factor_not_larger_than_what_is_negated(
    shape: str, factor: str, is_moved: bool
) -> None:
    text = graph(f"{HALVES}%y = Mul(%c, %s)", shape).replace("%x:", f"%s: f32[{factor}], %x:")
    check_pass(text, SIGNS, ["Split", "Concatenation", "Mul", "Mul"] if is_moved else None)
    if not is_moved:
        product = "its product with the signs has more elements than the NEGs read"
        check_pass(text, SIGNS, refused=f"%s: is not constant, and {product}")


def test_signs_are_not_moved_by_an_invalid_gather() -> None:
    text = graph("%n = Neg(%x) %t = Gather(%n, [9]) {axis: 2} %y = Mul(%t, %s)").replace(
        "%x:", "%s: f32[1], %x:"
    )
    check_refusal(text, SIGNS, "%t: expected valid data movement of f32")


def test_signs_stay_before_a_sparse_factor() -> None:
    text = graph(f"{HALVES} %k = const f32[3,4] gaussian(0, 1) %y = Mul(%c, %k)", "2,3,4")
    model, context = parse_model(text), Context(refusals=[])
    constant = model.main.ops[-1].inputs[1]
    assert constant is not None
    constant.extra["compression_type"] = "HUFFMAN"
    assert apply(model, SIGNS, context) == 0
    sentences = [refusal.sentence for refusal in context.refusals or ()]
    assert sentences == ["%k: expected a constant that is not sparse or compressed"]


def test_signs_pass_a_long_chain_of_data_movement() -> None:
    """The chain is longer than Python's limit for recursion."""
    names = ["n", *(f"r{k}" for k in range(1500))]
    lines = [f"%{b} = Reshape(%{a}, [{(12, 24)[k % 2]},-1])" for k, (a, b) in enumerate(pairwise(names))]
    body = "\n".join(["%n = Neg(%x)", *lines, f"%y = Mul(%{names[-1]}, %s)"])
    model = parse_model(graph(body, "24,1").replace("%x:", "%s: f32[1], %x:"))
    assert apply(model, SIGNS, Context()) == 1
    assert not any(isinstance(op, Neg) for op in model.main)
