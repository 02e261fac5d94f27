# SPDX-License-Identifier: Apache-2.0
"""Batch norms after data movement or pooling, and before a convolution."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.text import parse_model
from circlekit.passes.normalization.forward_batchnorm import ForwardBatchNorm
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

# one number per channel, for channels on the last axis, on axis 1 and on axis 0; ROW for each of 36 pixels
ROW = "[1.5, -0.5, 2.0, 0.25]"
COLUMN = "[[[1.5]], [[-0.5]], [[2.0]], [[0.25]]]"
FIRST = "[[[[1.5]]], [[[-0.5]]], [[[2.0]]], [[[0.25]]]]"
REPEATED = f"[{', '.join([ROW[1:-1]] * 36)}]"
BORDER = "[[0,0],[1,1],[1,1],[0,0]]"
POOL = "AveragePool2D(%a) {filter_height: 3, filter_width: 3, stride_h: 2, stride_w: 2}"
IDENTITY = 'Opaque(%a) {code: "CUSTOM", custom_code: "FlexIdentity"} : f32[1,6,6,4]'


def net(between: str, norm: str) -> str:
    """Return a convolution %a, then %b = ``between``, then ``norm``, which makes %y of %b."""
    return f"""
    graph main(%x: f32[1,6,6,3]) -> %y {{
      %w = const f32[4,3,3,3] gaussian(0, 0.3)
      %a = Conv2D(%x, %w, none)
      %b = {between}
      {norm}
    }}
    """


@pytest.mark.parametrize(
    ("between", "constant", "left"),
    [
        ("Reshape(%a, [1,144])", REPEATED, ["Reshape"]),
        ("Squeeze(%a)", ROW, ["Squeeze"]),
        ("ExpandDims(%a, 0)", ROW, ["ExpandDims"]),
        ("Slice(%a, [0,1,1,0], [1,2,3,4])", ROW, ["Slice"]),
        ("Transpose(%a, [0,3,1,2])", COLUMN, ["Transpose"]),
        ("Transpose(%a, [3,0,1,2])", FIRST, ["Transpose"]),
        ("Transpose(%a, [0,3,1,2])", "2.0", ["Transpose"]),
        ("Reshape(%a, [1,144])", "2.0", ["Reshape"]),
        ("Reshape(%a, [1,2,18,4])", f"[[{ROW}], [{ROW}]]", ["Reshape"]),
        ("StridedSlice(%a, [0,0,5,0], [1,6,-7,4], [1,2,-1,1])", ROW, ["StridedSlice"]),
        (POOL, ROW, ["AveragePool2D"]),
        ("Mean(%a, [1,2])", ROW, ["Mean"]),
        ("Mean(%a, [-2]) {keep_dims: true}", ROW, ["Mean"]),
        ("ResizeBilinear(%a, [9,9])", ROW, ["ResizeBilinear"]),
        ("ResizeNearestNeighbor(%a, [9,9])", ROW, ["ResizeNearestNeighbor"]),
        (f"Pad(%a, {BORDER})", ROW, ["Pad", "Add"]),
        ("Concatenation(%a) {axis: 3}", ROW, []),
        (IDENTITY, ROW, []),
    ],
)
def test_norms_move_across_data_movement_and_pooling(between: str, constant: str, left: list[str]) -> None:
    text = net(between, f"%m = Mul(%b, {constant}) %y = Add(%m, {constant})")
    check_pass(text, "fold_batch_norms", ["Conv2D", *left])


@pytest.mark.parametrize(
    ("between", "norm", "sentence"),
    [
        ("Mean(%a, [3]) {keep_dims: true}", "%y = Mul(%b, 2.0)", "expected the channels of"),
        ("AveragePool2D(%a) {act: RELU}", "%y = Mul(%b, 2.0)", "%b: act is RELU"),
        ("Mean(%a, [1,2])", "%y = Mul(%b, 2.0) {act: RELU}", "%y: act is RELU"),
        (
            "Transpose(%a, [0,3,1,2])",
            "%y = Mul(%b, [1.0,2.0,3.0,4.0,5.0,6.0])",
            "one number per channel, along axis",
        ),
        (
            "StridedSlice(%a, [0,0,0,3], [1,6,6,-5], [1,1,1,-1])",
            f"%y = Mul(%b, {ROW})",
            "%b: reverses the channels",
        ),
        *(
            (
                "Slice(%a, [0,0,0,0], [1,6,4,4])",
                f"%c = Mean(%b, [{axis}]) %y = Mul(%c, {ROW})",
                "%c: expected the channels of [1,6,4,4], got shape [1,6,4]",
            )
            for axis in (3, -1)
        ),
        (f"Pad(%a, {BORDER})", "%c = Mean(%b, [1,2]) %y = Add(%c, 2.0)", "%b: comes from Pad"),
    ],
)
def test_norms_that_cannot_move_are_refused(between: str, norm: str, sentence: str) -> None:
    check_pass(net(between, norm), "forward_batchnorm", refused=sentence)


def test_a_number_moves_before_a_reshape_to_an_unknown_rank() -> None:
    model = parse_model("""
    graph main(%x: f32[2,4], %s: i32[?]) -> %y {
      %w = const f32[1,4] gaussian(0, 0.3)
      %a = FullyConnected(%x, %w)
      %b = Reshape(%a, %s)  : f32[*]
      %y = Mul(%b, 2.0)     : f32[*]
    }
    """)
    assert ForwardBatchNorm().run(model, Context())
    assert [type(op).__name__ for op in model.main] == ["FullyConnected", "Mul", "Reshape"]


@pytest.mark.parametrize("shape", ["?,?", "6,?", "?,6"])
def test_factors_stay_if_they_may_broadcast_the_result_of_the_reshape(shape: str) -> None:
    """A dimension that is unknown may be 1, and the factors would make it 2 or 6."""
    factors = "[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]"
    constant = f"[{factors}, {factors}]" if shape == "?,6" else factors
    text = f"""
    graph main(%x: f32[2,4], %s: i32[2]) -> %y {{
      %w = const f32[3,4] gaussian(0, 0.3)
      %a = FullyConnected(%x, %w)
      %b = Reshape(%a, %s)         : f32[{shape}]
      %y = Mul(%b, {constant})     : f32[?,6]
    }}
    """
    check_refusal(text, "forward_batchnorm", f"may change the shape [{shape}] of %b")


def joined(
    parts: str = "%a, %b", norm: str = "Mul(%c, 2.0)", type: str = "f32[1,4,4,5]", outputs: str = "%y"
) -> str:
    """Return two convolutions %a and %b, %c = Concatenation(``parts``), and %y = ``norm``, which reads %c."""
    return f"""
    graph main(%x: f32[1,4,4,3], %wide: f32[1,4,4,?], %any: f32[*], %i: i32[1,4,4,5]) -> {outputs} {{
      %a = Conv2D(%x, [[[[1.0, 2, 3]]], [[[4.0, 5, 6]]]], none)
      %b = Conv2D(%x, [[[[1.0, 2, 3]]], [[[4.0, 5, 6]]], [[[7.0, 8, 9]]]], none)
      %c = Concatenation({parts}) {{axis: 3}}  : {type}
      %y = {norm}
      %z = Neg(%c)
    }}
    """


def test_a_number_moves_into_all_parts_of_a_concatenation() -> None:
    text = joined().replace("%z = Neg(%c)", "").replace(", %wide: f32[1,4,4,?], %any: f32[*]", "")
    check_pass(text, "forward_batchnorm_over_concat", ["Conv2D", "Conv2D", "Mul", "Mul", "Concatenation"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (joined(outputs="%y, %z"), "%c: has other users, or is an output of the graph"),
        (joined("%a, %wide").replace("%z = Neg(%c)", ""), "%c: has parts of unknown size"),
        (joined("%a, %any").replace("%z = Neg(%c)", ""), "%c: has parts of unknown size"),
        (
            joined(norm="Mul(%c, [[[[[2.0]]]]])").replace("%z = Neg(%c)", ""),
            "%y: has shape [1,1,4,4,5], the rewrite gives [1,4,4,5]",
        ),
        (joined("%i, %i", "Mul(%c, 2)", "i32[1,4,4,10]"), "%c: expected f32, got i32"),
    ],
)
def test_norms_stay_behind_concatenations(text: str, sentence: str) -> None:
    check_refusal(text, "forward_batchnorm_over_concat", sentence)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("kind", ["conv", "dwconv"])
def test_images_are_normalized_in_the_convolution(kind: str, padding: str) -> None:
    """The convolution reads (x - mean) / deviation.

    With SAME, the subtraction of the mean stays: a bias would shift the zeros of the padding, too.
    """
    filter, call = ("[4,3,3,3]", "Conv2D") if kind == "conv" else ("[1,3,3,6]", "DepthwiseConv2D")
    more = ", depth_multiplier: 2" if kind == "dwconv" else ""
    text = f"""
    graph main(%x: f32[2,6,6,3]) -> %y {{
      %w = const f32{filter} gaussian(0, 0.3)
      %c = Sub(%x, [0.5, 0.25, 0.125])
      %n = Div(%c, [2.0, 3.0, 4.0])
      %y = {call}(%n, %w, none) {{padding: {padding}{more}, act: RELU}}
    }}
    """
    left = ["Sub"] if padding == "SAME" else []
    check_pass(text, ["fuse_mul_to_conv_weights", "fuse_add_to_conv_bias"], [*left, call])


VIEWS = [
    *(
        "Reshape(%a, " + shape + ")"
        for shape in ("[1,24]", "[6,4]", "[4,6]", "[1,3,8]", "[2,3,1,4]", "[24,1]", "[12,2]")
    ),
    *(f"Transpose(%a, {perm})" for perm in ("[0,3,1,2]", "[3,0,2,1]", "[0,1,2,3]", "[1,2,3,0]")),
    "Squeeze(%a)",
    "ExpandDims(%a, 0)",
]
SHAPES = [
    *([], [1], [1, 1], [4], [1, 4], [4, 1], [4, 1, 1], [1, 4, 1, 1], [4, 1, 1, 1], [2], [8], [24], [12, 2]),
    *([24, 1], [6, 4], [6, 1], [4, 6], [3, 8], [3, 1], [2, 1, 1], [3, 1, 4], [2, 3, 1, 4], [1, 1, 1, 1, 1]),
]


@pytest.mark.parametrize("call", VIEWS)
def test_factors_move_before_views_if_each_channel_keeps_its_own(call: str) -> None:
    """Try factors of all SHAPES that broadcast; they may move only if each channel gets a single number."""
    moved = 0
    for shape in SHAPES:
        for kind in ("one", "period 4", "period 2", "different"):
            size = int(np.prod(shape))
            period = {"one": 1, "period 4": 4, "period 2": 2, "different": max(size, 1)}[kind]
            numbers = (1.0 + np.arange(size) % period).astype(np.float32).reshape(shape)
            literal = f"const f32{shape} {numbers.tolist()}"
            text = f"""graph main(%x: f32[1,2,3,2]) -> %y {{
              %w = const f32[4,1,1,2] gaussian(0, 1)
              %c = {literal}
              %a = Conv2D(%x, %w, none)
              %v = {call}
              %y = Mul(%v, %c)
            }}"""
            try:
                model = parse_model(text)
            except ShapeError:  # the factors do not broadcast
                continue
            view = model.main.ops[1]
            if model.main.outputs[0].shape != view.output.shape:
                continue
            channel_numbers = np.broadcast_to(np.arange(4, dtype=np.float32), (1, 2, 3, 4))
            operands = [channel_numbers, *(v.array() for v in view.inputs[1:] if v is not None)]
            channels = np.asarray(evaluate(view, operands)[0])
            factors = np.broadcast_to(numbers, channels.shape)
            expected = [np.unique(factors[channels == channel]) for channel in range(4)]
            is_one_each = all(each.size == 1 for each in expected)
            if not ForwardBatchNorm().run(model, Context()):  # equal numbers and few numbers may be refused
                assert not is_one_each or kind == "one" or size < 4, (shape, kind)
                continue
            moved += 1
            assert is_one_each, (shape, kind)
            (factor,) = (v for v in model.main.ops[1].inputs if v is not None and v.is_const)
            found = np.broadcast_to(factor.array().reshape(-1), (4,))
            np.testing.assert_array_equal(found, np.concatenate(expected))
    assert moved >= 4


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
