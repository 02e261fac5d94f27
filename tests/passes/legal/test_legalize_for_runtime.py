# SPDX-License-Identifier: Apache-2.0
"""Forms that a runtime lacks are replaced if it has all replacing operators; values stay equal.

The runtimes here are made up: they have all operators but those that a test takes away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.declaration import DECLARATIONS
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from circlekit.targets.target import Target
from tests.ops.litert import run_litert
from tests.passes.kit import KINDS, assert_close, interface_of, make_input, verify

ANY: Mapping[str, Any] = {"version": 99, "forms": "any"}
ONE_BETA: Mapping[str, Any] = {"range": {"beta": [1, 1]}}
NO_ACTIVATION: Mapping[str, Any] = {"values": {"act": ["NONE"]}}


def runtime(
    lacks: str = "", forms: Mapping[str, Mapping[str, Any]] | None = None, name: str = "bare"
) -> Target:
    """A runtime with all operators but those of ``lacks``, and some of them only in certain ``forms``."""
    operators = {code: ANY for code in DECLARATIONS if code not in lacks.split()}
    limited = {code: {"version": 99, "forms": kinds} for code, kinds in (forms or {}).items()}
    return Target(name, name, "1", "made up", frozenset({"circle"}), {**operators, **limited})


def check(body: str, target: Target, ops: str, outputs: str = "%y", shape: str = "1,8,6,4") -> Model:
    """Legalize a model for ``target``, check the result, and return it.

    ``ops``: the classes of its operators, in order.  The interface and the values stay, and a second run
    changes nothing.  If the model changed, the target takes all operators of the result.
    """
    model = parse_model(f"graph main(%x: f32[{shape}]) -> {outputs} {{\n{body}\n}}")
    legal = legalize(model, "circle", targets=[target])
    verify(legal)
    assert [type(op).__name__ for op in legal.main] == ops.split()
    assert interface_of(legal) == interface_of(model)
    for kind in KINDS:
        inputs = [make_input(value, kind) for value in model.main.inputs]
        assert_close(run(legal, inputs), run(model, inputs), f"{kind} inputs")
    if difference(legal, model) is not None:
        assert not [sentence for op in legal.main if (sentence := target.refusal(op))]
    assert difference(legalize(legal, "circle", targets=[target]), legal) is None
    return legal


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
def test_lacking_operator_is_replaced(lacks: str, body: str, ops: str) -> None:
    check(body, runtime(lacks), ops)
    (kept,) = parse_model(f"graph main(%x: f32[1,8,6,4]) -> %y {{\n{body}\n}}").main
    check(body, runtime(), type(kept).__name__)


def test_a_pool_of_no_elements_stays() -> None:
    check(
        "%y = MaxPool2D(%x) {stride_h: 2, stride_w: 2}", runtime("MAX_POOL_2D"), "MaxPool2D", shape="0,4,4,3"
    )


@pytest.mark.parametrize(
    ("attributes", "ops"), [("act: TANH", "Conv2D Tanh"), ("act: RELU6", "Conv2D Relu6")]
)
def test_an_operator_gets_a_bias_and_loses_its_activation(attributes: str, ops: str) -> None:
    """The runtime needs both: its CONV_2D has a bias and fuses no activation."""
    body = f"%w = const f32[4,3,3,4] gaussian(0, 1)\n%y = Conv2D(%x, %w, none) {{{attributes}}}"
    target = runtime(forms={"CONV_2D": {"f32,f32,f32:f32": NO_ACTIVATION}})
    legal = check(body, target, ops)
    assert legal.main.ops[0].inputs[2] is not None
    check(body, runtime("TANH RELU6", {"CONV_2D": {"f32,f32,f32:f32": NO_ACTIVATION}}), "Conv2D")


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
        ("MAXIMUM", LIMITED, "Cast Concatenation Add"),
    ],
)
def test_limits_of_integers(lacks: str, body: str, ops: str) -> None:
    """max(a, b) becomes a + b - min(a, b).

    ONE's runtime ignores the activation of a Concatenation.  Without MAXIMUM or MINIMUM, an Add of 0 has
    the activation instead.
    """
    check(INTEGERS + body, runtime(lacks, name="onert"), ops)


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


@pytest.mark.parametrize(
    ("attributes", "axis", "ops"),
    [
        ("", -1, "Reshape FullyConnected Reshape"),
        ("reverse: true", 3, "Reshape FullyConnected Reshape"),
        ("exclusive: true", 1, "Transpose Reshape FullyConnected Reshape Transpose"),
        ("exclusive: true, reverse: true", 2, "Transpose Reshape FullyConnected Reshape Transpose"),
    ],
)
def test_cumulative_sum_becomes_a_matrix_product(attributes: str, axis: int, ops: str) -> None:
    check(f"%y = Cumsum(%x, {axis}) {{{attributes}}}", runtime("CUMSUM"), ops)


@pytest.mark.parametrize("adjoint", ["", " {adj_x: true}", " {adj_y: true}"])
def test_matrix_products(adjoint: str) -> None:
    forms = {"BATCH_MATMUL": {"f32,f32:f32": {"rank": 3, "computed": ["x"]}}}
    body = f"%s = const f32[5,5] gaussian(0, 1)\n%y = BatchMatMul(%s, %x){adjoint}"
    check(body, runtime(forms=forms), "BatchMatMul Transpose", shape="3,5,5")
    body = f"%z = Tanh(%x)\n%y = BatchMatMul(%x, %z){adjoint}"
    check(body, runtime(forms=forms), "Tanh Reshape Reshape BatchMatMul Reshape", shape="2,1,2,5,5")
    check(body, runtime(), "Tanh BatchMatMul", shape="2,1,2,5,5")
    body = f"%w = const f32[2,1,2,5,5] gaussian(0, 1)\n%y = BatchMatMul(%x, %w){adjoint}"
    check(body, runtime(forms=forms), "Reshape BatchMatMul Reshape", shape="2,1,2,5,5")


@pytest.mark.parametrize(
    ("x", "y", "ops"),
    [
        ("const f32[4,5] gaussian(0, 1)", "f32[3,5,6]", "BatchMatMul Transpose"),
        ("const f32[4,5] gaussian(0, 1)", "f32[?,5,6]", "BatchMatMul"),
        ("const f32[4,5] gaussian(0, 1)", "const f32[3,5,6] gaussian(0, 1)", "BatchMatMul"),
        ("const i8[4,5] quant(scale: 0.5) constant(1)", "i8[3,5,6] quant(scale: 0.5)", "BatchMatMul"),
    ],
)
def test_only_a_constant_of_f32_becomes_the_second_operand(x: str, y: str, ops: str) -> None:
    forms = {"BATCH_MATMUL": {key: {"computed": ["x"]} for key in ("f32,f32:f32", "i8q,i8q:i8q")}}
    given = [f"%{name}: {kind}" for name, kind in (("x", x), ("y", y)) if not kind.startswith("const")]
    constants = "".join(f"%{n} = {kind}\n" for n, kind in (("x", x), ("y", y)) if kind.startswith("const"))
    result = "" if x.startswith("const f32") else " : i8[3,4,6] quant(scale: 9.0)"
    model = parse_model(
        f"graph main({', '.join(given)}) -> %z {{ {constants} %z = BatchMatMul(%x, %y){result} }}"
    )
    legal = legalize(model, "circle", targets=[runtime(forms=forms)])
    assert [type(op).__name__ for op in legal.main] == ops.split()


def test_computed_operands_do_not_change_places() -> None:
    forms = {"BATCH_MATMUL": {"f32,f32:f32": {"values": {"adj_x": [False]}}}}
    body = "%z = Tanh(%x)\n%y = BatchMatMul(%x, %z) {adj_x: true, adj_y: true}"
    check(body, runtime(forms=forms), "Tanh BatchMatMul", shape="3,5,5")
    body = "%s = const f32[5,5] gaussian(0, 1)\n%y = BatchMatMul(%s, %x) {adj_x: true, adj_y: true}"
    check(body, runtime(forms=forms), "BatchMatMul Transpose", shape="3,5,5")


@pytest.mark.parametrize(
    ("x", "y", "merged"),
    [
        ("2,3,2,2,3,4", "2,3,2,2,4,5", "24,3,5"),
        ("?,2,2,2,3,4", "?,2,2,2,4,5", "?,8,3,5"),
        ("2,2,2,2,?,4", "2,2,2,2,4,5", "16,?,5"),
        ("?,2,2,2,3,4", "4,5", "?,3,5"),
        ("1,1,2,2,3,4", "?,2,2,2,4,5", "?,4,3,5"),
        ("1,2,3,1,2,3,4", "1,2,3,2,1,4,5", "6,2,2,3,5"),
        ("2,1,2,1,3,4", "1,2,1,2,4,5", None),  # neighboring dimensions broadcast differently
        ("?,2,2,2,?,4", "?,2,2,2,4,5", None),  # a reshape computes only one size
        ("?,2,?,2,3,4", "1,2,1,2,4,5", None),
    ],
)
def test_batches_of_matrix_products_are_merged(x: str, y: str, merged: str | None) -> None:
    target = runtime(forms={"BATCH_MATMUL": {"f32,f32:f32": {"rank": 5}}})
    model = parse_model(f"graph main(%x: f32[{x}], %y: f32[{y}]) -> %z {{ %z = BatchMatMul(%x, %y) }}")
    legal = legalize(model, "circle", targets=[target])
    (op,) = (op for op in legal.main if op.code == "BATCH_MATMUL")
    assert (target.refusal(op) is None) == (merged is not None)
    if merged is not None:
        assert op.output.shape == tuple(None if size == "?" else int(size) for size in merged.split(","))
        inputs = [make_input(value, "normal") for value in model.main.inputs]
        assert_close(run(legal, inputs), run(model, inputs), "normal inputs")


@pytest.mark.parametrize(
    ("form", "x", "y", "is_merged"),
    [
        ("i8q,i8q:i8q", "i8 quant(scale: 0.5)", "i8 quant(scale: 0.25)", True),
        ("i8q,i8qc:i8q", "i8 quant(scale: 0.5)", "i8 quant(scale: [0.25, 0.5], axis: 5)", False),
        ("f32,i8q:f32", "f32", "i8 quant(scale: 0.25)", False),
    ],
)
def test_batches_whose_scales_depend_on_them_are_not_merged(
    form: str, x: str, y: str, is_merged: bool
) -> None:
    left, right, result = (
        re.sub(r"^\w+", rf"\g<0>[2,2,2,2,{sizes}]", kind)
        for kind, sizes in ((x, "3,4"), (y, "4,2"), (x, "3,2"))
    )
    product = f"%y = const {right} constant(1)\n%z = BatchMatMul(%x, %y) : {result}"
    model = parse_model(f"graph main(%x: {left}) -> %z {{\n{product}\n}}")
    target = runtime(forms={"BATCH_MATMUL": {form: {"rank": 5}}})
    assert (len(legalize(model, "circle", targets=[target]).main) > 1) == is_merged


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


# -- activations and biases --------------------------------------------------------------------


@pytest.mark.parametrize(("act", "operator"), [("RELU", "Relu"), ("RELU6", "Relu6"), ("TANH", "Tanh")])
def test_activation_that_the_runtime_does_not_fuse(act: str, operator: str) -> None:
    target = runtime(forms={"ADD": {"f32,f32:f32": NO_ACTIVATION}})
    check(f"%y = Add(%x, [1.0]) {{act: {act}}}", target, f"Add {operator}")
    check("%y = Add(%x, [1.0])", target, "Add")


CONV = """
    %w = const f32[3,3,3,4] gaussian(0, 1)
    %y = Conv2D(%x, %w) {act: RELU, stride_h: 2, stride_w: 2}
"""


def test_convolution_without_bias() -> None:
    target = runtime(forms={"CONV_2D": {"f32,f32,f32:f32": {}}})
    check(CONV, target, "Conv2D")
    assert check(CONV, target, "Conv2D").main.ops[0].inputs[2] is not None
    assert check(CONV, runtime(), "Conv2D").main.ops[0].inputs[2:] in ([], [None], (), (None,))


@pytest.mark.parametrize(("dtype", "bias"), [("i8", "i32"), ("i16", "i64")])
@pytest.mark.parametrize("layer", ["Conv2D", "DepthwiseConv2D"])
def test_quantized_convolution_without_bias_runs_in_litert(dtype: str, bias: str, layer: str) -> None:
    shape, axis = ("3,3,3,2", 0) if layer == "Conv2D" else ("1,3,3,2", 3)
    scales = [0.01, 0.02, 0.03][: 3 if layer == "Conv2D" else 2]
    text = f"""graph main(%x: {dtype}[1,4,4,2] quant(scale: 0.5)) -> %y {{
        %w = const i8[{shape}] quant(scale: {scales}, axis: {axis}) uniform(-100, 100)
        %y = {layer}(%x, %w) : {dtype}[1,4,4,{len(scales)}] quant(scale: 0.9)
    }}"""
    model = parse_model(text)
    legal = legalize(model, "tflite")
    (op,) = legal.main
    assert op.inputs[2] is not None
    assert op.inputs[2].dtype.short == bias
    assert op.inputs[2].quantization is not None
    np.testing.assert_allclose(op.inputs[2].quantization.scale, 0.5 * np.array(scales), rtol=1e-6)
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    np.testing.assert_array_equal(run_litert(legal.main, inputs)[0], run(model, inputs)[0])


@pytest.mark.parametrize(
    "scales",
    [
        ("", ""),
        ("quant(scale: 0.5)", ""),
        ("", "quant(scale: 0.5)"),
        ("quant(min: 0.0, max: 1.0)", "quant(scale: [0.5, 0.25, 0.5], axis: 0)"),
    ],
)
def test_a_bias_has_a_scale_only_if_data_and_weights_have_one(scales: tuple[str, str]) -> None:
    data, weights = scales
    model = parse_model(f"""graph main(%x: i8[1,4,4,2] {data}) -> %y {{
        %w = const i8[3,3,3,2] {weights} constant(1)
        %y = Conv2D(%x, %w) : i8[1,4,4,3]
    }}""")
    bias = legalize(model, "tflite").main.ops[0].inputs[2]
    assert bias is not None
    assert (bias.dtype.short, bias.quantization) == ("i32", None)


def test_a_layer_whose_data_have_several_scales_gets_no_bias() -> None:
    """The scale of a bias is one scale of the data times those of the weights."""
    model = parse_model("""graph main(%x: i8[1,4,4,2] quant(scale: [0.5, 0.25], axis: 3)) -> %y {
        %w = const i8[3,3,3,2] quant(scale: [0.5, 0.25, 0.5], axis: 0) constant(1)
        %y = Conv2D(%x, %w) : i8[1,4,4,3]
    }""")
    (op,) = legalize(model, "tflite").main
    assert len([value for value in op.inputs if value is not None]) == 2


def test_fully_connected_without_bias_and_with_leading_dimensions() -> None:
    body = "%w = const f32[3,4] gaussian(0, 1)\n%y = FullyConnected(%x, %w) {keep_num_dims: true, act: RELU}"
    with_bias: Mapping[str, Mapping[str, Any]] = {"FULLY_CONNECTED": {"f32,f32,f32:f32": {}}}
    check(body, runtime(forms=with_bias), "FullyConnected")
    check(body, runtime(name="onert", forms=with_bias), "FullyConnected Reshape")
    rows = "%r = Reshape(%x, [48, 4])\n" + body.replace("%x,", "%r,")
    check(rows, runtime(name="onert", forms=with_bias), "Reshape FullyConnected")
    check(body, runtime(name="onert", forms=with_bias), "Reshape FullyConnected Reshape", shape="4")
    row = body.replace("keep_num_dims: true, ", "")
    check(row, runtime(name="onert", forms=with_bias), "Reshape FullyConnected", shape="4")


# -- grouped and transposed convolutions ---------------------------------------------------------

GROUPED = """
    %w = const f32[6,3,3,2] gaussian(0, 1)
    %y = Conv2D(%x, %w, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) {act: RELU6, padding: VALID, dilation_w: 2}
"""


def test_grouped_convolution() -> None:
    check(GROUPED, runtime(), "Conv2D")
    check(GROUPED, runtime(name="onert"), "Split Conv2D Conv2D Concatenation")
    check(GROUPED.replace("f32[6,3,3,2]", "f32[6,3,3,4]"), runtime(name="onert"), "Conv2D")
    unbiased = GROUPED.replace(", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]", "")
    check(unbiased, runtime(name="onert"), "Split Conv2D Conv2D Concatenation")
    computed = GROUPED.replace("%w, [", "%v, [").replace("%y =", "%v = Neg(%w)\n%y =")
    check(computed, runtime(name="onert"), "Neg Conv2D")


def transposed(size: int, stride: int, padding: str, out: tuple[int, int], act: str, bias: str = "") -> str:
    """A transposed convolution of [1,8,6,4] to three channels."""
    return f"""
        %w = const f32[3,{size},{size},4] gaussian(0, 1)
        %y = TransposeConv([1, {out[0]}, {out[1]}, 3], %w, %x{bias})
            {{stride_h: {stride}, stride_w: {stride}, padding: {padding}, act: {act}}}
    """


BIAS = ", [0.1, -0.2, 0.3]"


@pytest.mark.parametrize(
    ("size", "stride", "padding", "out", "ops"),
    [
        (2, 2, "VALID", (16, 12), "Conv2D DepthToSpace"),
        (3, 2, "SAME", (16, 12), "Pad Conv2D DepthToSpace"),
        (3, 2, "VALID", (17, 13), "Pad Conv2D DepthToSpace Slice"),
        (4, 2, "SAME", (16, 12), "Pad Conv2D DepthToSpace Slice"),
        (4, 2, "VALID", (18, 14), "Pad Conv2D DepthToSpace"),
        (1, 2, "VALID", (15, 11), "Conv2D DepthToSpace Slice"),
        (3, 1, "SAME", (8, 6), "Pad Conv2D"),
        (3, 1, "VALID", (10, 8), "Pad Conv2D"),
        (5, 3, "VALID", (26, 20), "Pad Conv2D DepthToSpace Slice"),
    ],
)
def test_transposed_convolution(size: int, stride: int, padding: str, out: tuple[int, int], ops: str) -> None:
    target = runtime("TRANSPOSE_CONV")
    check(transposed(size, stride, padding, out, "NONE"), target, ops)
    check(transposed(size, stride, padding, out, "RELU", BIAS), target, ops)


@pytest.mark.parametrize(
    ("strides", "size", "out", "ops"),
    [
        ((2, 1), 2, (16, 7), "Pad Conv2D Reshape Transpose Reshape"),
        ((1, 2), 2, (9, 12), "Pad Conv2D Reshape"),
        ((3, 2), 3, (24, 13), "Pad Conv2D Reshape Transpose Reshape Slice"),
    ],
)
def test_transposed_convolution_of_uneven_strides(
    strides: tuple[int, int], size: int, out: tuple[int, int], ops: str
) -> None:
    body = transposed(size, 9, "VALID", out, "RELU", BIAS).replace("stride_h: 9", f"stride_h: {strides[0]}")
    check(body.replace("stride_w: 9", f"stride_w: {strides[1]}"), runtime("TRANSPOSE_CONV"), ops)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("more", [(1, 0), (2, 0), (0, 5), (9, 9)])
def test_transposed_convolution_of_more_than_the_full_result(stride: int, more: tuple[int, int]) -> None:
    """Rows and columns that no input reaches are zeros."""
    full = (7 * stride + 2 + more[0], 5 * stride + 2 + more[1])
    body = transposed(2, stride, "VALID", full, "NONE")
    model = parse_model(f"graph main(%x: f32[1,8,6,4]) -> %y {{ {body} }}")
    legal = legalize(model, "circle", targets=[runtime("TRANSPOSE_CONV")])
    assert "TRANSPOSE_CONV" not in {op.code for op in legal.main}
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    assert_close(run(legal, inputs), run(model, inputs))


def test_transposed_convolution_by_a_computed_filter_stays() -> None:
    target = runtime("TRANSPOSE_CONV")
    computed = transposed(2, 2, "VALID", (16, 12), "NONE").replace("%w, %x", "%v, %x")
    check(computed.replace("%y =", "%v = Abs(%w)\n%y ="), target, "Abs TransposeConv")


def test_bias_and_activation_of_transposed_convolution() -> None:
    body = transposed(2, 2, "VALID", (16, 12), "RELU6", BIAS)
    form, with_bias = "i32,f32,f32:f32", "i32,f32,f32,f32:f32"
    check(body, runtime(forms={"TRANSPOSE_CONV": {with_bias: NO_ACTIVATION}}), "TransposeConv Relu6")
    check(body, runtime(forms={"TRANSPOSE_CONV": {form: NO_ACTIVATION}}), "TransposeConv Add")
    check(body, runtime(forms={"TRANSPOSE_CONV": {with_bias: {}}}), "TransposeConv")


# -- ranks, and loops --------------------------------------------------------------------------

FIVE = "%a = Reshape(%x, [1, 8, 6, 2, 2])\n"
RANK_4 = {"rank": 4}


@pytest.mark.parametrize(
    ("code", "body", "ops"),
    [
        ("PAD", "%y = Pad(%a, [[0,0],[1,1],[1,2],[0,0],[0,0]])", "Reshape Pad Reshape"),
        ("PADV2", "%y = PadV2(%a, [[0,0],[0,0],[0,0],[0,0],[1,0]], -1.0)", "Reshape PadV2 Reshape"),
        ("SLICE", "%y = Slice(%a, [0,1,0,0,0], [1,4,6,2,2])", "Reshape Slice Reshape"),
        ("SLICE", "%y = Slice(%a, [0,1,2,0,1], [1,-1,3,1,1])",
         "Reshape Slice Reshape Slice Reshape Slice Reshape Slice Reshape"),
        ("MEAN", "%y = Mean(%a, [1, 2])", "Reshape Mean Reshape"),
        ("MEAN", "%y = Mean(%a, [-1, 1]) {keep_dims: true}", "Reshape Mean Reshape"),
        ("MEAN", "%y = Mean(%a, [0, 2, 4])", "Reshape Mean Reshape Mean Reshape Mean Reshape"),
        ("SUM", "%y = Sum(%a, [1, 4, 2]) {keep_dims: true}", "Reshape Sum Reshape"),
        ("REDUCE_MAX", "%y = ReduceMax(%a, [1, 3])", "Reshape ReduceMax Reshape ReduceMax Reshape"),
        ("PAD", "%y = Pad(%a, [[0,0],[1,1],[1,2],[0,0],[0,3]])",
         "Reshape Pad Reshape Pad Reshape Pad Reshape"),
        ("PADV2", "%y = PadV2(%a, [[1,0],[0,0],[1,2],[0,0],[0,3]], 2.0)",
         "Reshape PadV2 Reshape PadV2 Reshape PadV2 Reshape"),
    ],
)  # fmt: skip
def test_axes_that_are_treated_alike_become_one(code: str, body: str, ops: str) -> None:
    forms = ("f32,i32:f32", "f32,i32,i32:f32", "f32,i32,f32:f32")
    check(FIVE + body, runtime(forms={code: dict.fromkeys(forms, RANK_4)}), f"Reshape {ops}")


@pytest.mark.parametrize(
    ("data", "result", "ops"),
    [
        ("f32[1,8,6,2,2]", "f32[1,2,2]", 3),
        ("f32[?,8,6,2,2]", "f32[?,2,2]", 1),
        ("i8[1,8,6,2,2] quant(scale: 0.5)", "i8[1,2,2] quant(scale: 0.5)", 1),
    ],
)
def test_only_axes_of_known_sizes_and_floats_are_merged(data: str, result: str, ops: int) -> None:
    model = parse_model(f"graph main(%x: {data}) -> %y {{ %y = ReduceMax(%x, [1, 2]) : {result} }}")
    target = runtime(forms={"REDUCE_MAX": {"f32,i32:f32": RANK_4, "i8q,i32:i8q": RANK_4}})
    assert len(legalize(model, "circle", targets=[target]).main) == ops


def test_computed_axes_are_not_merged() -> None:
    text = """graph main(%x: f32[1,8,6,2,2], %a: i32[2], %b: i32[5], %c: i32[]) -> %y, %z, %w {
      %y = ReduceMax(%x, %a) : f32[1,2,2]
      %z = Slice(%x, %b, [1, 4, 6, 2, 2]) : f32[1,4,6,2,2]
      %w, %v = SplitV(%x, [3, 5], %c) {num_splits: 2} : f32[1,3,6,2,2], f32[1,5,6,2,2]
    }"""
    forms = {"REDUCE_MAX": {"f32,i32:f32": RANK_4}, "SLICE": {"f32,i32,i32:f32": RANK_4}}
    model = parse_model(text)
    assert difference(legalize(model, "circle", targets=[runtime("SPLIT_V", forms)]), model) is None


def test_reduced_axes_are_kept_until_a_reshape() -> None:
    kept = {"f32,i32:f32": {"values": {"keep_dims": [True]}}}
    check("%y = Mean(%x, [-1, 1])", runtime(forms={"MEAN": kept}), "Mean Reshape")
    check(
        "%y = ReduceMin(%x, [1, 3])", runtime("REDUCE_MIN", {"REDUCE_MAX": kept}), "Neg ReduceMax Neg Reshape"
    )
    check("%y = Sum(%x, [2]) {keep_dims: true}", runtime(forms={"SUM": kept}), "Sum")


GRU = """
    %hh = const f32[9,2] gaussian(0, 0.4)
    %hb = const f32[9] gaussian(0, 0.1)
    %hi = const f32[9,3] gaussian(0, 0.4)
    %ib = const f32[9] gaussian(0, 0.1)
    %s = const f32[2,3] gaussian(0, 1)
    %y = Gru(%x, %hh, %hb, %hi, %ib, %s) {return_sequences: false, time_major: true}
"""
STEP = "FullyConnected Split Split Add Logistic Add Logistic Mul Add Tanh Mul Sub Mul Add"


def test_gru_is_unrolled() -> None:
    head = "Reshape FullyConnected Reshape Unpack Reshape"
    check(GRU, runtime("GRU"), f"{head} {STEP} {STEP} {STEP} Reshape", shape="3,2,2")
    check(GRU, runtime(), "Gru", shape="3,2,2")


def test_gru_of_no_inputs_stays() -> None:
    text = GRU.replace("f32[9,2] gaussian(0, 0.4)", "f32[9,0] []")
    check(text, runtime("GRU"), "Gru", shape="3,2,0")


@pytest.mark.parametrize("attribute", ["return_sequences: true", "return_sequences: false, act: TANH"])
def test_other_forms_of_gru_stay(attribute: str) -> None:
    text = GRU.replace("return_sequences: false", attribute).replace("%y = Gru", "%z = Gru")
    result = ": f32[3,2,3]" if "true" in attribute else ""
    model = parse_model(f"graph main(%x: f32[3,2,2]) -> %z {{ {text} {result} }}")
    assert difference(legalize(model, "circle", targets=[runtime("GRU")]), model) is None


@pytest.mark.parametrize("bias", ["%hb", "none"])
def test_gru_runs_in_litert(bias: str) -> None:
    model = parse_model("graph main(%x: f32[3,2,2]) -> %y {" + GRU.replace("%hb, %hi", f"{bias}, %hi") + "}")
    legal = legalize(model, "tflite")
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    assert_close(run_litert(legal.main, inputs), run(model, inputs), "LiteRT")


# -- versions ----------------------------------------------------------------------------------


def old_runtime(version: int) -> Target:
    """A runtime that has ADD up to ``version`` and nothing else."""
    adds = {"ADD": {"version": version, "forms": {"f32,f32:f32": {}}}}
    return Target("old", "old", "1", "made up", frozenset({"circle"}), adds)


@pytest.mark.parametrize(("stated", "written"), [(3, None), (1, 1), (2, 2)])
def test_version_that_is_higher_than_needed_is_lowered(stated: int, written: int | None) -> None:
    model = parse_model("graph main(%x: f32[2]) -> %y { %y = Add(%x, %x) }")
    model.main.ops[0].version = stated
    assert legalize(model, "circle", targets=[old_runtime(2)]).main.ops[0].version == written
    assert model.main.ops[0].version == stated
    assert legalize(model, "circle", targets=[old_runtime(0)]).main.ops[0].version == stated
