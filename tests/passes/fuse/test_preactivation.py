# SPDX-License-Identifier: Apache-2.0
"""Batch norm before RELU, between convolutions or alone; GELU between fully connected layers."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

PASS = "fuse_preactivation_batchnorm"
GAMMA, BETA = "[2.0, 0.5, 0.0]", "[0.1, -0.2, 0.3]"
POSITIVE = "[2.0, 0.5, 1.5]"


def net(
    before: str = "%c = Conv2D(%x, %w, [1.0, 2, 3]) {padding: VALID}",
    gamma: str = GAMMA,
    beta: str = BETA,
    act: str = "{act: RELU}",
    behind: str = "%z = Conv2D(%r, %v, [1.0, 2]) {act: RELU6}",
    outputs: str = "%z",
) -> str:
    return f"""graph main(%x: f32[1,6,6,3]) -> {outputs} {{
      %w = const f32[3,3,3,3] gaussian(0, 1)
      %v = const f32[2,3,3,3] gaussian(0, 1)
      {before}
      %m = Mul(%c, {gamma})
      %r = Add(%m, {beta}) {act}
      {behind}
    }}"""


NO_CONV = "%c = Neg(%x)"


@pytest.mark.parametrize("gamma", [GAMMA, POSITIVE, "[2.0, -0.5, 0.0]", "[[[[2.0, 0.5, 1.0]]]]", "-2.0"])
def test_fused_into_the_convolution_before(gamma: str) -> None:
    check_pass(net(gamma=gamma), PASS, ["Conv2D", "Relu", "Conv2D"])
    plain = net("%c = Conv2D(%x, %w)", gamma)
    check_pass(plain, PASS, ["Conv2D", "Relu", "Conv2D"])


def test_fused_through_a_max_pool() -> None:
    pool = "%a = Conv2D(%x, %w)\n%c = MaxPool2D(%a) {filter_width: 2, filter_height: 2}"
    check_pass(net(pool), PASS, ["Conv2D", "MaxPool2D", "Relu", "Conv2D"])
    check_pass(net(pool, "[2.0, -0.5, 1.0]"), PASS, refused="expected no negative factor")


def test_fused_into_the_convolution_after() -> None:
    check_pass(net(NO_CONV, POSITIVE), PASS, ["Neg", "Add", "Conv2D"])
    mean = "%p = Mean(%r, [1, 2]) {keep_dims: true}\n%z = Conv2D(%p, %v)"
    check_pass(net(NO_CONV, POSITIVE, behind=mean), PASS, ["Neg", "Add", "Mean", "Conv2D"])


def test_a_mean_over_the_channels_is_passed_if_there_is_one_channel() -> None:
    text = """graph main(%x: f32[1,6,6,1]) -> %z {
      %c = Neg(%x)
      %m = Mul(%c, [2.0])
      %r = Add(%m, [0.5]) {act: RELU}
      %p = Mean(%r, [1, 2, 3]) {keep_dims: true}
      %z = Conv2D(%p, [[[[3.0]]], [[[-2.0]]]])
    }"""
    check_pass(text, PASS, ["Neg", "Add", "Mean", "Conv2D"])


def test_shared_constant_is_not_modified() -> None:
    text = net(NO_CONV, "%k", "%k").replace("%c = Neg", f"%k = const f32[3] {POSITIVE}\n%c = Neg")
    check_pass(text, PASS, ["Neg", "Add", "Conv2D"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (net(NO_CONV), "expected only positive factors"),
        (net(NO_CONV, "[1.0, -2.0, 3.0]"), "expected only positive factors"),
        (net(NO_CONV, POSITIVE, act=""), "%r: act is NONE, expected RELU"),
        (net(NO_CONV, POSITIVE, outputs="%z, %r"), "%r: is an output of the graph"),
        (net(NO_CONV, POSITIVE, behind="%z = Conv2D(%r, %v)\n%y = Neg(%r)"), "%r: is also read by Neg"),
        (net("%c = Conv2D(%x, %w) {act: RELU6}"), "%c: act is RELU6, expected NONE"),
        (net(outputs="%z, %c"), "%c: is an output of the graph"),
        (
            net(
                NO_CONV, POSITIVE, behind="%p = Mean(%r, [3]) {keep_dims: true}\n%z = Conv2D(%p, %u)"
            ).replace("%w = ", "%u = const f32[2,3,3,1] gaussian(0, 1)\n%w = "),
            "shape is [2,3,3,1], expected",
        ),
    ],
)
def test_near_misses(text: str, sentence: str) -> None:
    check_pass(text, PASS, refused=sentence)


def norm(gamma: str = "[1.0, -2.0, 0.0]", act: str = "{act: RELU}") -> str:
    return f"""graph main(%x: f32[1,4,4,3]) -> %y {{
      %m = Mul(%x, {gamma})
      %y = Add(%m, [1.0, 2, 3]) {act}
    }}"""


def test_negative_factors_become_tiny() -> None:
    model, kind = parse_model(norm()), all_passes()["make_batchnorm_gamma_positive"]
    assert kind.changes_values
    assert kind().run(model, Context()) == 1
    gamma = model.main.ops[0].inputs[1]
    assert gamma is not None
    assert gamma.array().tolist() == pytest.approx([1.0, 1e-10, 0.0])
    assert kind().run(model, Context()) == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (norm("[1.0, 2.0, 0.0]"), "expected a negative factor"),
        (norm(act=""), "act is NONE, expected RELU"),
    ],
)
def test_gamma_near_misses(text: str, sentence: str) -> None:
    check_refusal(text, "make_batchnorm_gamma_positive", sentence)


# -- channelwise factors as a depthwise convolution ----------------------------------------------

CHANNELWISE = "replace_cw_mul_add_with_depthwise_conv"


def channelwise(
    gamma: str = GAMMA, beta: str = BETA, act: str = "", mul: str = "", shape: str = "[2,4,5,3]"
) -> str:
    return f"""graph main(%x: f32{shape}) -> %z {{
      %m = Mul(%x, {gamma}) {mul}
      %z = Add({beta}, %m) {act}
    }}"""


@pytest.mark.parametrize("gamma", [GAMMA, "[[[[2.0, 0.5, 1.0]]]]", "3.0"])
@pytest.mark.parametrize("act", ["", "{act: RELU6}"])
def test_channelwise(gamma: str, act: str) -> None:
    check_pass(channelwise(gamma, act=act), CHANNELWISE, ["DepthwiseConv2D"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (channelwise(mul="{act: RELU}"), "%m: act is RELU, expected NONE"),
        (channelwise("[[[2.0],[1.0],[0.5],[1.0],[1.0]]]"), "expected [*,C|1] with C = 3"),
        (channelwise(beta="[[[2.0],[1.0],[0.5],[1.0],[1.0]]]"), "expected [*,C|1]"),
        (channelwise(shape="[4,5,3]"), "shape is [4,5,3], expected [_,_,_,C]"),
        (channelwise(act="{act: TANH}"), "act is TANH"),
    ],
)
def test_channelwise_near_misses(text: str, sentence: str) -> None:
    check_pass(text, CHANNELWISE, refused=sentence)


# -- FC, GELU, FC --------------------------------------------------------------------------------

ROOT = 0.7071067811865476


def layers(
    second: str = f"{ROOT}", bias: str = f"{0.5 * ROOT}", add: str = "1.0", outputs: str = "%z"
) -> str:
    return f"""graph main(%x: f32[2,3]) -> {outputs} {{
      %h = FullyConnected(%x, [[1.0, 0, 1], [0, 1, 0]], [0.5, 0])
      %s = FullyConnected(%x, [[{second}, 0, {second}], [0, {second}, 0]], [{bias}, 0])
      %e = Opaque(%s) {{code: "CUSTOM", custom_code: "Erf"}} : f32[2,2]
      %a = Add(%e, {add})
      %m = Mul(%h, %a)
      %z = FullyConnected(%m, [[1.0, 2], [3, 4], [5, 6]], [1.0, 2, 3]) {{act: RELU}}
    }}"""


def test_gelu_between_layers() -> None:
    check_pass(layers(), "replace_with_fc_gelu_fc", ["FullyConnected", "Gelu", "FullyConnected"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (layers("0.7"), "expected the weights before Erf to be sqrt(1/2) times those of the other layer"),
        (layers(bias="0.5"), "expected the biases before Erf to be sqrt(1/2) times those of the other layer"),
        (layers(add="2.0"), "expected the constant 1.0"),
        (layers(outputs="%z, %h"), "%h: is an output of the graph"),
    ],
)
def test_gelu_between_layers_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "replace_with_fc_gelu_fc", refused=sentence)


@pytest.mark.parametrize(("first", "second"), [("", ""), ("", ", [0.0, 0, 0]"), (", [0.0, 0, 0]", "")])
def test_an_absent_bias_is_zero(first: str, second: str) -> None:
    text = f"""graph main(%x: f32[2,3]) -> %z {{
      %h = FullyConnected(%x, [[1.0, 0, 1], [0, 1, 0], [2, 0, 1]]{first})
      %s = FullyConnected(%x, [[{ROOT}, 0, {ROOT}], [0, {ROOT}, 0], [{2 * ROOT}, 0, {ROOT}]]{second})
      %e = Opaque(%s) {{code: "CUSTOM", custom_code: "Erf"}} : f32[2,3]
      %a = Add(%e, 1.0)
      %m = Mul(%h, %a)
      %z = FullyConnected(%m, [[1.0, 2, 3], [4, 5, 6]], [1.0, 2]) {{act: RELU}}
    }}"""
    check_pass(text, "replace_with_fc_gelu_fc", ["FullyConnected", "Gelu", "FullyConnected"])
