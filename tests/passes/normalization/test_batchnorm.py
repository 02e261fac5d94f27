# SPDX-License-Identifier: Apache-2.0
"""Factors and offsets per channel are folded into the filter and bias of the layer before them."""

from __future__ import annotations

import itertools

import pytest

from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from tests.passes.kit import check_pass, refusals

CHANNELS = 3
BIAS = "%b = const f32[3] [0.5, -1.0, 2.0]"


def chain(op: str, *, mul: str = "", add: str = "", act: str = "", result: str = "%z", more: str = "") -> str:
    """Return a graph of ``op`` (%y from %x), and of a Mul and an Add if their operands are given.

    ``add``: %last stands for the value before the Add.  ``act``: the attributes of the last operator.
    ``more``: further lines.
    """
    lines = [BIAS, "%w = const " + FILTER[op.split("(")[0]] + " gaussian(0, 1)", f"%y = {op}"]
    last = "%y"
    if mul:
        last = "%z" if not add else "%m"
        lines.append(f"{last} = Mul({mul})" + ("" if add else act))
    if add:
        lines.append(f"%z = Add({add.replace('%last', last)}){act}")
    body = "\n  ".join([*lines, more])
    return f"graph main(%x: f32[1,5,4,2], %dyn: f32[3]) -> {result} {{\n  {body}\n}}"


FILTER = {"TransposeConv": "f32[3,2,3,2]", "Conv2D": "f32[3,2,3,2]", "DepthwiseConv2D": "f32[1,2,3,6]"}
SCALES = ["[2.0, 1.5, -0.5]", "[[[[2.0, 1.5, -0.5]]]]", "0.75", "[0.75]"]
SHIFTS = ["[-2.0, 0.1, 0.0]", "[[[[-2.0, 0.1, 0.0]]]]", "0.25"]


def tconv(padding: str, stride_h: int, stride_w: int, bias: bool) -> str:
    """Return a transposed convolution of an input of 5 x 4.

    The output has (size - 1) * stride + filter size rows and columns for VALID, and size * stride for SAME.
    """
    size = (
        [(5 - 1) * stride_h + 2, (4 - 1) * stride_w + 3]
        if padding == "VALID"
        else [5 * stride_h, 4 * stride_w]
    )
    tail = ", %b" if bias else ""
    return (
        f"TransposeConv([1,{size[0]},{size[1]},3], %w, %x{tail}) "
        f"{{padding: {padding}, stride_h: {stride_h}, stride_w: {stride_w}}}"
    )


FORMS = [*itertools.product(SCALES, SHIFTS, (False, True))]
CONVOLUTIONS = [*itertools.product(("VALID", "SAME"), (1, 2, 3), (1, 2, 3), (False, True))]


@pytest.mark.parametrize("number", range(len(CONVOLUTIONS)))
def test_a_batch_norm_is_fused_into_a_transposed_convolution(number: int) -> None:
    """Each convolution is tried with 3 of the 24 forms, so that each form meets both paddings."""
    padding, stride_h, stride_w, bias = CONVOLUTIONS[number]
    for index in (number * 5 + 7 * step for step in range(3)):
        scale, shift, swap = FORMS[index % len(FORMS)]
        mul = f"{scale}, %y" if swap else f"%y, {scale}"
        add = f"{shift}, %last" if index % 3 == 0 else f"%last, {shift}"
        model = check_pass(
            chain(tconv(padding, stride_h, stride_w, bias), mul=mul, add=add),
            "fuse_batchnorm_with_tconv",
            expect_ops=["TransposeConv"],
        )
        (op,) = model.main.ops
        assert isinstance(op, TransposeConv)
        assert op.bias is not None
        assert op.bias.shape == (CHANNELS,)
        assert op.output.name == "z"


TCONV = tconv("SAME", 2, 2, bias=False)
MUL, ADD = "%y, [2.0, 1.5, -0.5]", "%last, [-2.0, 0.1, 0.0]"


@pytest.mark.parametrize("act", ["RELU", "RELU6", "RELU_N1_TO_1"])
def test_the_activation_of_the_last_operator_stays(act: str) -> None:
    text = chain(TCONV, mul=MUL, add=ADD, act=f" {{act: {act}}}")
    (op,) = check_pass(text, "fuse_batchnorm_with_tconv", expect_ops=["TransposeConv"]).main.ops
    assert isinstance(op, TransposeConv)
    assert op.act.name == act
    assert op.required_version() == 4


@pytest.mark.parametrize("factors", ["[1e-44, 2.0, 0.0]", "[0.0, 0.0, 0.0]", "[1e-30, 1e-37, 1e-35]"])
def test_small_factors_are_accepted(factors: str) -> None:
    """Some products may underflow, as long as others do not.  A factor of 0 is no underflow."""
    text = chain(TCONV, mul=f"%y, {factors}", add=ADD)
    check_pass(text, "fuse_batchnorm_with_tconv", expect_ops=["TransposeConv"])


@pytest.mark.parametrize("factors", ["[1e-44, 1e-44, 0.0]", "[1e-45, 1e-45, 1e-45]", "[1e-41, 0.0, 0.0]"])
def test_factors_that_underflow_all_weights_are_refused(factors: str) -> None:
    refused = "w2 would be too small for its dtype"
    check_pass(chain(TCONV, mul=f"%y, {factors}", add=ADD), "fuse_batchnorm_with_tconv", refused=refused)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [  # two rows have an activation: the first row in the Mul, the row with " {}" in the TransposeConv
        (chain(TCONV, mul=MUL + ") {act: RELU", add=ADD).replace("RELU)", "RELU}"), "%m: act is RELU"),
        (chain(TCONV, mul=MUL, add=ADD, more="%o = Neg(%m)", result="%z, %o"), "%m: is also read by Neg"),
        (chain(TCONV, mul=MUL, add=ADD, more="%o = Neg(%y)", result="%z, %o"), "%y: is also read by Neg"),
        (chain(TCONV, mul=MUL, add=ADD, result="%z, %m"), "%m: is an output of the graph"),
        (chain(TCONV, mul=MUL, add=ADD, result="%y, %z"), "%y: is an output of the graph"),
        (chain(TCONV, mul="%y, %dyn", add=ADD), "%dyn: is not constant"),
        (chain(TCONV, mul=MUL, add="%last, %dyn"), "%dyn: is not constant"),
        (chain(TCONV.replace("%x)", "%x, %dyn)"), mul=MUL, add=ADD), "%dyn: is not constant"),
        (chain(TCONV, mul="%y, %s", add=ADD), "shape is [8,1], expected [*,O|1]"),
        (chain(TCONV, mul="%y, %h", add=ADD), "shape is [10,1,1], expected [*,O|1]"),
        (chain(TCONV, mul=MUL, add="%last, %s"), "shape is [8,1], expected [*,O|1]"),
        (chain(TCONV, mul=MUL, add="%last, %full"), "shape is [10,8,3], expected [*,O|1]"),
        (chain(TCONV + " {}", mul=MUL, add=ADD).replace("} {}", ", act: RELU}"), "%y: act is RELU"),
        (chain(TCONV, mul="%y, %big", add=ADD), "would not be finite"),
    ],
)
def test_near_misses(text: str, sentence: str) -> None:
    constants = """%s = const f32[8,1] uniform(1, 2)
  %h = const f32[10,1,1] uniform(1, 2)
  %full = const f32[10,8,3] uniform(1, 2)
  %big = const f32[3] constant(3e38)
  %y ="""
    check_pass(text.replace("%y =", constants, 1), "fuse_batchnorm_with_tconv", refused=sentence)


def test_activation_that_convolutions_lack_is_refused() -> None:
    text = chain(TCONV, mul=MUL, add=ADD, act=" {act: TANH}")
    assert any("%z: act is TANH" in s for s in refusals(text, "fuse_batchnorm_with_tconv"))


def test_constant_that_adds_a_dimension_is_refused() -> None:
    text = chain(TCONV, mul="%y, [[[[[2.0, 1.5, -0.5]]]]]", add=ADD)
    check_pass(
        text, "fuse_batchnorm_with_tconv", refused="has shape [1,1,10,8,3], the rewrite gives [1,10,8,3]"
    )


@pytest.mark.parametrize("bias", ["", ", %b"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("stride", [1, 2])
def test_a_batch_norm_is_fused_into_a_convolution(scale: str, bias: str, stride: int) -> None:
    op = f"Conv2D(%x, %w{bias}) {{stride_h: {stride}, dilation_w: 1, padding: VALID}}"
    text = chain(op, mul=f"%y, {scale}", add=ADD, act=" {act: RELU6}")
    (left,) = check_pass(text, "fuse_batchnorm_with_conv", expect_ops=["Conv2D"]).main.ops
    assert isinstance(left, Conv2D)
    assert left.stride_h == stride
    assert left.act.name == "RELU6"


DEPTHWISE = "DepthwiseConv2D(%x, %w) {depth_multiplier: 3}"


@pytest.mark.parametrize(
    "scale", ["[2.0, 1.5, -0.5, 1.0, -3.0, 0.25]", "0.5", "[[[[2.0, 1.5, -0.5, 1.0, 3.0, 4.0]]]]"]
)
def test_a_batch_norm_is_fused_into_a_depthwise_convolution_with_a_multiplier(scale: str) -> None:
    text = chain(DEPTHWISE, mul=f"%y, {scale}", add="%last, 0.5")
    (op,) = check_pass(text, "fuse_batchnorm_with_dwconv", expect_ops=["DepthwiseConv2D"]).main.ops
    assert isinstance(op, DepthwiseConv2D)
    assert op.depth_multiplier == 3


@pytest.mark.parametrize(
    ("kind", "op"), [("conv", "Conv2D(%x, %w)"), ("dwconv", DEPTHWISE), ("tconv", TCONV)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_a_factor_or_an_offset_alone_is_fused(kind: str, op: str, bias: bool) -> None:
    name = op.split("(")[0]
    if bias:
        values = "[1.0, 2.0, -3.0, 0.5, 0.25, -1.0]" if kind == "dwconv" else "%b"
        op = op.replace(")", f", {values})", 1) if kind != "tconv" else op.replace("%x)", "%x, %b)")
    check_pass(chain(op, mul="%y, 0.5", act=" {act: RELU}"), f"fuse_mul_with_{kind}", expect_ops=[name])
    check_pass(chain(op, add="%last, -0.5", act=" {act: RELU}"), f"fuse_add_with_{kind}", expect_ops=[name])


@pytest.mark.parametrize("kind", ["conv", "dwconv", "tconv"])
def test_a_factor_or_an_offset_of_a_shared_result_is_refused(kind: str) -> None:
    op = {"conv": "Conv2D(%x, %w)", "dwconv": DEPTHWISE, "tconv": TCONV}[kind]
    shared = {"more": "%o = Neg(%y)", "result": "%z, %o"}
    check_pass(chain(op, mul="%y, 0.5", **shared), f"fuse_mul_with_{kind}", refused="is also read by Neg")
    check_pass(chain(op, add="%last, 0.5", **shared), f"fuse_add_with_{kind}", refused="is also read by Neg")


def dense(rest: str, bias: str = "none", more: str = "", result: str = "%z", kind: str = "const") -> str:
    """Return a fully connected layer %y of %x, then the lines ``rest`` and ``more``."""
    weights = "%w = const f32[3,4] gaussian(0, 1)" if kind == "const" else "%w = Neg(%free)"
    return f"""graph main(%x: f32[2,5,4], %free: f32[3,4], %dyn: f32[3]) -> {result} {{
      {BIAS}
      {weights}
      %y = FullyConnected(%x, %w, {bias}) {{keep_num_dims: true}}
      {rest}
      {more}
    }}"""


@pytest.mark.parametrize("bias", ["none", "%b"])
@pytest.mark.parametrize("scale", SCALES[:1] + SCALES[2:] + ["[[[2.0, 1.5, -0.5]]]"])
def test_a_factor_or_an_offset_is_fused_into_a_fully_connected_layer(scale: str, bias: str) -> None:
    for operation in ("mul", "add"):
        name = {"mul": "fuse_mul_with_fullyconnected", "add": "fuse_add_with_fully_connected"}[operation]
        for operands in (f"%y, {scale}", f"{scale}, %y"):
            text = dense(f"%z = {operation.title()}({operands}) {{act: RELU}}", bias)
            check_pass(text, name, expect_ops=["FullyConnected"])


def test_an_offset_needs_no_constant_weights() -> None:
    text = dense("%z = Add(%y, [1.0, 2.0, 3.0])", kind="computed")
    check_pass(text, "fuse_add_with_fully_connected", expect_ops=["Neg", "FullyConnected"])


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        (dense("%z = Add(%y, %dyn)"), "fuse_add_with_fully_connected", "%dyn: is not constant"),
        (dense("%z = Add(%y, 1.0)", "%dyn"), "fuse_add_with_fully_connected", "%dyn: is not constant"),
        (dense("%z = Mul(%y, 2.0)", kind="computed"), "fuse_mul_with_fullyconnected", "%w: is not constant"),
        (
            dense("%z = Mul(%y, 2.0)", more="%o = Neg(%y)", result="%z, %o"),
            "fuse_mul_with_fullyconnected",
            "%y: is also read by Neg",
        ),
        (
            dense("%z = Mul(%y, [[1.0], [2.0], [3.0], [4.0], [5.0]])"),
            "fuse_mul_with_fullyconnected",
            "shape is [5,1], expected [*,O|1] with O = 3",
        ),
        (
            dense("%z = Mul(%y, 2.0)").replace("keep_num_dims", "act: RELU, keep_num_dims"),
            "fuse_mul_with_fullyconnected",
            "%y: act is RELU",
        ),
    ],
)
def test_fully_connected_near_misses(text: str, name: str, sentence: str) -> None:
    check_pass(text, name, refused=sentence)
