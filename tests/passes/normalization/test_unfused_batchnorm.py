# SPDX-License-Identifier: Apache-2.0
"""Batch norms that are written as several operators become part of the layer before them.

Also, a convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND becomes a dilated convolution.
"""

from __future__ import annotations

import pytest

from circlekit.ir.enums import Padding
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.passes.pipelines import pipeline_passes
from tests.passes.kit import check_pass

PRODUCTS = {
    "conv": ("f32[1,6,6,3]", "[4,3,3,3]", "Conv2D(%x, %w, none)", "Conv2D"),
    "dwconv": ("f32[1,6,6,4]", "[1,3,3,4]", "DepthwiseConv2D(%x, %w, none)", "DepthwiseConv2D"),
    "tconv": ("f32[1,6,6,3]", "[4,3,3,3]", "TransposeConv([1,6,6,4], %w, %x)", "TransposeConv"),
    "fc": ("f32[6,3]", "[4,3]", "FullyConnected(%x, %w, none)", "FullyConnected"),
}

STATISTICS = """
  %mean = const f32[4] uniform(-1, 1)
  %variance = const f32[4] uniform(0.5, 2)
  %gamma = const f32[4] uniform(0.5, 2)
  %beta = const f32[4] uniform(-1, 1)
  %shifted = Add(%variance, 0.001)
"""

RSQRT = """
  %r = Rsqrt(%shifted)
  %s = Mul(%r, %gamma)
  %m = Mul({0}, %s)
  %t = Mul(%mean, %s)
  %o = Sub(%beta, %t)
  %y = Add(%m, %o) {{act: RELU}}
"""
"""As tf.nn.batch_normalization writes it."""

SUBTRACTED = """
  %c = Sub({0}, %mean)
  %d = Sqrt(%shifted)
  %n = Div(%c, %d)
  %g = Mul(%n, %gamma)
  %y = Add(%g, %beta)
"""
"""As in the paper that introduced batch normalization (Ioffe and Szegedy, 2015)."""

REVERSED = """
  %c = Sub(%mean, {0})
  %r = Rsqrt(%shifted)
  %n = Mul(%r, %c)
  %y = Sub(%n, %beta) {{act: RELU6}}
"""


def net(kind: str, norm: str, between: str = "") -> str:
    """Return a layer %a, then ``between``, which makes %b from %a, then a batch norm of %b.

    Without ``between``, the batch norm reads %a.
    """
    x, w, call, _ = PRODUCTS[kind]
    name = "%b" if between else "%a"
    return f"""
graph main(%x: {x}) -> %y {{
  %w = const f32{w} gaussian(0, 0.3)
  {STATISTICS}
  %a = {call}
  {between}
  {norm.format(name)}
}}
"""


@pytest.mark.parametrize("norm", [RSQRT, SUBTRACTED, REVERSED], ids=["rsqrt", "subtracted", "reversed"])
@pytest.mark.parametrize("kind", PRODUCTS)
@pytest.mark.parametrize("passes", ["O1", "fold_batch_norms"])
def test_batchnorm_is_folded(kind: str, norm: str, passes: str) -> None:
    name = PRODUCTS[kind][3]
    pipeline = ["fold_batch_norms"] if passes != "O1" else PASSES_OF_O1
    check_pass(net(kind, norm), pipeline, [name])


PASSES_OF_O1 = [
    "fold_constants", "normalize_batchnorm", "fuse_mul_with_conv", "fuse_mul_with_dwconv",
    "fuse_mul_with_tconv", "fuse_mul_with_fullyconnected", "fuse_add_with_conv", "fuse_add_with_dwconv",
    "fuse_add_with_tconv", "fuse_add_with_fully_connected",
]  # fmt: skip
"""The passes of the pipeline O1 that together fold a batch norm."""


def test_folded_across_a_reshape() -> None:
    text = net("conv", SUBTRACTED, "%b = Reshape(%a, [36,4])")
    check_pass(text, "fold_batch_norms", ["Conv2D", "Reshape"])
    text = net("fc", RSQRT, "%b = Reshape(%a, [2,3,4])")
    check_pass(text, "fold_batch_norms", ["FullyConnected", "Reshape"])


MOVES = {
    "slice": "Slice(%a, [0,1,1,0], [1,4,5,-1])",
    "strided_slice": "StridedSlice(%a, [0,-1,1,0], [1,0,6,4], [1,-2,2,1]) {end_mask: 8}",
    "nearest": "ResizeNearestNeighbor(%a, [9,11]) {half_pixel_centers: true}",
    "bilinear": "ResizeBilinear(%a, [9,11]) {align_corners: true}",
}


@pytest.mark.parametrize("kind", ["conv", "dwconv", "tconv"])
@pytest.mark.parametrize("move", MOVES)
def test_folded_across_data_movement(kind: str, move: str) -> None:
    model = check_pass(net(kind, SUBTRACTED, f"%b = {MOVES[move]}"), "fold_batch_norms")
    assert [type(op).__name__ for op in model.main] == [PRODUCTS[kind][3], MOVES[move].partition("(")[0]]


@pytest.mark.parametrize(
    ("between", "sentence"),
    [
        ("%b = Slice(%a, [0,0,0,1], [1,6,6,2])", "expected the channels of"),
        ("%b = StridedSlice(%a, [0,0,0,3], [1,6,6,-5], [1,1,1,-1])", "reverses the channels"),
        ("%b = Reshape(%a, [18,4,2])", "expected the channels of"),
        ("%e = Relu(%a) %b = Reshape(%e, [36,4])", "comes from Relu"),
    ],
)
def test_not_folded_across_changes_of_channels(between: str, sentence: str) -> None:
    constant = "%k" if "[18,4,2]" in between else "2.0"
    text = f"""
    graph main(%x: f32[1,6,6,3]) -> %y {{
      %w = const f32[4,3,3,3] gaussian(0, 0.3)
      %a = Conv2D(%x, %w, none)
      {between}
      %k = const f32[2] uniform(1, 2)
      %y = Mul(%b, {constant})
    }}
    """
    check_pass(text, "forward_batchnorm", refused=sentence)


def test_arithmetic_that_is_no_batchnorm_of_a_layer_stays() -> None:
    text = "graph main(%x: f32[2,4]) -> %y { %a = Tanh(%x) %y = Sub(%a, [1.0, 2.0, 3.0, 4.0]) }"
    check_pass(text, "normalize_batchnorm", refused="comes from Tanh")
    text = """
    graph main(%x: f32[2,4]) -> %y {
      %w = const f32[4,4] uniform(-1, 1)
      %a = FullyConnected(%x, %w, none)
      %y = Div(%a, [[1.0], [2.0]])
    }
    """
    check_pass(text, "normalize_batchnorm", refused="one number per channel")


# -- dilation ----------------------------------------------------------------------------------

BLOCKS = """
graph main(%x: f32[1,12,10,3]) -> %y {{
  %w = const f32{} gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2,2], {})
  %c = {}
  %y = BatchToSpaceND(%c, [2,2], {})
}}
"""
CONV = "Conv2D(%s, %w, none) {padding: VALID, act: RELU}"
CONV_SAME = CONV.replace("VALID", "SAME")
DWCONV = "DepthwiseConv2D(%s, %w, none) {padding: VALID}"


@pytest.mark.parametrize(
    ("filter", "pads", "call", "crops", "ops", "padding"),
    [
        ("[4,3,3,3]", "[[2,2],[2,2]]", CONV, "[[0,0],[0,0]]", ["Conv2D"], Padding.SAME),
        ("[1,3,3,3]", "[[2,2],[2,2]]", DWCONV, "[[0,0],[0,0]]", ["DepthwiseConv2D"], Padding.SAME),
        ("[4,3,3,3]", "[[0,0],[0,0]]", CONV, "[[0,0],[0,0]]", ["Conv2D"], Padding.VALID),
        ("[4,3,3,3]", "[[2,4],[2,2]]", CONV, "[[0,2],[0,0]]", ["Conv2D"], Padding.SAME),
        ("[4,3,3,3]", "[[0,0],[0,0]]", CONV_SAME, "[[0,0],[0,0]]", ["Conv2D"], Padding.SAME),
        ("[4,2,4,3]", "[[2,0],[2,2]]", CONV_SAME, "[[0,0],[0,0]]", ["Pad", "Conv2D"], Padding.VALID),
        ("[4,3,3,3]", "[[4,2],[2,2]]", CONV, "[[0,0],[0,0]]", ["Pad", "Conv2D"], Padding.VALID),
        ("[4,2,2,3]", "[[0,2],[1,1]]", CONV, "[[0,0],[0,0]]", ["Pad", "Conv2D"], Padding.VALID),
    ],
)
def test_blocks_become_dilation(
    filter: str, pads: str, call: str, crops: str, ops: list[str], padding: Padding
) -> None:
    """The padding of the dilated convolution is ``pads`` minus ``crops``; a SAME Conv2D adds its own padding.

    With dilation 2, the SAME padding of a 3x3 filter is 2 on each side.  A Pad adds a padding that is neither
    0 nor that of SAME.
    """
    model = check_pass(BLOCKS.format(filter, pads, call, crops), "fuse_space_to_batch_with_conv", ops)
    conv = model.main.ops[-1]
    assert isinstance(conv, Conv2D | DepthwiseConv2D)
    assert (conv.padding, conv.dilation_h, conv.dilation_w) == (padding, 2, 2)


@pytest.mark.parametrize(
    ("pads", "call", "crops", "sentence"),
    [
        (
            "[[0,0],[0,0]]",
            CONV,
            "[[1,0],[0,0]]",
            "expected crops up to the padding, got a negative padding in total: [(-1, 0), (0, 0)]",
        ),
        ("[[2,2],[2,2]]", CONV.replace("act: RELU", "stride_h: 2"), "[[0,0],[0,0]]", "stride_h is 2"),
    ],
)
def test_blocks_stay(pads: str, call: str, crops: str, sentence: str) -> None:
    check_pass(
        BLOCKS.format("[4,3,3,3]", pads, call, crops), "fuse_space_to_batch_with_conv", refused=sentence
    )


def test_batchnorm_after_batch_to_space() -> None:
    text = net("conv", SUBTRACTED, "%b = BatchToSpaceND(%a, [2,2], %k)")
    text = text.replace("%a = Conv2D(%x, %w, none)", "%a = Conv2D(%s, %w, none) {padding: VALID}")
    text = text.replace(
        "%a = Conv2D",
        "%k = const i32[2,2] [0,0,0,0]\n %s = SpaceToBatchND(%x, [2,2], [[2,2],[2,2]])\n %a = Conv2D",
    )
    check_pass(text, "fold_batch_norms", ["Conv2D"])
    crops = text.replace("[[2,2],[2,2]]", "[[0,0],[0,0]]").replace("[0,0,0,0]", "[1,1,0,0]")
    check_pass(crops, "fold_batch_norms", ["SpaceToBatchND", "Conv2D", "BatchToSpaceND"])


# -- other passes ------------------------------------------------------------------------------


def test_unused_operators_and_identities_are_removed() -> None:
    text = """
    graph main(%x: f32[2,4]) -> %y {
      %unused = Tanh(%x)
      %a = Reshape(%x, [2,4])
      %b = Concatenation(%a) {axis: 0}
      %y = Neg(%b)
    }
    """
    check_pass(text, "strip_unused_nodes", ["Reshape", "Concatenation", "Neg"])
    check_pass(text, "remove_nodes", ["Tanh", "Neg"])


def test_an_addition_moves_over_a_concatenation_if_only_its_channels_are_known() -> None:
    text = """graph main(%x: f32[1,?,?,3]) -> %y {
      %w = const f32[2,1,1,3] gaussian(0, 0.3)
      %v = const f32[3,1,1,3] gaussian(0, 0.3)
      %a = Conv2D(%x, %w, none)
      %b = Conv2D(%x, %v, none)
      %c = Concatenation(%a, %b) {axis: -1}
      %y = Add(%c, [0.5, 1.0, -2.0, 3.0, 0.25])
    }"""
    check_pass(text, "forward_batchnorm_over_concat", ["Conv2D", "Conv2D", "Add", "Add", "Concatenation"])


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("%m = FullyConnected(%x, %w, none)", ["FullyConnected"]),
        ("%b = Neg(%v) %m = FullyConnected(%x, %w, %b)", ["Neg", "FullyConnected", "Sub"]),
        ("%m = FullyConnected(%x, %q, none) : f32[6,4]", ["FullyConnected", "Sub"]),
        ("%a = FullyConnected(%x, %w, none) %m = Mean(%a, [1])", ["FullyConnected", "Mean", "Mul", "Add"]),
    ],
    ids=["folded", "computed bias", "integer weights", "mean of channels"],
)
def test_a_difference_that_no_layer_absorbs_ends_the_pipeline(lines: str, left: list[str]) -> None:
    """``normalize_batchnorm`` and ``fuse_neg`` do not undo each other's rewrites for ever."""
    text = f"""
graph main(%x: f32[6,3], %v: f32[4]) -> %y {{
  %w = const f32[4,3] gaussian(0, 0.3)
  %q = const i8[4,3] quant(scale: 0.5) uniform(-9, 9)
  {lines}
  %y = Sub(2.0, %m)
}}
"""
    check_pass(text, pipeline_passes("O1"), left)
