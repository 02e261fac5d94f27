# SPDX-License-Identifier: Apache-2.0
"""Conversion of NCHW operators and interfaces to channels last."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.interp.interpreter import run
from circlekit.ir.clone import clone
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization
from circlekit.ir.verifier import check
from circlekit.ops.reduction.reduce import Reduction
from circlekit.passes.engine.explain import explain_pass
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.layout.convert_nchw_to_nhwc import NCHW, NHWC, _can_move
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal, make_input

SINGLE = "graph main(%x: f32[1,3,4,5]) -> %y {{ %y = {} }}"

BODY = """
graph main(%x: f32[1,3,6,5]) -> %y {
  %t = Transpose(%x, [0,2,3,1])
  %w = const f32[3,3,3,3] gaussian(0, 0.2)
  %c = Conv2D(%t, %w, none) {padding: SAME}
  %n = Transpose(%c, [0,3,1,2])
  %m = Mul(%n, [[[[2.0]], [[3.0]], [[4.0]]]])
  %y = Add(%m, %x) {act: RELU}
}
"""


@pytest.mark.parametrize(
    ("call", "ops"),
    [
        ("Add(%x, [1.0, 2.0, 3.0, 4.0, 5.0])", ["Transpose", "Add", "Transpose"]),
        ("Sub([[[1.0]], [[2.0]], [[3.0]]], %x)", ["Transpose", "Sub", "Transpose"]),
        ("Concatenation(%x, %x) {axis: -1}", ["Transpose", "Concatenation", "Transpose"]),
        ("Pad(%x, [[0,0],[0,0],[1,2],[3,0]])", ["Transpose", "Pad", "Transpose"]),
        ("Mean(%x, [2,3]) {keep_dims: true}", ["Transpose", "Mean", "Reshape"]),
        ("Mean(%x, [2,3])", ["Transpose", "Mean"]),
        ("Mean(%x, [-1])", ["Transpose", "Mean", "Transpose"]),
        ("ReduceMax(%x, [0,2])", ["Transpose", "ReduceMax", "Transpose"]),
        ("Softmax(%x)", ["Softmax"]),
        ("MaxPool2D(%x) {padding: VALID}", ["MaxPool2D"]),
    ],
)
def test_single_operators(call: str, ops: list[str]) -> None:
    check_pass(SINGLE.format(call), "convert_nchw_to_nhwc", ops)


def test_user_of_a_convolution_is_nhwc_already() -> None:
    text = BODY.replace("Transpose(%x, [0,2,3,1])", "Relu(%x)").replace("f32[1,3,6,5]", "f32[1,6,5,3]")
    text = text.replace("Transpose(%c, [0,3,1,2])", "Relu(%c)")
    text = text.replace("[[[[2.0]], [[3.0]], [[4.0]]]]", "[2.0, 3.0, 4.0]")
    check_pass(text, "convert_nchw_to_nhwc", ["Relu", "Conv2D", "Relu", "Mul", "Add"])


@pytest.mark.parametrize(
    ("outputs", "ops"),
    [
        ("%y, %a", ["Sin", "Transpose", "Relu", "Cos", "Transpose"]),
        ("%y, %b", ["Sin", "Transpose", "Relu", "Transpose", "Cos"]),
    ],
)
def test_other_operators_have_the_cheapest_layout(outputs: str, ops: list[str]) -> None:
    """A Relu always becomes NHWC.  Sin and Cos become NHWC only where that saves a Transpose."""
    body = "%a = Sin(%x)\n %b = Relu(%a)\n %y = Cos(%b)"
    check_pass(f"graph main(%x: f32[1,3,4,5]) -> {outputs} {{ {body} }}", "convert_nchw_to_nhwc", ops)


def test_nchw_operators_around_a_convolution() -> None:
    check_pass(BODY, "convert_nchw_to_nhwc", ["Transpose", "Conv2D", "Mul", "Add", "Transpose"])


def test_a_concatenation_stays_if_nhwc_would_copy_more_runs() -> None:
    """For each part it copies one run of 2 contiguous elements in NCHW, but two runs of 1 in NHWC."""
    text = "graph main(%x: f32[1,1,2,1]) -> %y { %y = Concatenation(%x, %x, %x) {axis: 1} }"
    check_pass(text, "convert_nchw_to_nhwc", ["Concatenation"])


def test_converges_together_with_optimize_layout() -> None:
    check_pass(BODY, ["convert_nchw_to_nhwc", "optimize_layout", "remove_redundant_transpose"])


def test_operators_that_keep_their_layout_say_why() -> None:
    text = SINGLE.format("Softmax(%a)").replace("{", "{ %a = Add(%x, [1.0, 2.0, 3.0, 4.0, 5.0])")
    sentences = [r.sentence for r in explain_pass(parse_model(text), "convert_nchw_to_nhwc", "circle")]
    assert sentences[0] == "%y: Softmax cannot work on permuted axes"


def converted(text: str, passes: list[str]) -> circlekit.Model:
    """Return the model of ``text`` after ``passes``, verified and valid."""
    model = parse_model(text)
    circlekit.optimize(model, passes, verify=True)
    check(model)
    return model


def test_a_transpose_to_a_third_layout_is_left_alone() -> None:
    text = """graph main(%x: f32[1,1,2,1]) -> %y {
      %t = Transpose(%x, [0,3,1,2])
      %c = Concatenation(%t, %t, %t) {axis: 0}
      %y = Transpose(%c, [0,3,1,2])
    }"""
    model = converted(text, ["convert_nchw_to_nhwc"])
    assert [type(op).__name__ for op in model.main] == ["Concatenation", "Reshape", "Transpose"]


@pytest.mark.parametrize("text", [BODY, SINGLE.format("Add(%x, [1.0, 2.0, 3.0, 4.0, 5.0])")])
def test_the_interface_with_channels_last(text: str) -> None:
    """Values stay equal on transposed inputs, and no transpose is left."""
    original = parse_model(text)
    model = converted(text, ["convert_nchw_to_nhwc", "nchw_to_nhwc_input_shape", "nchw_to_nhwc_output_shape"])
    assert "TRANSPOSE" not in [op.code for op in model.main]
    (x,), (y,) = model.main.inputs, model.main.outputs
    assert (x.name, y.name) == ("x", "y")
    array = make_input(original.main.inputs[0], "normal")
    (before,) = run(clone(original), [array])
    (after,) = run(model, [np.ascontiguousarray(array.transpose(0, 2, 3, 1))])
    np.testing.assert_allclose(after, before.transpose(0, 2, 3, 1), 1e-5, 1e-5)


def test_convert_only_the_interface() -> None:
    text = 'signature "s" @main (image: %x) -> (out: %y)\n' + SINGLE.format("Softmax(%x)")
    model = converted(text, ["nchw_to_nhwc_input_shape"])
    assert [type(op).__name__ for op in model.main] == ["Transpose", "Softmax"]
    (x,) = model.main.inputs
    assert (x.name, x.shape) == ("x", (1, 4, 5, 3))
    assert model.signatures[0].inputs["image"] is x
    model = converted(text, ["nchw_to_nhwc_output_shape"])
    assert [type(op).__name__ for op in model.main] == ["Softmax", "Transpose"]
    assert model.signatures[0].outputs["out"] is model.main.outputs[0]
    assert model.main.outputs[0].shape == (1, 4, 5, 3)


@pytest.mark.parametrize("rescales", [False, True])
@pytest.mark.parametrize("name", ["nchw_to_nhwc_input_shape", "nchw_to_nhwc_output_shape"])
def test_a_transpose_that_rescales_stays_at_the_interface(name: str, rescales: bool) -> None:
    """A Transpose rescales if its result has other quantization parameters than its operand."""
    text = """
    graph main(%x: i8[1,3,4,5] quant(scale: 0.5)) -> %y {
      %t = Transpose(%x, [0,2,3,1]) : i8[1,4,5,3] quant(scale: IN)
      %r = Relu(%t)                 : i8[1,4,5,3] quant(scale: OUT)
      %y = Transpose(%r, [0,3,1,2]) : i8[1,3,4,5] quant(scale: 0.5)
    }
    """
    mine = "IN" if "input" in name else "OUT"
    text = text.replace(mine, "0.25" if rescales else "0.5").replace("IN", "0.5").replace("OUT", "0.5")
    original = parse_model(text)
    model = converted(text, [name])
    assert len(model.main) == (4 if rescales else 2)
    array = make_input(original.main.inputs[0], "normal")
    (before,) = run(original, [array])
    if "input" in name:
        (after,) = run(model, [np.ascontiguousarray(array.transpose(0, 2, 3, 1))])
    else:
        before, (after,) = before.transpose(0, 2, 3, 1), run(model, [array])
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [("Mean", "%y_1: reads NHWC data already"), ("Sum", "%y: Sum has %y, which cannot be transposed")],
)
def test_a_converted_reduction_is_not_said_to_be_impossible(call: str, sentence: str) -> None:
    model = parse_model(SINGLE.format(f"{call}(%x, [2])"))
    assert [r.sentence for r in explain_pass(model, "convert_nchw_to_nhwc", "circle")] == [sentence]


@pytest.mark.parametrize("rank", ["1,3,5", "*"])
def test_reduction_with_a_result_of_unknown_rank_stays(rank: str) -> None:
    text = SINGLE.format(f"Mean(%x, [2]) : f32[{rank}]")
    check_pass(text, "convert_nchw_to_nhwc", ["Mean"] if rank == "*" else ["Transpose", "Mean", "Transpose"])


@pytest.mark.parametrize("scale", ["0.5", "0.25"])
def test_reduction_after_a_transpose_that_rescales(scale: str) -> None:
    text = f"""
    graph main(%x: i8[1,4,5,3] quant(scale: 0.5)) -> %y {{
      %t = Transpose(%x, [0,3,1,2]) : i8[1,3,4,5] quant(scale: {scale})
      %y = Mean(%t, [2,3])          : i8[1,3] quant(scale: 0.5)
    }}
    """
    model, original = converted(text, ["convert_nchw_to_nhwc"]), parse_model(text)
    kinds = ["Mean"] if scale == "0.5" else ["Transpose", "Transpose", "Mean"]
    assert [type(op).__name__ for op in model.main] == kinds
    array = make_input(original.main.inputs[0], "normal")
    np.testing.assert_array_equal(run(model, [array])[0], run(original, [array])[0])


@pytest.mark.parametrize(
    ("sides", "shape", "body"),
    [
        (("input", "output"), "1,3,4,5", "%t = Transpose(%x, [0,2,3,1]) %y = Relu(%t)"),
        (("output", "input"), "1,4,5,3", "%t = Relu(%x) %y = Transpose(%t, [0,3,1,2])"),
        (("input", "output"), "1,3,4,5", "%t = Relu(%x) %y = Relu(%t)"),  # a near miss: both are NCHW
    ],
)
def test_a_layout_is_known_after_its_transpose_was_removed(
    sides: tuple[str, str], shape: str, body: str
) -> None:
    """The first pass removes the Transpose, which shows that the other end of the graph is NHWC already."""
    names = [f"nchw_to_nhwc_{side}_shape" for side in sides]
    model = converted(f"graph main(%x: f32[{shape}]) -> %y {{ {body} }}", names)
    assert (model.main.inputs[0].shape, model.main.outputs[0].shape) == ((1, 4, 5, 3), (1, 4, 5, 3))


def test_the_input_and_output_of_a_pool_stay() -> None:
    text = SINGLE.format("MaxPool2D(%x) {padding: VALID}")
    model = converted(text, ["nchw_to_nhwc_input_shape", "nchw_to_nhwc_output_shape"])
    assert [op.code for op in model.main] == ["MAX_POOL_2D"]
    assert model.main.inputs[0].shape == (1, 3, 4, 5)


@pytest.mark.parametrize(
    ("kind", "call", "why"),
    [
        ("f32[1,4,5]", "Relu(%x)", "expected rank 4, got 3"),
        ("f32[*]", "Relu(%x)", "expected rank 4, got an unknown rank"),
        ("f32[2,1,1,1]", "Relu(%x)", "has the shape [2,1,1,1], which is the same in NCHW and NHWC"),
        ("f32[1,4,5,3]", "MaxPool2D(%x)", "is NHWC already, as an operator or a Transpose shows"),
    ],
)
def test_inputs_and_outputs_that_keep_their_layout_say_why(kind: str, call: str, why: str) -> None:
    text = f"graph main(%x: {kind}) -> %y {{ %y = {call} }}"
    check_refusal(text, "nchw_to_nhwc_input_shape", f"%x: {why}")
    check_refusal(text, "nchw_to_nhwc_output_shape", f"%y: {why}")


def test_an_input_with_blockwise_quantization_keeps_its_layout() -> None:
    model = parse_model(SINGLE.format("Relu(%x)"))
    model.main.inputs[0].quantization = Quantization(details={"": "BlockwiseQuantization"})
    context = Context(refusals=[])
    assert all_passes()["nchw_to_nhwc_input_shape"]().run(model, context) == 0
    sentences = [refusal.sentence for refusal in context.refusals or ()]
    assert sentences == ["%x: has quantization details, which may depend on the layout"]


@pytest.mark.parametrize(
    ("body", "side", "moves"),
    [
        ("%t = Transpose(%x, [0,3,1,2]) %y = Sum(%t, [2,3])", None, True),
        ("%t = Transpose(%x, [0,3,1,2]) %y = Sum(%t, [-1])", None, True),
        ("%t = Transpose(%x, [0,3,1,2]) %y = Sum(%t, [2,3]) {keep_dims: true}", None, False),
        ("%t = Transpose(%x, [0,3,1,2]) %y = Sum(%t, %i) : f32[1,3]", None, False),
        ("%t = Transpose(%x, [0,2,3,1]) %y = Sum(%t, [2,3])", None, False),
        ("%t = Relu(%x) %y = Sum(%t, [2,3])", None, False),
        ("%t = Relu(%x) %y = Sum(%t, [2,3])", NCHW, True),
        ("%t = Relu(%x) %y = Sum(%t, [2,3])", NHWC, False),
        ("%t = const f32[1,3,4,5] ones %y = Sum(%t, [2,3])", NCHW, False),
        ("%t: f32[1,3,4,5] variable %y = Sum(%t, [2,3])", NCHW, False),
        ("%t = Relu(%q) : i8[1,1,1,2] PER_CHANNEL %y = Sum(%t, [2,3]) : i8[1,1] PER_TENSOR", NCHW, False),
        ("%t = Relu(%q) : i8[1,1,1,2] PER_TENSOR %y = Sum(%t, [2,3]) : i8[1,1] PER_TENSOR", NCHW, True),
    ],
)
def test_reductions_that_can_read_nhwc(body: str, side: int | None, moves: bool) -> None:
    per_channel = "quant(scale: [0.5, 0.25], zero_point: [0, 0], axis: 3)"
    inputs = "%x: f32[1,3,4,5], %i: i32[2], %q: i8[1,1,1,2] PER_TENSOR"
    text = f"graph main({inputs}) -> %y {{ {body} }}"
    text = text.replace("PER_CHANNEL", per_channel).replace("PER_TENSOR", "quant(scale: 0.5)")
    op = parse_model(text).main.ops[-1]
    assert isinstance(op, Reduction)
    assert _can_move(op, {} if side is None else {op.input: side}) is moves
