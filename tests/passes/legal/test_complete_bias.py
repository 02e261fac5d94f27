# SPDX-License-Identifier: Apache-2.0
"""Layers without a bias get one if the runtime needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from tests.ops.litert import run_litert
from tests.passes.kit import make_input
from tests.passes.legal.made_up_runtimes import NO_ACTIVATION, check, runtime


@pytest.mark.parametrize(
    ("attributes", "ops"), [("act: TANH", "Conv2D Tanh"), ("act: RELU6", "Conv2D Relu6")]
)
def test_an_operator_gets_a_bias_and_loses_its_activation(attributes: str, ops: str) -> None:
    """Both changes are needed: the CONV_2D of the runtime has a bias and fuses no activation.

    If the runtime lacks the activation as an operator, too, nothing changes.
    """
    body = f"%w = const f32[4,3,3,4] gaussian(0, 1)\n%y = Conv2D(%x, %w, none) {{{attributes}}}"
    target = runtime(forms={"CONV_2D": {"f32,f32,f32:f32": NO_ACTIVATION}})
    legal = check(body, target, ops)
    assert legal.main.ops[0].inputs[2] is not None
    check(body, runtime("TANH RELU6", {"CONV_2D": {"f32,f32,f32:f32": NO_ACTIVATION}}), "Conv2D")


CONV = """
    %w = const f32[3,3,3,4] gaussian(0, 1)
    %y = Conv2D(%x, %w) {act: RELU, stride_h: 2, stride_w: 2}
"""


def test_convolution_without_bias() -> None:
    target = runtime(forms={"CONV_2D": {"f32,f32,f32:f32": {}}})
    assert check(CONV, target, "Conv2D").main.ops[0].inputs[2] is not None
    assert check(CONV, runtime(), "Conv2D").main.ops[0].inputs[2:] in ([], [None])


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


@pytest.mark.parametrize("layer", ["Conv2D", "DepthwiseConv2D"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_a_layer_of_floats_gets_a_bias_of_their_dtype(dtype: str, layer: str) -> None:
    shape = "2,3,3,2" if layer == "Conv2D" else "1,3,3,2"
    model = parse_model(f"""graph main(%x: {dtype}[1,4,4,2]) -> %y {{
        %w = const {dtype}[{shape}] gaussian(0, 1)
        %y = {layer}(%x, %w)
    }}""")
    legal = legalize(model, "tflite")
    bias = legal.main.ops[0].inputs[2]
    assert bias is not None
    assert bias.dtype.short == dtype
    if dtype == "f16":
        return  # the interpreter has no kernel
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    np.testing.assert_array_equal(run(legal, inputs)[0], run(model, inputs)[0])


def test_a_layer_of_bfloat16_gets_no_bias() -> None:
    model = parse_model("""graph main(%x: bf16[1,4,4,2], %w: bf16[2,3,3,2]) -> %y {
        %y = Conv2D(%x, %w)
    }""")
    assert difference(legalize(model, "tflite"), model) is None


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
    """The scale of a bias is one scale of the data times the scales of the weights."""
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
