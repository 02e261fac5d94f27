# SPDX-License-Identifier: Apache-2.0
"""An activation is fused into the operator before it, if runtimes run that operator with an activation."""

from __future__ import annotations

import pytest

from tests.passes.kit import chain, check_pass, refusals

NAME = "fuse_activation_function"


def graph(body: str, result: str = "%z", type: str = "f32[1,4,4,2]") -> str:
    return f"graph main(%x: {type}, %o: {type}) -> {result} {{\n{body}\n}}"


PRODUCERS = [
    "Add(%x, %o)",
    "Sub(%x, %o)",
    "Mul(%x, %o)",
    "Div(%x, 3.0)",
    "MaxPool2D(%x) {filter_width: 2, filter_height: 2}",
    "AveragePool2D(%x) {filter_width: 2, filter_height: 2}",
    "Conv2D(%x, [[[[1.0, -2.0]]]])",
    "DepthwiseConv2D(%x, [[[[1.0, -2.0]]]])",
    "TransposeConv([1,4,4,1], [[[[1.0, -2.0]]]], %x)",
    "FullyConnected(%x, [[1.0, -2.0]]) {keep_num_dims: true}",
]


@pytest.mark.parametrize("act", ["Relu", "Relu6", "ReluN1To1"])
@pytest.mark.parametrize("producer", PRODUCERS)
def test_activation_is_fused_into_operators_that_run_it(producer: str, act: str) -> None:
    model = check_pass(graph(f"%y = {producer}\n%z = {act}(%y)"), NAME, expect_ops=[producer.split("(")[0]])
    assert model.main.outputs[0].name == "z"


@pytest.mark.parametrize(
    ("held", "act", "joined"),
    [
        ("RELU", "Relu", "RELU"),
        ("RELU6", "Relu", "RELU6"),
        ("RELU", "Relu6", "RELU6"),
        ("RELU6", "Relu6", "RELU6"),
        ("RELU_N1_TO_1", "ReluN1To1", "RELU_N1_TO_1"),
    ],
)
def test_two_activations_are_joined(held: str, act: str, joined: str) -> None:
    model = check_pass(graph(f"%y = Add(%x, %o) {{act: {held}}}\n%z = {act}(%y)"), NAME, expect_ops=["Add"])
    assert model.main.ops[0].attribute_items()["act"].name == joined


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (graph("%y = Add(%x, %o) {act: RELU_N1_TO_1}\n%z = Relu(%y)"), "%y: act is RELU_N1_TO_1"),
        (graph("%y = Add(%x, %o) {act: RELU}\n%z = ReluN1To1(%y)"), "%y: act is RELU"),
        (
            graph("%y = Add(%x, %o)\n%z = Relu(%y)\n%n = Neg(%y)", "%z, %n"),
            "%y: has other users",
        ),
        (
            graph("%y = Add(%x, %o)\n%z = Relu(%y)", "%z, %y"),
            "%y: has other users",
        ),
    ],
)
def test_near_misses(text: str, sentence: str) -> None:
    check_pass(text, NAME, refused=sentence)


@pytest.mark.parametrize("producer", ["Concatenation(%x, %o) {axis: 3}", "Neg(%x)", "Reshape(%x, [32])"])
def test_activation_stays_after_operators_that_do_not_run_it(producer: str) -> None:
    text = graph(f"%y = {producer}\n%z = Relu(%y)")
    check_pass(text, NAME, expect_ops=[producer.split("(")[0], "Relu"])


def test_chain_of_activations() -> None:
    text = graph("%a = Add(%x, %o)\n%b = Relu(%a)\n%z = Relu6(%b)")
    model = check_pass(text, NAME, expect_ops=["Add"])
    assert model.main.ops[0].attribute_items()["act"].name == "RELU6"


def test_activation_that_relu_cannot_join_stays() -> None:
    text = graph("%y = Add(%x, %o) {act: TANH}\n%z = Relu(%y)")
    assert any("%y: act is TANH" in s for s in refusals(text, NAME))


GRID = "quant(scale: 0.5, zero_point: 3)"


def quantized(result: str) -> str:
    return f"""graph main(%x: i8[4] {GRID}, %o: i8[4] {GRID}) -> %z {{
      %y = Add(%x, %o) : i8[4] {GRID}
      %z = Relu(%y) : i8[4] {result}
    }}"""


def test_quantized_values_need_one_grid() -> None:
    check_pass(quantized(GRID), NAME, expect_ops=["Add"])
    other = quantized("quant(scale: 0.5, zero_point: 4)")
    check_pass(other, NAME, refused="%z: has other quantization parameters than %y")


@pytest.mark.parametrize("recorded", ["", "quant(min: -1.0, max: 9.0)"])
def test_integers_without_a_scale_stay(recorded: str) -> None:
    text = graph(f"%y = Add(%x, %o) : i8[4] {recorded}\n%z = Relu(%y) : i8[4] {recorded}", type="i8[4]")
    assert any("%y: expected f32 or quantized values, got i8" in s for s in refusals(text, NAME))


# -- MAXIMUM and MINIMUM that are activations ----------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "left"),
    [
        (["Maximum(%a, 0.0)"], "Relu"),
        (["Maximum([0.0], %a)"], "Relu"),
        (["Minimum(%a, 1.0)", "Maximum(%b, -1.0)"], "ReluN1To1"),
        (["Maximum(-1.0, %a)", "Minimum(1.0, %b)"], "ReluN1To1"),
    ],
)
def test_a_maximum_becomes_an_activation(calls: list[str], left: str) -> None:
    check_pass(chain("[2,3]", *calls), "transform_max_to_relu", ["Neg", left, "Neg"])


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        (["Minimum(%a, 1.0)", "Maximum(%b, -2.0)"], "expected the constant -1.0"),
        (["Maximum(%a, -1.0)", "Minimum(%b, nan)"], "expected the constant 1.0"),
        (["Maximum(%a, -1.0)", "Minimum(%b, [1.0, 1.0, 1.0])"], "expected the constant 1.0"),
        (["Minimum(%a, 1.0)", "Maximum(%b, [[[-1.0]]])"], "has shape [1,2,3], the rewrite gives [2,3]"),
    ],
)
def test_a_maximum_that_is_no_activation(calls: list[str], sentence: str) -> None:
    check_pass(chain("[2,3]", *calls), "transform_max_to_relu", refused=sentence)
