# SPDX-License-Identifier: Apache-2.0
"""Reshapes to the same shape, two in a row, and around elementwise operators."""

from __future__ import annotations

import pytest

from tests.passes.kit import chain, check_pass, check_refusal, refusals

SAME, PAIR, AROUND = "remove_unnecessary_reshape", "remove_redundant_reshape", "remove_reshape_around_unaryop"

# -- one ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "wanted"), [("[2,3]", "[2, 3]"), ("[2,3]", "[-1, 3]"), ("[?,3]", "[-1, 3]"), ("[]", "[]")]
)
def test_same_shape(shape: str, wanted: str) -> None:
    check_pass(chain(shape, f"Reshape(%a, {wanted})"), SAME, ["Neg", "Neg"])


def test_same_shape_by_attribute() -> None:
    check_pass(chain("[2,3]", "Reshape(%a) {new_shape: [2, 3]}"), SAME, ["Neg", "Neg"])


def test_other_shape_stays() -> None:
    check_pass(
        chain("[2,3]", "Reshape(%a, [3, 2])"), SAME, refused="%b: expected the shape of %a, [2,3], got [3,2]"
    )


def test_shapes_that_may_differ() -> None:
    text = """
        graph main(%x: f32[?,?], %s: i32[2]) -> %y {
          %a = Neg(%x)
          %b = Reshape(%a, %s)      : f32[?,?]
          %y = Reshape(%b, [-1])
        }
    """
    check_refusal(text, SAME, "has more than one unknown dimension: [?,?]")


# -- two ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "first", "second"),
    [
        ("[2,3,4]", "Reshape(%a, [6, 4])", "Reshape(%b, [4, -1])"),
        ("[?,3,4]", "Reshape(%a, [-1, 4])", "Reshape(%b, [-1, 12])"),
        ("[?,2,?]", "Reshape(%a, [-1])", "Reshape(%b, [2, -1])"),
        ("[2,1,3,1]", "Squeeze(%a) {squeeze_dims: [1]}", "Reshape(%b, [6])"),
        ("[2,3]", "ExpandDims(%a, 1)", "Reshape(%b, [6])"),
    ],
)
def test_two_reshapes(shape: str, first: str, second: str) -> None:
    check_pass(chain(shape, first, second), PAIR, ["Neg", "Reshape", "Neg"])


def test_many_reshapes() -> None:
    calls = [f"Reshape(%{chr(97 + i)}, [{2 + i % 2}, {3 - i % 2}])" for i in range(1, 6)]
    check_pass(chain("[6]", "Reshape(%a, [2, 3])", *calls), PAIR, ["Neg", "Reshape", "Neg"])


def test_first_reshape_with_other_users_stays() -> None:
    text = chain("[6]", "Reshape(%a, [2, 3])", "Reshape(%b, [3, 2])", outputs="%y, %b")
    check_pass(text, PAIR, ["Neg", "Reshape", "Reshape", "Neg"])


def test_other_quantization() -> None:
    q, other = "quant(scale: 0.5, zero_point: 3)", "quant(scale: 0.25, zero_point: 3)"
    text = f"""
        graph main(%x: i8[2,3] {q}) -> %y {{
          %b = Reshape(%x, [6])         : i8[6] {other}
          %y = Reshape(%b, [3, 2])      : i8[3,2] {q}
        }}
    """
    check_pass(text, PAIR, refused="has other quantization parameters")
    check_pass(text.replace(other, q), PAIR, ["Reshape"])


# -- around elementwise operators --------------------------------------------------------------


@pytest.mark.parametrize("scale", ["0.5", "[0.5]", "[[[[0.5]]]]"])
def test_chain_between_shapes(scale: str) -> None:
    text = chain("[2,3,4]", "Reshape(%a, [2, 3, 2, 2])", f"Mul(%b, {scale})", "Exp(%c)", "Reshape(%d, [24])")
    check_pass(text, AROUND, ["Neg", "Mul", "Exp", "Reshape", "Neg"])


def test_chain_back_to_the_same_shape() -> None:
    text = chain("[2,3,4]", "Reshape(%a, [6, 4])", "Mul(0.25, %b)", "Logistic(%c)", "Reshape(%d, [2, 3, 4])")
    check_pass(text, AROUND, ["Neg", "Mul", "Logistic", "Neg"])


def test_fused_activation_moves_along() -> None:
    text = chain("[2,3,4]", "Reshape(%a, [6, 4])", "Add(%b, 1.0) {act: RELU6}", "Reshape(%c, [2, 3, 4])")
    check_pass(text, AROUND, ["Neg", "Add", "Neg"])


def test_unknown_dimension() -> None:
    text = chain("[?,3,4]", "Reshape(%a, [-1, 4])", "Exp(%b)", "Reshape(%c, [-1, 3, 4])")
    check_pass(text, AROUND, ["Neg", "Exp", "Neg"])


def test_chain_from_input_to_output() -> None:
    text = """
        graph main(%x: f32[2,3]) -> %y {
          %a = Reshape(%x, [6])
          %b = Exp(%a)
          %y = Reshape(%b, [2, 3])
        }
    """
    model = check_pass(text, AROUND, ["Exp"])
    assert model.main.ops[0].output is model.main.outputs[0]


@pytest.mark.parametrize(
    ("source", "inner", "constant", "reshaped"),
    [
        ("[2,3,4]", "[6, 4]", "const f32[4]", (4,)),
        ("[2,3,4]", "[6, 4]", "const f32[1,4]", (4,)),
        ("[2,3,4]", "[6, 4]", "const f32[6,1]", (2, 3, 1)),
        ("[2,3,4]", "[6, 4]", "const f32[6,4]", (2, 3, 4)),
        ("[6,4]", "[2, 3, 4]", "const f32[4]", (4,)),
        ("[6,4]", "[2, 3, 4]", "const f32[2,3,1]", (6, 1)),
        ("[1,6,4]", "[6, 4]", "const f32[6,1]", (6, 1)),
    ],
)
def test_constants_of_several_elements(
    source: str, inner: str, constant: str, reshaped: tuple[int, ...]
) -> None:
    text = f"""
        graph main(%x: f32{source}) -> %y {{
          %k = {constant} gaussian(0, 1)
          %b = Reshape(%x, {inner})
          %c = Mul(%k, %b) {{act: RELU}}
          %y = Reshape(%c, {source})
        }}
    """
    for name in (AROUND, SAME):
        (op,) = check_pass(text, name, ["Mul"]).main
        assert [v.shape for v in op.inputs if v is not None and v.is_const] == [reshaped]


def test_chain_with_a_value_read_twice() -> None:
    """SiLU, as exporters write it."""
    text = chain("[2,3]", "Reshape(%a, [6])", "Logistic(%b)", "Mul(%b, %c)", "Reshape(%d, [2, 3])")
    check_pass(text, AROUND, ["Neg", "Logistic", "Mul", "Neg"])
    check_pass(text, SAME, ["Neg", "Logistic", "Mul", "Neg"])


def test_chain_with_two_reshapes_at_the_start() -> None:
    text = """
        graph main(%x: f32[2,3], %z: f32[2,3]) -> %y {
          %a = Reshape(%x, [6])
          %b = Reshape(%z, [6])
          %c = Sub(%a, %b)
          %y = Reshape(%c, [3, 2])
        }
    """
    check_pass(text, AROUND, ["Sub", "Reshape"])
    check_pass(
        text.replace("%z: f32[2,3]", "%z: f32[3,2]"),
        AROUND,
        refused="%z: expected the shape of %x, which must be static",
    )
    check_pass(text, SAME, refused="%y: expected the shape of %x, [2,3], got [3,2]")


def test_first_reshape_with_other_users_stays_before_a_chain() -> None:
    """The last Reshape is removed."""
    text = chain("[2,3]", "Reshape(%a, [6])", "Exp(%b)", "Reshape(%c, [2, 3])", outputs="%y, %b")
    check_pass(text, SAME, ["Neg", "Reshape", "Exp", "Neg"])


def test_remove_unnecessary_reshape_handles_chains() -> None:
    """ONE has one flag for single reshapes and for chains."""
    text = chain("[2,3,4]", "Reshape(%a, [6, 4])", "Add(%b, 1.0)", "Tanh(%c)", "Reshape(%d, [2, 3, 4])")
    check_pass(text, SAME, ["Neg", "Add", "Tanh", "Neg"])


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        (
            ["Reshape(%a, [6, 4])", "Exp(%b)", "Reshape(%c, [4, 6])"],
            "%d: expected the shape of %a, [2,3,4], got [4,6]",
        ),
        (
            ["Reshape(%a, [4, 6])", "Add(%b, [1.0, 2, 3, 4, 5, 6])", "Reshape(%c, [2, 3, 4])"],
            "shape [6] cannot be reshaped for [2,3,4]",
        ),
    ],
)
def test_chain_near_misses(calls: list[str], sentence: str) -> None:
    check_pass(chain("[2,3,4]", *calls), SAME, refused=sentence)


def test_every_reshape_behind_an_obstacle_is_explained() -> None:
    text = """graph main(%x: f32[2,3,4]) -> %y, %z, %c {
      %b = Reshape(%x, [6, 4])
      %c = Exp(%b)
      %y = Reshape(%c, [2, 3, 4])
      %z = Reshape(%c, [24])
    }"""
    assert refusals(text, AROUND) == ["%c: is an output of the graph, whose shape must stay"] * 2


def test_a_constant_of_two_elements_is_reshaped() -> None:
    calls = ["Reshape(%a, [2, 1, 3])", "Mul(%b, [[[1.0]], [[2.0]]])", "Reshape(%c, [2, 3])"]
    check_pass(chain("[2,3]", *calls), SAME, ["Neg", "Mul", "Neg"])


@pytest.mark.parametrize(
    ("calls", "outputs", "sentence"),
    [
        (["Reshape(%a, [6, 4])", "Exp(%b)", "Reshape(%c, [24])"], "%y, %c", "%c: is an output"),
        (["Reshape(%a, [6, 4])", "Exp(%b)", "Reshape(%c, [24])"], "%y, %b", "%b: is an output"),
        (["Reshape(%a, [6, 4])", "Mul(%b, [[[2.0]]])", "Reshape(%c, [24])"], "%y", "another rank"),
        (["Reshape(%a, [6, 4])", "Exp(%b)", "Add(%b, 0.5)", "Reshape(%d, [24])"], "%y, %c", "has 2 users"),
    ],
)
def test_near_miss(calls: list[str], outputs: str, sentence: str) -> None:
    check_pass(chain("[2,3,4]", *calls, outputs=outputs), AROUND, refused=sentence)


def test_a_value_of_unknown_rank_stays() -> None:
    text = """graph main(%x: f32[2,3], %s: i32[2]) -> %y {
      %b = Reshape(%x, %s) : f32[*]
      %c = Neg(%b) : f32[*]
      %y = Reshape(%c, [2, 3])
    }"""
    check_refusal(text, AROUND, "%b: has an unknown rank")


@pytest.mark.parametrize("call", ["Softmax(%b)", "Sum(%b, [1]) {keep_dims: true}"])
def test_other_operators_stay(call: str) -> None:
    text = chain("[2,3,4]", "Reshape(%a, [6, 4])", call, "Reshape(%c, [-1])")
    check_pass(text, AROUND, ["Neg", "Reshape", call.split("(")[0], "Reshape", "Neg"])
