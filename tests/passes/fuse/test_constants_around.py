# SPDX-License-Identifier: Apache-2.0
"""Fused constants: in chains of sums and products, in a PRELU, before layers; sums of two layers."""

from __future__ import annotations

from itertools import product

import pytest

from circlekit.equivalence.litert import run_model
from circlekit.ir.text import parse_model
from circlekit.rewrite.base import Context
from tests.passes.kit import apply, assert_close, check_pass, make_input


def graph(body: str, result: str = "%z") -> str:
    return f"""graph main(%x: f32[2,4], %dyn: f32[4]) -> {result} {{
      %w = const f32[3,4] gaussian(0, 1)
      %v = const f32[3,4] gaussian(0, 1)
      %b = const f32[3] [0.5, -1.0, 2.0]
      {body}
    }}"""


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (
            "%s = Square(%x)\n%e = Add(%s, 1.0)\n%m = Mul(%e, 2.0)\n%z = Div(3.0, %m)",
            ["Square", "Add", "Div"],
        ),
        ("%m = Mul(%x, 2.0)\n%z = Div(%m, 4.0) {act: RELU}", ["Mul"]),
        ("%m = Mul([2.0], %x)\n%z = Div(%m, 4.0)", ["Mul"]),
        ("%m = Mul(%x, [1.0, 2.0, 3.0, 4.0])\n%z = Div(%m, 4.0)", ["Mul"]),
    ],
)
def test_mul_with_div(body: str, left: list[str]) -> None:
    check_pass(graph(body), "fuse_mul_with_div", expect_ops=left)


@pytest.mark.parametrize(("limit", "count"), [(3, 3), (4, 4)])
def test_a_quotient_is_searched_among_a_limited_number_of_values(
    limit: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("circlekit.passes.fuse.fuse_constants.MAX_SEARCHED_VALUES", limit)
    model = parse_model(graph("%q = Div(%x, %dyn)\n%n = Neg(%q)\n%m = Mul(%n, 2.0)\n%z = Mul(%m, 4.0)"))
    apply(model, "fuse_mul_with_div", Context())
    assert len(model.main) == count


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("%m = Mul(%x, %dyn)\n%z = Div(%m, 4.0)", "%dyn: is not constant"),
        ("%m = Mul(%x, 2.0) {act: RELU}\n%z = Div(%m, 4.0)", "%m: act is RELU"),
        ("%m = Mul(%x, 2.0)\n%z = Div(%m, 0.0)", "would not be finite"),
    ],
)
def test_mul_with_div_near_misses(body: str, sentence: str) -> None:
    check_pass(graph(body), "fuse_mul_with_div", refused=sentence)


SIDES = ("%x, {}", "{}, %x")
"""The operands of an operator with one constant."""


@pytest.mark.parametrize(
    ("passes", "operators", "count"),
    [("fuse_add_with_add", "Add Sub", 16), ("fuse_mul_with_div", "Mul Div", 12)],
)
def test_chains_of_two_constants(passes: str, operators: str, count: int) -> None:
    """LiteRT has the same results for each pair of operators with the constants at either side.

    Only chains that begin with a quotient 2 / x stay.
    """
    calls = [f"{operator}({side})" for operator in operators.split() for side in SIDES]
    merged = 0
    for first, second in product(calls, calls):
        text = graph(f"""%m = {first.format("[2.0, 3.0, 4.0, 5.0]")}
          %z = {second.format("0.3").replace("%x", "%m")} {{act: RELU6}}""")
        before, after = parse_model(text), parse_model(text)
        merged += apply(after, passes, Context())
        inputs = [make_input(value, "normal") for value in before.main.inputs]
        assert_close(run_model(after, inputs), run_model(before, inputs), text)
    assert merged == count


@pytest.mark.parametrize(
    ("first", "middle", "last"), [*product(("Mul", "Div"), ("Add", "Sub"), ("Mul", "Div"))]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_sum_between_products_and_product_between_sums(
    first: str, middle: str, last: str, swapped: bool
) -> None:
    if swapped:
        first, middle, last = middle, first, middle
    text = graph(f"""%m = {first}(%x, [2.0, 3.0, 4.0, 5.0])
      %s = {middle}(%m, 0.5)
      %z = {last}(%s, 0.3)""")
    after = check_pass(text, "fuse_mul_with_add", ["Mul", "Add"])
    inputs = [make_input(value, "normal") for value in after.main.inputs]
    assert_close(run_model(after, inputs), run_model(parse_model(text), inputs))


def test_prelu() -> None:
    body = """%r = Relu(%x)
      %n = Abs(%x)
      %d = Sub(%x, %n)
      %a = Mul(%d, [0.1, 0.2, 0.3, 0.4])
      %h = Mul(%a, 0.5)
      %z = Add(%r, %h)"""
    check_pass(graph(body), "fuse_prelu", expect_ops=["PRelu"])
    check_pass(graph(body.replace("0.5", "0.25")), "fuse_prelu", refused="expected the constant 0.5")
    check_pass(
        graph(body.replace("Abs(%x)", "Abs(%r)")), "fuse_prelu", refused="the same value in two places"
    )
    wide = graph(body.replace("[0.1, 0.2, 0.3, 0.4]", "[[[0.1, 0.2, 0.3, 0.4]]]"))
    sentence = "broadcasting with its shape [1,1,4] may change the shape [2,4] of %x"
    check_pass(wide, "fuse_prelu", refused=sentence)


@pytest.mark.parametrize("select", ["Select", "SelectV2"])
@pytest.mark.parametrize(
    ("test", "choice"),
    [
        ("Greater", "%c, %x, %n"),
        ("GreaterEqual", "%c, %x, %n"),
        ("Less", "%c, %n, %x"),
        ("LessEqual", "%c, %n, %x"),
    ],
)
def test_prelu_by_select(test: str, choice: str, select: str) -> None:
    body = f"%c = {test}(%x, 0.0)\n%n = Mul(%x, [0.1, -0.2, 0.3, 4.0])\n%z = {select}({choice})"
    check_pass(graph(body), "fuse_prelu", expect_ops=["PRelu"])
    exchanged = body.replace("%n, %x", "%x, %n") if "Less" in test else body.replace("%x, %n", "%n, %x")
    check_pass(graph(exchanged), "fuse_prelu", refused="expected Mul")
    check_pass(graph(body.replace("0.0)", "0.5)")), "fuse_prelu", refused="expected the constant 0.0")
    check_pass(graph(body.replace("[0.1, -0.2, 0.3, 4.0]", "%dyn")), "fuse_prelu", refused="is not constant")


def test_prelu_by_maximum_and_minimum() -> None:
    body = (
        "%r = Maximum(%x, 0.0)\n%m = Minimum(%x, 0.0)\n%n = Mul(%m, [0.1, -0.2, 0.3, 4.0])\n%z = Add(%r, %n)"
    )
    check_pass(graph(body), "fuse_prelu", expect_ops=["PRelu"])
    check_pass(
        graph(body.replace("Maximum(%x, 0.0", "Maximum(%x, 1.0")), "fuse_prelu", refused="constant 0.0"
    )


@pytest.mark.parametrize("bias", ["", ", %b"])
@pytest.mark.parametrize("c", ["[1.0, 2.0, -3.0, 4.0]", "0.5", "[[1.0, 2.0, -3.0, 4.0]]"])
def test_a_constant_before_a_fully_connected_layer_is_fused(c: str, bias: str) -> None:
    add = graph(f"%a = Add(%x, {c})\n%z = FullyConnected(%a, %w{bias}) {{act: RELU}}")
    # the first layer computes the new bias from constants, so folding removes it
    check_pass(add, "fuse_add_to_fullyconnected_bias", expect_ops=["FullyConnected"] * 2)
    both = ["fuse_add_to_fullyconnected_bias", "fold_constants"]
    check_pass(add, both, expect_ops=["FullyConnected"])
    check_pass(add.replace("Add", "Sub"), both, expect_ops=["FullyConnected"])
    mul = graph(f"%a = Mul({c}, %x)\n%z = FullyConnected(%a, %w{bias}) {{act: RELU}}")
    check_pass(mul, "fuse_mul_to_fullyconnected_weights", expect_ops=["FullyConnected"])
    div = mul.replace(f"Mul({c}, %x)", f"Div(%x, {c})")
    check_pass(div, "fuse_mul_to_fullyconnected_weights", expect_ops=["FullyConnected"])


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
def test_before_a_fully_connected_layer_near_misses(kind: str) -> None:
    is_sum = kind in ("Add", "Sub")
    name = "fuse_add_to_fullyconnected_bias" if is_sum else "fuse_mul_to_fullyconnected_weights"
    body = f"%a = {kind}(%x, 0.5)\n%z = FullyConnected(%a, %w)"
    check_pass(graph(body.replace("0.5", "%dyn")), name, refused="%dyn: is not constant")
    check_pass(graph(body.replace("0.5)", "0.5) {act: RELU}")), name, refused="%a: act is RELU")
    check_pass(graph(body.replace("0.5", "[[1.0],[2.0]]")), name, refused="shape is [2,1]")
    check_pass(graph(body, "%z, %a"), name, refused="%a: is an output of the graph")
    wide = graph(f"%n = Reshape(%x, [8,1])\n%a = {kind}(%n, [1.0,2.0,3.0,4.0])\n%z = FullyConnected(%a, %w)")
    check_pass(wide, name, refused="broadcasting with its shape [4] may change the shape [8,1] of %n")
    check_pass(
        wide.replace("[2,4]", "[?,4]").replace("[8,1]", "[-1,1]"), name, refused="may change the shape [?,1]"
    )
    if kind in ("Sub", "Div"):
        check_pass(graph(body.replace("%x, 0.5", "0.5, %x")), name, refused="%x: is not constant")
    rank_1 = graph(f"%n = Reshape(%x, [8])\n%a = {kind}(%n, [[0.5]])\n%z = FullyConnected(%a, %w)")
    sentence = "broadcasting with its shape [1,1] may change the shape [8] of %n"
    check_pass(rank_1.replace("[3,4]", "[3,8]"), name, refused=sentence)


@pytest.mark.parametrize("biases", [("", ""), (", %b", ""), ("", ", %b"), (", %b", ", [1.0, 2.0, 3.0]")])
def test_the_sum_of_two_layers_of_one_input_is_one_layer(biases: tuple[str, str]) -> None:
    first, second = biases
    layers = f"%l = FullyConnected(%x, %w{first})\n%r = FullyConnected(%x, %v{second})"
    body = f"{layers}\n%z = Add(%l, %r) {{act: RELU}}"
    check_pass(graph(body), "fuse_horizontal_fc_layers", expect_ops=["FullyConnected"])


def test_two_layers_near_misses() -> None:
    name = "fuse_horizontal_fc_layers"
    body = "%l = FullyConnected(%x, %w)\n%r = FullyConnected(%x, %v)\n%z = Add(%l, %r)"
    check_pass(graph(body.replace("%v)", "%v) {act: RELU}")), name, refused="act is RELU")
    other = body.replace("%l =", "%y = Neg(%x)\n%l =").replace(
        "FullyConnected(%x, %v)", "FullyConnected(%y, %v)"
    )
    check_pass(graph(other), name, refused="expected the same value in two places")
    check_pass(graph(body, "%z, %r"), name, refused="%r: is an output of the graph")


# -- several users ---------------------------------------------------------------------------

LAYERS = """
    graph main(%x: f32[2,5,4]) -> %q, %k {{
      %wq = const f32[3,4] gaussian(0, 1)
      %wk = const f32[4,4] gaussian(0, 1)
      %a = {kind}(%x, [2.0, 0.5, 3.0, -1.0])
      %q = FullyConnected(%a, %wq) {{keep_num_dims: true}}
      %k = {other}
    }}
"""


@pytest.mark.parametrize(
    ("kind", "name", "left"),
    [
        ("Mul", "fuse_mul_to_fullyconnected_weights", ["FullyConnected"] * 2),
        # two more layers compute the new biases from constants
        ("Add", "fuse_add_to_fullyconnected_bias", ["FullyConnected"] * 4),
    ],
)
def test_a_constant_before_several_layers_is_fused_into_all(kind: str, name: str, left: list[str]) -> None:
    other = "FullyConnected(%a, %wk) {keep_num_dims: true, act: RELU}"
    check_pass(LAYERS.format(kind=kind, other=other), name, left)


@pytest.mark.parametrize("other", ["Neg(%a)", "FullyConnected(%wk, %a)", "FullyConnected(%a, %a)"])
def test_one_layer_that_cannot_fuse_the_factor(other: str) -> None:
    text = LAYERS.format(kind="Mul", other=other).replace("%x: f32[2,5,4]", "%x: f32[5,4]")
    check_pass(text, "fuse_mul_to_fullyconnected_weights", refused="%a: is also read by")


def test_two_convolutions_one_with_padding() -> None:
    text = """
        graph main(%x: f32[1,4,4,2]) -> %y, %z {
          %w = const f32[3,1,1,2] gaussian(0, 1)
          %v = const f32[3,2,2,2] gaussian(0, 1)
          %a = Add(%x, [2.0, 0.5])
          %y = Conv2D(%a, %w, [1.0, 2, 3])
          %z = Conv2D(%a, %v, [1.0, 2, 3]) {padding: SAME}
        }
    """
    check_pass(text, "fuse_add_to_conv_bias", refused="%a: is also read by Conv2D %z")
    check_pass(text.replace("SAME", "VALID"), "fuse_add_to_conv_bias", ["Conv2D", "Conv2D"])
    product = text.replace("Add", "Mul")
    check_pass(product, "fuse_mul_to_conv_weights", ["Conv2D", "Conv2D"])


@pytest.mark.parametrize(
    "body",
    [
        "%n = Abs(%x)\n%d = Sub(%x, %n)\n%h = Mul(0.5, %d)\n%a = Mul(%h, %k)\n%z = Add(%a, %r)",
        "%n = Minimum(0.0, %x)\n%a = Mul(%k, %n)\n%z = Add(%r, %a)",
        "%m = Neg(%x)\n%n = Relu(%m)\n%a = Mul(%n, %k)\n%z = Add(%a, %r)",
        "%m = Neg(%x)\n%n = Relu(%m)\n%a = Mul(%n, %k)\n%z = Sub(%r, %a)",
    ],
)
def test_other_forms_of_prelu(body: str) -> None:
    text = graph("%k = const f32[4] [0.25, -0.5, 2.0, 0.0]\n%r = Relu(%x)\n" + body)
    check_pass(text, "fuse_prelu", expect_ops=["PRelu"])


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "%n = Minimum(1.0, %x)\n%a = Mul(%k, %n)\n%z = Add(%r, %a)",
            "%n/lhs: expected the constant 0.0",
        ),
        ("%m = Neg(%x)\n%n = Relu(%m)\n%a = Mul(%n, %k) {act: RELU}\n%z = Add(%a, %r)", "%a: act is RELU"),
        ("%m = Neg(%x)\n%n = Relu(%m)\n%a = Mul(%n, %dyn)\n%z = Add(%a, %r)", "%dyn: is not constant"),
    ],
)
def test_prelu_near_misses(body: str, sentence: str) -> None:
    text = graph("%k = const f32[4] [0.25, -0.5, 2.0, 0.0]\n%r = Relu(%x)\n" + body)
    check_pass(text, "fuse_prelu", refused=sentence)
