# SPDX-License-Identifier: Apache-2.0
"""``extend_rank``: operators work on further axes of dimension 1, and fewer reshapes are needed.

Each model is also compared by value with the original.
"""

from __future__ import annotations

import pytest

from tests.passes.kit import check_pass
from tests.passes.layout.pooled_models import kinds

EXTEND = "extend_rank"

DILATED = """graph main(%x: f32[1,1,12,4]) -> %y {
    %w = const f32[4,1,2,4] gaussian(0, 1)
    %b = const f32[4] gaussian(0, 1)
    %s = const f32[4,1] gaussian(0, 1)
    %c = Conv2D(%x, %w, %b) {padding: SAME}                         : f32[1,1,12,4]
    %t = Transpose(%c, [0,3,1,2])
    %r = Reshape(%t, [1,4,12])
    %m = Mul(%r, %s)
    %p = Pad(%m, [[0,0],[0,0],[2,0]])
    %u = Reshape(%p, [1,4,1,14])
    %v = Transpose(%u, [0,2,3,1])
    %d = Conv2D(%v, %w, %b) {padding: VALID, dilation_w: 2}         : f32[1,1,12,4]
    %e = Transpose(%d, [0,3,1,2])
    %f = Reshape(%e, [1,4,12])
    %g = Add(%f, %m)
    %h = Reshape(%g, [1,4,1,12])
    %i = Transpose(%h, [0,2,3,1])
    %y = Conv2D(%i, %w, %b) {padding: VALID}                        : f32[1,1,11,4]
}"""
"""A residual block of a temporal convolutional network, as litert-torch writes it."""


def test_1d_convolutions_need_no_reshapes_between_them() -> None:
    model = check_pass(DILATED, EXTEND)
    assert kinds(model).count("Reshape") == 0
    passes = ["extend_rank", "optimize_layout"]
    check_pass(DILATED, passes, ["Conv2D", "Mul", "Pad", "Conv2D", "Add", "Conv2D"])


def test_the_rank_of_an_attention_block_stays() -> None:
    """To extend FullyConnected and Add as well would only move the last Reshape."""
    text = """graph main(%x: f32[1,1,6,4]) -> %y {
        %w = const f32[4,4] gaussian(0, 1)
        %a = Relu(%x)
        %b = Reshape(%a, [1,6,4])
        %c = FullyConnected(%b, %w) {keep_num_dims: true}
        %d = Add(%b, %c)
        %e = Reshape(%d, [1,6,2,2])
        %y = Softmax(%e)
    }"""
    stays = "no other ranks of the operators need fewer reshapes"
    check_pass(text.replace("-> %y", "-> %y, %d"), EXTEND, refused=stays)
    # a Reshape to other dimensions takes its operand in any rank, so here nothing needs rank 3
    check_pass(text, EXTEND, ["Relu", "FullyConnected", "Add", "Reshape", "Softmax"])


def test_reshapes_to_other_dimensions_give_their_results_any_rank() -> None:
    text = """graph main(%x: f32[1,6,2,2]) -> %y {
        %a = Softmax(%x)
        %b = Reshape(%a, [1,6,4])
        %c = Neg(%b)
        %d = Reshape(%c, [1,1,6,4])
        %y = Softmax(%d)
    }"""
    check_pass(text, EXTEND, ["Softmax", "Reshape", "Neg", "Softmax"])


@pytest.mark.parametrize("outputs", ["%y", "%y, %b", "%y, %d", "%b, %d, %y"])
def test_outputs_keep_their_shapes(outputs: str) -> None:
    text = f"""graph main(%x: f32[1,1,6,4]) -> {outputs} {{
        %a = Softmax(%x)
        %b = Reshape(%a, [1,6,4])
        %c = Neg(%b)
        %d = Reshape(%c, [1,1,6,4])
        %e = Exp(%d)
        %f = Reshape(%e, [1,6,4])
        %g = Relu(%f)
        %h = Reshape(%g, [1,1,6,4])
        %y = Softmax(%h)
    }}"""
    model = check_pass(text, EXTEND)
    assert kinds(model).count("Reshape") == ("%b" in outputs)


def test_two_equal_outputs_stay_two() -> None:
    text = """graph main(%x: f32[1,1,6,4]) -> %b, %d {
        %a = Neg(%x)
        %b = Reshape(%a, [1,6,4])
        %c = Reshape(%b, [1,1,6,4])
        %d = Reshape(%c, [1,6,4])
    }"""
    check_pass(text, EXTEND, ["Neg", "Reshape", "Reshape"])


def test_quantized_data_keep_their_scales() -> None:
    grid = "quant(scale: 0.5, zero_point: 3)"
    text = f"""graph main(%x: i8[?,4,1,6] {grid}) -> %y {{
        %a = Reshape(%x, [-1,4,6])                 : i8[?,4,6] {grid}
        %b = Concatenation(%a, %a) {{axis: 1}}       : i8[?,8,6] {grid}
        %y = Reshape(%b, [-1,8,1,6])               : i8[?,8,1,6] {grid}
    }}"""
    model = check_pass(text, EXTEND, ["Concatenation"])
    value = model.main.outputs[0]
    assert value.quantization is not None
    assert value.quantization.zero_point.tolist() == [3]
    assert value.shape == (None, 8, 1, 6)


def test_transposes_of_both_ranks_cancel() -> None:
    """The cut could be before or after the second Transpose; only after it, the two meet in one rank."""
    text = """graph main(%x: f32[1,1,6,4]) -> %y {
        %w = const f32[4,1,1,4] gaussian(0, 1)
        %c = Conv2D(%x, %w, none) {padding: VALID}   : f32[1,1,6,4]
        %t = Transpose(%c, [0,3,1,2])
        %r = Reshape(%t, [1,4,6])
        %a, %b = Split(1, %r) {num_splits: 2}
        %g = Logistic(%b)
        %m = Mul(%a, %g)
        %u = Transpose(%m, [0,2,1])
        %y = Softmax(%u)
    }"""
    passes = ["extend_rank", "optimize_layout"]
    check_pass(text, passes, ["Conv2D", "Split", "Logistic", "Mul", "Reshape", "Softmax"])


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("Concatenation(%k, %v) {axis: 0}", [1, 2, 5]),
        ("AddN(%k, %v)", [1, 2, 5]),
        ("Select(%b, %v, %k)", [1, 2, 5]),
        ("Mul(%k, %v)", [2, 5]),
    ],
)
def test_constants_get_the_new_axes_where_operands_are_not_broadcast(line: str, shape: list[int]) -> None:
    model = check_pass(
        f"""graph main(%x: f32[1,2,5]) -> %y {{
            %k = const f32[2,5] gaussian(0, 1)
            %b = const bool[2,5] [[true,false,true,false,true],[true,true,true,false,false]]
            %e = Exp(%x)
            %v = Reshape(%e, [2,5])
            %c = {line}
            %s = Softmax(%c)
            %y = Reshape(%s, [1,{4 if "Concat" in line else 2},5])
        }}""",
        EXTEND,
    )
    assert kinds(model).count("Reshape") == 0
    constants = [v.static_shape for op in model.main for v in op.inputs if v is not None and v.is_const]
    assert {*constants} == {tuple(shape)}
