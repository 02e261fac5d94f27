# SPDX-License-Identifier: Apache-2.0
"""Operators that break their shape rule or their declaration, as in damaged files, are left alone."""

from __future__ import annotations

import pytest

from tests.passes.kit import refusals

BROKEN = {
    "forward_number": """
        %w = const f32[] 1.0
        %f = FullyConnected(%x, %w) : f32[2,4]
        %y = Mul(%f, 2.0)""",
    "join_fully_connected": """
        %v = const f32[] 1.0
        %w = const f32[] 2.0
        %f = FullyConnected(%x, %v) : f32[2,4]
        %g = FullyConnected(%x, %w) : f32[2,4]
        %y = Add(%f, %g)""",
    "join_grouped_convolution": """
        %i = Reshape(%x, [1,1,2,4])
        %w = const f32[3,1,1,2] gaussian(0, 1)
        %a, %b = Split(3, %i) {num_splits: 2}
        %c = Conv2D(%a, %w, [1.0, 2.0]) : f32[1,1,2,3]
        %d = Conv2D(%b, %w, [1.0, 2.0]) : f32[1,1,2,3]
        %y = Concatenation(%c, %d) {axis: 3}""",
    "forward_split": """
        %a, %b = Split(-7, %x) {num_splits: 2} : f32[2,2], f32[2,2]
        %c = Neg(%a)
        %d = Neg(%b)
        %y = Add(%c, %d)""",
    "fuse_neg_with_factor": """
        %n = Neg(%x)
        %t = Reshape(%n, [4,2])
        %y = Mul(%t, [1.0, 2.0, 3.0]) : f32[4,2]""",
    "forward_transpose_op": """
        %t = Transpose(%x, [1,0])
        %y = Add(%t, [1.0, 2.0, 3.0]) : f32[4,2]""",
    "backward_slice": """
        %m = Mean(%x, [-7]) {keep_dims: true} : f32[2,1]
        %d = Sub(%x, %m)
        %y = Slice(%d, [0,0], [1,4])""",
    "forward_split (rank)": """
        %a, %b = Split(1, %x) {num_splits: 2}
        %c = Neg(%a) : f32[2]
        %d = Neg(%b) : f32[2]
        %y = Concatenation(%c, %d)""",
    "fuse_mean_subtraction": """
        %w = const f32[5,4] gaussian(0, 1)
        %f = FullyConnected(%x, %w, 1.0) : f32[2,5]
        %m = Mean(%f, [-1]) {keep_dims: true}
        %y = Sub(%f, %m)""",
    "merge_data_movement": """
        %w = const f32[] 1.0
        %f = FullyConnected(%x, %w) : f32[2,6]
        %r = Reshape(%f, [2,2,3])
        %t = Transpose(%r, [0,2,1])
        %y = Reshape(%t, [2,6])""",
    "merge_data_movement (perm)": """
        %t = Transpose(%x, [1,0])
        %s = Transpose(%t, [-7,0]) : f32[4,2]
        %y = Add(%s, %t)""",
    "substitute_padv2_to_pad": """
        %i = Reshape(%x, [1,2,4,1])
        %r = Relu(%i)
        %p = PadV2(%r, [[0,0],[1,0],[0,0],[0,0]], -1.0)
        %t = Transpose(%p, [0,-7,1,3]) : f32[1,4,3,1]
        %y = MaxPool2D(%t) {filter_width: 2}""",
    "order_channels": """
        %w = const f32[] 1.0
        %v = const f32[8,4] gaussian(0, 1)
        %a = FullyConnected(%x, %w) : f32[2,8]
        %b = FullyConnected(%x, %v)
        %c = Concatenation(%a, %b) {axis: 1}
        %r = Reshape(%c, [2,2,8])
        %t = Transpose(%r, [0,2,1])
        %s = Reshape(%t, [2,16])
        %y = Neg(%s)""",
    "order_channels (depthwise)": """
        %i = Reshape(%x, [1,1,2,4])
        %w = const f32[] 1.0
        %v = const f32[8,1,1,4] gaussian(0, 1)
        %a = Conv2D(%i, %v)
        %d = DepthwiseConv2D(%a, %w) {depth_multiplier: 1} : f32[1,1,2,8]
        %b = Conv2D(%i, %v)
        %c = Concatenation(%d, %b) {axis: 3}
        %r = Reshape(%c, [1,1,2,2,8])
        %t = Transpose(%r, [0,1,2,4,3])
        %s = Reshape(%t, [1,1,2,16])
        %y = Neg(%s)""",
    "convert_nchw_to_nhwc": """
        %i = Reshape(%x, [1,2,2,2])
        %y = Mean(%i, [2]) : f32[1,2]""",
    "optimize_layout": """
        %t = Transpose(%x, [1,0])
        %y = Transpose(%t, [1,0]) : f32[2]""",
    "convert_nchw_to_nhwc (concatenation)": """
        %i = Reshape(%x, [1,1,2,4])
        %c = Concatenation(%i, %i) {axis: -1} : f32[1,1]
        %y = Neg(%c)""",
    "substitute_transpose_to_reshape": """
        %p = const f32[2] [0.0, 1.0]
        %y = Transpose(%x, %p) : f32[2,4]""",
    "remove_reshape_around_unaryop (operand)": """
        %r = Reshape(%x, [4,2])
        %a = Mul(%r, [1.0, 2.0, 1.0, 2.0]) : f32[4,2]
        %y = Reshape(%a, [2,4])""",
    "replace_non_const_fc_with_batch_matmul": """
        %n = Neg(%x)
        %y = FullyConnected(%x, %n, [1.0, 2.0, 3.0]) : f32[2,3]""",
    "remove_reshape_around_unaryop": """
        %r = Reshape(%x, [3,2]) : f32[3,2]
        %a = Add(%r, [[1.0],[2.0],[3.0]])
        %y = Reshape(%a, [2,4]) : f32[2,4]""",
    "fuse_transpose_with_fullyconnected": """
        %t = Transpose(%x, [-7,-7]) : f32[2,4]
        %y = FullyConnected(%x, %t) : f32[2,2]""",
}
"""{pass (variant): operators that the pass examines; at least one of them is broken}."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_operator_is_left_alone(name: str) -> None:
    refusals(f"graph main(%x: f32[2,4]) -> %y {{ {BROKEN[name]} }}", name.split()[0])


def test_constants_of_which_only_one_fits_an_input_of_unknown_rank_are_left_alone() -> None:
    model = "graph main(%x: f32[*]) -> %y { %m = Mul(%x, [1.0, 2.0])\n %y = Mul(%m, [1.0, 2.0, 3.0]) }"
    sentence = "%y: shapes [2] and [3] do not broadcast: dimensions 2 and 3"
    assert refusals(model, "fuse_mul_with_div") == [sentence]
