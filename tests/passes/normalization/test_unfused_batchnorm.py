# SPDX-License-Identifier: Apache-2.0
"""Batch norms that are written as several operators become part of the layer before them."""

from __future__ import annotations

import pytest

from circlekit.passes.pipelines import pipeline_passes
from tests.passes.kit import check_pass

LAYERS = {
    "conv": ("f32[1,6,6,3]", "[4,3,3,3]", "Conv2D(%x, %w, none)", "Conv2D"),
    "dwconv": ("f32[1,6,6,4]", "[1,3,3,4]", "DepthwiseConv2D(%x, %w, none)", "DepthwiseConv2D"),
    "tconv": ("f32[1,6,6,3]", "[4,3,3,3]", "TransposeConv([1,6,6,4], %w, %x)", "TransposeConv"),
    "fc": ("f32[6,3]", "[4,3]", "FullyConnected(%x, %w, none)", "FullyConnected"),
}
"""{kind: shape of %x, shape of %w, call, class of the call}; all have 4 output channels."""

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
    x, w, call, _ = LAYERS[kind]
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
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("passes", [pipeline_passes("O1"), ["fold_batch_norms"]], ids=["O1", "fold"])
def test_batchnorm_is_folded(kind: str, norm: str, passes: list[str]) -> None:
    check_pass(net(kind, norm), passes, [LAYERS[kind][3]])


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
    assert [type(op).__name__ for op in model.main] == [LAYERS[kind][3], MOVES[move].partition("(")[0]]


@pytest.mark.parametrize(
    ("between", "factor", "sentence"),
    [
        ("%b = Slice(%a, [0,0,0,1], [1,6,6,2])", "2.0", "expected the channels of"),
        ("%b = StridedSlice(%a, [0,0,0,3], [1,6,6,-5], [1,1,1,-1])", "2.0", "reverses the channels"),
        ("%b = Reshape(%a, [18,4,2])", "[1.0, 2.0]", "expected the channels of"),
        ("%e = Relu(%a) %b = Reshape(%e, [36,4])", "2.0", "comes from Relu"),
    ],
)
def test_not_moved_before_a_change_of_channels_or_an_activation(
    between: str, factor: str, sentence: str
) -> None:
    text = f"""
    graph main(%x: f32[1,6,6,3]) -> %y {{
      %w = const f32[4,3,3,3] gaussian(0, 0.3)
      %a = Conv2D(%x, %w, none)
      {between}
      %y = Mul(%b, {factor})
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
