# SPDX-License-Identifier: Apache-2.0
"""Forms that a runtime lacks are replaced if the runtime has all replacing operators; values stay equal.

The runtimes here are made up: they have all operators but those that a test takes away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from tests.passes.kit import verify
from tests.passes.legal.made_up_runtimes import NO_ACTIVATION, check, runtime

ONE_BETA: Mapping[str, Any] = {"range": {"beta": [1, 1]}}


@pytest.mark.parametrize(
    ("lacks", "body", "ops"),
    [
        ("HARD_SWISH", "%y = HardSwish(%x)", "Add Relu6 Mul Mul"),
        ("RELU_N1_TO_1", "%y = ReluN1To1(%x)", "Maximum Minimum"),
        ("RELU_0_TO_1", "%y = Relu0To1(%x)", "Relu Minimum"),
        ("PRELU", "%y = PRelu(%x, [[[0.1, -0.2, 0.0, 3.0]]])", "Relu Minimum Mul Add"),
        ("CEIL", "%y = Ceil(%x)", "Neg Floor Neg"),
        ("SIGN", "%y = Sign(%x)", "Greater Less Cast Cast Sub"),
        ("SQUARED_DIFFERENCE", "%y = SquaredDifference(%x, [0.5])", "Sub Mul"),
        ("REDUCE_MIN", "%y = ReduceMin(%x, [1, 2]) {keep_dims: true}", "Neg ReduceMax Neg"),
        ("INSTANCE_NORM", "%y = InstanceNorm(%x, [1.5], [0.1]) {act: RELU, epsilon: 1e-3}",
         "Mean SquaredDifference Mean Add Rsqrt Mul Sub Mul Add"),
        ("RMS_NORM", "%y = RmsNorm(%x, [1.0])", "Square Mean Add Rsqrt Mul"),
        ("L2_NORMALIZATION", "%y = L2Normalization(%x)", "Square Sum Sqrt Maximum Div"),
        ("POW", "%y = Pow(%x, 3.0)", "Square Mul"),
        ("LEAKY_RELU", "%y = LeakyRelu(%x) {alpha: 0.0}", "Relu"),
        ("MAX_POOL_2D", "%y = MaxPool2D(%x) {stride_h: 3, stride_w: 2}",
         "Slice Slice Slice Concatenation Reshape Slice Reshape"),
        ("AVERAGE_POOL_2D", "%y = AveragePool2D(%x) {stride_h: 2, stride_w: 2}", "Reshape Slice Reshape"),
        ("L2_POOL_2D", "%y = L2Pool2D(%x) {filter_height: 2, filter_width: 3, stride_h: 2}",
         "Mul AveragePool2D Sqrt"),
        ("LOCAL_RESPONSE_NORMALIZATION",
         "%y = LocalResponseNormalization(%x) {radius: 1, bias: 0.5, alpha: 0.2, beta: 0.75}",
         "Mul Conv2D Pow Mul"),
        ("RESIZE_NEAREST_NEIGHBOR", "%y = ResizeNearestNeighbor(%x, [16, 9])", "Gather Gather"),
        ("GATHER_ND", "%y = GatherNd(%x, [[[0, 7, 1], [0, 2, 3]]])", "Reshape Gather"),
        ("RESIZE_NEAREST_NEIGHBOR", "%y = ResizeNearestNeighbor(%x, [8, 9]) {half_pixel_centers: true}",
         "Gather"),
        ("MIRROR_PAD", "%y = MirrorPad(%x, [[0,0],[2,1],[0,3],[0,0]])", "Gather Gather"),
        ("MIRROR_PAD", "%y = MirrorPad(%x, [[0,0],[2,1],[0,0],[0,4]]) {mode: SYMMETRIC}", "Gather Gather"),
    ],
)  # fmt: skip
def test_an_operator_that_the_runtime_lacks_is_replaced(lacks: str, body: str, ops: str) -> None:
    check(body, runtime(lacks), ops)
    (kept,) = parse_model(f"graph main(%x: f32[1,8,6,4]) -> %y {{\n{body}\n}}").main
    check(body, runtime(), type(kept).__name__)


def test_a_pool_of_no_elements_stays() -> None:
    check(
        "%y = MaxPool2D(%x) {stride_h: 2, stride_w: 2}", runtime("MAX_POOL_2D"), "MaxPool2D", shape="0,4,4,3"
    )


@pytest.mark.parametrize(
    ("lacks", "body", "ops"),
    [
        ("POW", "%s = Abs(%x)\n%y = Pow(%s, 0.5)", "Abs Sqrt"),
        ("POW", "%s = Abs(%x)\n%a = Add(%s, 1e-3)\n%y = Pow(%a, -0.5)", "Abs Add Rsqrt"),
        ("POW", "%a = Abs(%x)\n%y = Pow(%a, -0.5)", "Abs Pow"),
        ("SELECT_V2", "%g = Greater(%x, 0.0)\n%m = Mul(%x, 0.2)\n%y = SelectV2(%g, %x, %m)", "LeakyRelu"),
        ("SELECT_V2", "%g = Greater(%x, 0.1)\n%m = Mul(%x, 0.2)\n%y = SelectV2(%g, %x, %m)",
         "Greater Mul SelectV2"),
    ],
)  # fmt: skip
def test_several_operators_are_replaced(lacks: str, body: str, ops: str) -> None:
    check(body, runtime(lacks), ops)


INTEGERS = "%i = Cast(%x) {in_data_type: f32, out_data_type: i32}\n"
LIMITED = "%y = Concatenation(%i, %i) {axis: 3, act: RELU6}"


@pytest.mark.parametrize(
    ("lacks", "body", "ops"),
    [
        ("MAXIMUM", "%y = Maximum(%i, [3])", "Cast Add Minimum Sub"),
        ("MAXIMUM MINIMUM", "%y = Maximum(%i, [3])", "Cast Maximum"),
        ("", LIMITED, "Cast Concatenation Maximum Minimum"),
        ("", LIMITED.replace("%i, %i", "%i"), "Cast Maximum Minimum"),
        ("MINIMUM", LIMITED, "Cast Concatenation Add"),
        ("MINIMUM", f"{LIMITED} : i32[1,8,6,8] quant(min: -1.0, max: 9.0)", "Cast Concatenation Add"),
        ("MAXIMUM", LIMITED, "Cast Concatenation Add"),
    ],
)
def test_limits_of_integers(lacks: str, body: str, ops: str) -> None:
    """max(a, b) becomes a + b - min(a, b).

    ONE's runtime ignores the activation of a Concatenation.  Without MAXIMUM or MINIMUM, an Add of 0 has
    the activation instead.
    """
    check(INTEGERS + body, runtime(lacks, name="onert"), ops)


def test_the_l2_norm_of_nan_stays_nan() -> None:
    model = check("%y = L2Normalization(%x)", runtime("L2_NORMALIZATION"), "Square Sum Sqrt Maximum Div")
    x = np.ones((1, 8, 6, 4), np.float32)
    x[0, 0, 0, 1] = np.nan
    (found,) = run(model, [x])
    assert np.isnan(found[0, 0, 0]).all()
    assert np.isnan(found).sum() == 4


def test_softmax_with_beta() -> None:
    check("%y = Softmax(%x) {beta: 2.5}", runtime(forms={"SOFTMAX": {"f32:f32": ONE_BETA}}), "Mul Softmax")
    check("%y = Softmax(%x) {beta: 2.0}", runtime(forms={"SOFTMAX": {"f32:f32": ONE_BETA}}), "Mul Softmax")
    check("%y = Softmax(%x)", runtime("MUL", forms={"SOFTMAX": {"f32:f32": ONE_BETA}}), "Softmax")


def test_split_v_becomes_slices() -> None:
    body = "%a, %b, %y = SplitV(%x, [3, 4, 1], 1) {num_splits: 3}"
    check(body, runtime("SPLIT_V"), "Slice Slice Slice", "%a, %b, %y")
    check("%a, %y = SplitV(%x, [1, 3], -1) {num_splits: 2}", runtime("SPLIT_V"), "Slice Slice", "%a, %y")


def test_embedding_lookup_becomes_gather() -> None:
    body = "%t = const f32[5,3] gaussian(0, 1)\n%e = EmbeddingLookup([0, 4, 0], %t)\n%y = Add(%x, %e)"
    check(body, runtime("EMBEDDING_LOOKUP"), "Gather Add", shape="1,3,3")


@pytest.mark.parametrize("keep", [False, True])
def test_extremes_of_booleans(keep: bool) -> None:
    model = parse_model(
        f"""graph main(%x: bool[2,3,2]) -> %y, %z {{
            %y = ReduceMax(%x, [-1]) {{keep_dims: {str(keep).lower()}}}
            %z = ReduceMin(%x, [0, 2]) {{keep_dims: {str(keep).lower()}}}
        }}"""
    )
    legal = legalize(model, "circle", targets=[runtime("REDUCE_MAX REDUCE_MIN")])
    reshape = [] if keep else ["Reshape"]
    assert [type(op).__name__ for op in legal.main] == ["ReduceAny", *reshape, "ReduceAll", *reshape]
    inputs = [np.array([1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0], bool).reshape(2, 3, 2)]
    for mine, wanted in zip(run(legal, inputs), run(model, inputs), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_output_that_operators_read_is_copied_for_onert() -> None:
    body = "%z = Relu(%x)\n%y = Tanh(%z)\n%w = Neg(%x)"
    legal = check(body, runtime(name="onert"), "Relu Reshape Tanh Neg", "%y, %z, %w, %z")
    assert legal.main.outputs[1] is legal.main.ops[1].output
    assert legal.main.ops[2].inputs[0] is legal.main.ops[0].output
    check(body, runtime(), "Relu Tanh Neg", "%y, %z, %w, %z")


@pytest.mark.parametrize(("shape", "copy"), [("?,2", "Reshape"), ("?,?", "Transpose"), ("?,0", "Transpose")])
def test_output_of_unknown_size_that_operators_read_is_copied_for_onert(shape: str, copy: str) -> None:
    model = parse_model(f"graph main(%x: f32[{shape}]) -> %y, %z {{\n%z = Relu(%x)\n%y = Tanh(%z)\n}}")
    legal = legalize(model, "circle", targets=[runtime(name="onert")])
    assert [type(op).__name__ for op in legal.main] == ["Relu", copy, "Tanh"]
    assert legal.main.outputs[1].shape == model.main.outputs[1].shape
    inputs = [np.array([[1, -2], [3, 4], [-5, 6]], np.float32)[:, : 0 if "0" in shape else 2]]
    for mine, wanted in zip(run(legal, inputs), run(model, inputs), strict=True):
        np.testing.assert_array_equal(mine, wanted)
    lacking = legalize(model, "circle", targets=[runtime("TRANSPOSE", name="onert")])
    verify(lacking)
    assert len(lacking.main.ops) == 2 + (copy == "Reshape")


@pytest.mark.parametrize(("dtype", "ops"), [("i32", "FloorDiv Mul Sub"), ("f32", "FloorMod")])
def test_floor_mod_of_integers(dtype: str, ops: str) -> None:
    model = parse_model(
        f"graph main(%x: {dtype}[6]) -> %y {{\n%c = const {dtype}[1] [3]\n%y = FloorMod(%x, %c)\n}}"
    )
    legal = legalize(model, "circle", targets=[runtime("FLOOR_MOD")])
    assert [type(op).__name__ for op in legal.main] == ops.split()
    inputs = [np.array([-7, -6, -1, 0, 4, 9], model.main.inputs[0].dtype.numpy)]
    np.testing.assert_array_equal(run(legal, inputs), run(model, inputs))


@pytest.mark.parametrize("threshold", [20.0, 17.0, 16.9, 88.0, 88.1])
def test_softplus_with_a_large_threshold(threshold: float) -> None:
    """From 17 on, log(exp(x) + 1) is x in float32; from 88.8 on, it is infinite."""
    body = f"""
        %e = Exp(%x)
        %a = Add(%e, 1.0)
        %l = Log(%a)
        %g = Greater(%x, {threshold})
        %y = SelectV2(%g, %x, %l)
    """
    kept = "Exp Add Log Greater SelectV2"
    check(body, runtime("SELECT_V2"), "Minimum Exp Add Log Maximum" if 17 <= threshold <= 88 else kept)


def test_result_that_the_runtime_lacks_too_is_not_made() -> None:
    check("%y = HardSwish(%x)", runtime("HARD_SWISH RELU6"), "HardSwish")
    check("%y = MirrorPad(%x, [[0,0],[2,1],[0,3],[0,0]])", runtime("MIRROR_PAD GATHER SLICE"), "MirrorPad")


def test_without_a_named_target_a_table_changes_nothing() -> None:
    model = parse_model("graph main(%x: f32[2]) -> %y { %y = HardSwish(%x) }")
    assert difference(legalize(model, "circle"), model) is None


@pytest.mark.parametrize(("act", "operator"), [("RELU", "Relu"), ("RELU6", "Relu6"), ("TANH", "Tanh")])
def test_activation_that_the_runtime_does_not_fuse(act: str, operator: str) -> None:
    target = runtime(forms={"ADD": {"f32,f32:f32": NO_ACTIVATION}})
    check(f"%y = Add(%x, [1.0]) {{act: {act}}}", target, f"Add {operator}")
    check("%y = Add(%x, [1.0])", target, "Add")


def test_an_activation_that_is_split_from_32_bit_integers_ignores_their_scale() -> None:
    """As in LiteRT, where the scale of such an ADD does not count either."""
    target, data = runtime(forms={"ADD": {"i32,i32:i32": NO_ACTIVATION}}), "i32[1,8,6,4] quant(scale: 0.5)"
    body = f"%i = Cast(%x) : {data}\n%y = Add(%i, %i) {{act: RELU6}} : {data}"
    check(body, target, "Cast Add Maximum Minimum")
