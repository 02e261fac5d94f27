# SPDX-License-Identifier: Apache-2.0
"""Equivalent operators: shape changes as RESHAPE, bounds as RELU6, and decompositions."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.passes.engine.explain import explain_pass
from tests.ops.litert import run_litert
from tests.passes.kit import check_pass, check_refusal


def graph(body: str, result: str = "%z", type: str = "f32[2,1,3,1]") -> str:
    return f"graph main(%x: {type}, %o: {type}, %dyn: i32[4]) -> {result} {{\n{body}\n}}"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("substitute_squeeze_to_reshape", "%z = Squeeze(%x)"),
        ("substitute_squeeze_to_reshape", "%z = Squeeze(%x) {squeeze_dims: [1]}"),
        ("substitute_squeeze_to_reshape", "%z = Squeeze(%x) {squeeze_dims: [-1]}"),
        ("substitute_expand_dims_to_reshape", "%z = ExpandDims(%x, -1)"),
        ("substitute_expand_dims_to_reshape", "%z = ExpandDims(%x, 2)"),
        ("substitute_pack_to_reshape", "%z = Pack(%x) {values_count: 1, axis: 1}"),
        ("substitute_transpose_to_reshape", "%z = Transpose(%x, [0,2,1,3])"),
        ("substitute_transpose_to_reshape", "%z = Transpose(%x, [1,3,0,2])"),
        (
            "substitute_strided_slice_to_reshape",
            "%z = StridedSlice(%x, [0,0,0,0], [2,1,3,1], [1,1,1,1]) {shrink_axis_mask: 10}",
        ),
        (
            "substitute_strided_slice_to_reshape",
            "%z = StridedSlice(%x, [0,0,0,0], [0,0,0,0], [1,1,1,1]) {begin_mask: 15, end_mask: 15}",
        ),
        # the ellipsis stands for axes 0 to 2; entry 1 reverses axis 3, which has one element
        (
            "substitute_strided_slice_to_reshape",
            "%z = StridedSlice(%x, [0,0], [0,-2], [1,-1]) {begin_mask: 1, ellipsis_mask: 1}",
        ),
        (
            "substitute_strided_slice_to_reshape",
            "%z = StridedSlice(%x, [0,0,0,0], [2,-2,3,-2], [1,-1,1,-1]) {shrink_axis_mask: 8}",
        ),
    ],
)
def test_shape_changes_become_reshape(name: str, body: str) -> None:
    check_pass(graph(body), name, expect_ops=["Reshape"])


@pytest.mark.parametrize(
    ("name", "body", "sentence"),
    [
        (
            "substitute_transpose_to_reshape",
            "%z = Transpose(%x, [2,1,0,3])",
            "changes the order of dimensions",
        ),
        (
            "substitute_strided_slice_to_reshape",
            "%z = StridedSlice(%x, [0,0,1,0], [2,1,3,1], [1,1,1,1])",
            "expected all elements of %x, f32[2,1,3,1], got f32[2,1,2,1]",
        ),
        (
            "substitute_strided_slice_to_reshape",
            "%z = StridedSlice(%x, [1,0,0,0], [-3,1,3,1], [-1,1,1,1])",
            "reverses an axis",
        ),
    ],
)
def test_reshape_near_misses(name: str, body: str, sentence: str) -> None:
    check_pass(graph(body), name, refused=sentence)


def test_one_unknown_dimension_is_accepted_two_are_refused() -> None:
    one = graph("%z = Squeeze(%x) {squeeze_dims: [1]}", type="f32[?,1,3,1]")
    model = check_pass(one, "substitute_squeeze_to_reshape", expect_ops=["Reshape"])
    assert model.main.outputs[0].shape == (None, 3, 1)
    two = graph("%z = Squeeze(%x) {squeeze_dims: [1]}", type="f32[?,1,?,1]")
    check_pass(two, "substitute_squeeze_to_reshape", refused="has more than one unknown dimension: [?,?,1]")
    empty = graph("%z = Squeeze(%x) {squeeze_dims: [1]}", type="f32[?,1,0,1]")
    check_refusal(empty, "substitute_squeeze_to_reshape", "%z: has an unknown dimension beside a 0: [?,0,1]")


def test_reversing_a_single_element_is_a_reshape() -> None:
    text = graph("%z = StridedSlice(%x, [0,0], [-2,1], [-1,1])", type="f32[1,1]")
    check_pass(text, "substitute_strided_slice_to_reshape", expect_ops=["Reshape"])


def test_reversing_two_elements_stays() -> None:
    text = graph("%z = StridedSlice(%x, [0,1], [1,-3], [1,-1])", type="f32[1,2]")
    check_pass(text, "substitute_strided_slice_to_reshape", refused="%z: reverses an axis")


def test_pack_of_two_stays() -> None:
    text = graph("%z = Pack(%x, %o) {values_count: 2, axis: 1}")
    check_pass(text, "substitute_pack_to_reshape", expect_ops=["Pack"])


@pytest.mark.parametrize("swap", [False, True])
def test_bounds_become_relu6(swap: bool) -> None:
    six, zero = ("6.0, %x", "0.0, %m") if swap else ("%x, 6.0", "%m, 0.0")
    name = "transform_min_max_to_relu6"
    check_pass(graph(f"%m = Minimum({six})\n%z = Maximum({zero})"), name, expect_ops=["Relu6"])
    other = graph("%m = Maximum(%x, [0.0])\n%z = Minimum(%m, [[6.0]])")
    check_pass(other, name, expect_ops=["Relu6"])
    check_pass(
        graph("%m = Minimum(%x, 6.0)\n%z = Relu(%m)"), "transform_min_relu_to_relu6", expect_ops=["Relu6"]
    )
    check_pass(
        graph("%m = Relu(%x)\n%z = Minimum(6.0, %m)"), "transform_min_relu_to_relu6", expect_ops=["Relu6"]
    )


@pytest.mark.parametrize(
    ("body", "result", "sentence"),
    [
        ("%m = Minimum(%x, 5.0)\n%z = Maximum(%m, 0.0)", "%z", "expected the constant 6.0"),
        ("%m = Minimum(%x, 6.0)\n%z = Maximum(%m, 1.0)", "%z", "expected the constant 0.0"),
        ("%m = Minimum(%x, 6.0)\n%z = Maximum(%m, 0.0)", "%z, %m", "%m: is an output of the graph"),
        ("%m = Minimum(%x, [[[[[6.0]]]]])\n%z = Maximum(%m, 0.0)", "%z", "the rewrite gives"),
    ],
)
def test_relu6_near_misses(body: str, result: str, sentence: str) -> None:
    check_pass(graph(body, result), "transform_min_max_to_relu6", refused=sentence)


def test_division_by_a_root_becomes_a_product() -> None:
    text = graph("%p = Square(%x)\n%e = Add(%p, 1.0)\n%s = Sqrt(%e)\n%z = Div(%o, %s) {act: RELU}")
    name = "transform_sqrt_div_to_rsqrt_mul"
    check_pass(text, name, expect_ops=["Square", "Add", "Rsqrt", "Mul"])
    check_pass(text.replace("Div(%o", "Div(2.0"), name, refused="is constant")
    one = text.replace("Div(%o", "Div(1.0").replace(" {act: RELU}", "")
    check_pass(one, "fuse_rsqrt", expect_ops=["Square", "Add", "Rsqrt"])
    check_pass(one.replace("Div(1.0", "Div(2.0"), "fuse_rsqrt", expect_ops=["Square", "Add", "Sqrt", "Div"])


@pytest.mark.parametrize(
    ("number", "zero_point", "sentence"),
    [(16384, 0, ""), (16374, -10, ""), (16000, 0, "%one: expected 1, got 0.976562")],
)
def test_reciprocal_roots_of_int16(number: int, zero_point: int, sentence: str) -> None:
    """1 is 16384 steps of 2^-14."""
    form = f"quant(scale: 0.00006103515625, zero_point: {zero_point})"
    model = circlekit.parse(f"""
        graph main(%x: i16[999] quant(scale: 0.0001220703125)) -> %z {{
          %s = Sqrt(%x) : i16[999] quant(scale: 0.00006103515625)
          %one = const i16[1] {form} [{number}]
          %z = Div(%one, %s) : i16[999] quant(scale: 0.0001220703125)
        }}
        """)
    x = np.linspace(1, 32767, 999).astype(np.int16)
    np.testing.assert_array_equal(circlekit.run(model, [x]), run_litert(model.main, [x]))
    refusals = [r.sentence for r in explain_pass(model, "fuse_rsqrt", "circle")]
    assert refusals == ([sentence] if sentence else [])
    circlekit.optimize(model, ["fuse_rsqrt"])
    assert [op.code for op in model.main] == (["SQRT", "DIV"] if sentence else ["RSQRT"])
    np.testing.assert_array_equal(circlekit.run(model, [x]), run_litert(model.main, [x]))


def test_subtraction_becomes_an_addition() -> None:
    check_pass(graph("%z = Sub(%x, [1.0, -2.0]) {act: RELU6}"), "replace_sub_with_add", expect_ops=["Add"])
    check_pass(graph("%z = Sub(1.0, %x)"), "replace_sub_with_add", expect_ops=["Sub"])


def test_decompositions() -> None:
    check_pass(graph("%z = HardSwish(%x)"), "decompose_hardswish", expect_ops=["Add", "Relu6", "Mul", "Mul"])
    text = graph("%z = Softmax(%x) {beta: 0.5}", type="f32[2,3,4]")
    wanted = ["ReduceMax", "Sub", "Mul", "Exp", "Sum", "Div"]
    check_pass(text, "decompose_softmax", expect_ops=wanted)


def test_splits_into_equal_parts() -> None:
    name = "substitute_splitv_to_split"
    text = graph("%a, %b = SplitV(%x, [1, 1], 0) {num_splits: 2}", "%b, %a")
    model = check_pass(text, name, expect_ops=["Split"])
    assert [v.name for v in model.main.outputs] == ["b", "a"]
    rest = graph("%a, %b = SplitV(%x, [1, -1], 0) {num_splits: 2}", "%b, %a")
    check_pass(rest, name, expect_ops=["Split"])
    uneven = graph("%a, %b = SplitV(%x, [1, 2], 2) {num_splits: 2}", "%b, %a")
    check_pass(uneven, name, refused="expected parts of equal size, got the sizes [1,2]")


def test_computed_axis_is_refused() -> None:
    text = graph("%s = Slice(%dyn, [0], [1])\n%z = ExpandDims(%x, %s) : f32[1,2,1,3,1]")
    check_refusal(text, "substitute_expand_dims_to_reshape", "%s: is not constant")


def test_computed_axis_of_a_split_is_refused() -> None:
    text = graph(
        "%s = Slice(%dyn, [0], [1])\n"
        "%a, %b = SplitV(%x, [1, 1], %s) {num_splits: 2} : f32[1,1,3,1], f32[1,1,3,1]",
        "%a, %b",
    )
    check_refusal(text, "substitute_splitv_to_split", "expected parts of equal size, got the sizes [?,?]")


def test_gather_nd_of_one_row_becomes_gather() -> None:
    text = "graph main(%x: f32[3,4]) -> %y { %z = GatherNd(%x, [2]) %y = Exp(%z) }"
    check_pass(text, "substitute_gathernd_to_gather", expect_ops=["Gather", "Exp"])
    model = circlekit.parse(text)
    x = np.arange(12, dtype=np.float32).reshape(3, 4) / 12
    circlekit.optimize(model, ["substitute_gathernd_to_gather"])
    np.testing.assert_allclose(run_litert(model.main, [x])[0], np.exp(x[2]), rtol=1e-5)
