# SPDX-License-Identifier: Apache-2.0
"""Layers of int16 data get an int64 bias where LiteRT would misread an int32 bias."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from circlekit.targets.target import find_target
from circlekit.targets.unsupported import find_unsupported
from tests.ops.litert import run_litert
from tests.passes.kit import make_input

LITERT = find_target("litert")

LAYERS = {
    "CONV_2D": ("[1,2,2,3]", "[5,1,1,3]", 0, "Conv2D(%x, %w, %b)", "[1,2,2,5]"),
    "DEPTHWISE_CONV_2D": ("[1,2,2,5]", "[1,1,1,5]", 3, "DepthwiseConv2D(%x, %w, %b)", "[1,2,2,5]"),
    "TRANSPOSE_CONV": ("[1,2,2,3]", "[5,1,1,3]", 0, "TransposeConv([1,2,2,5], %w, %x, %b)", "[1,2,2,5]"),
    "FULLY_CONNECTED": ("[2,3]", "[5,3]", 0, "FullyConnected(%x, %w, %b)", "[2,5]"),
}
"""{operator: (shape of the data, shape of the weights, quantized dimension, call, shape of the result)}"""


def layer(code: str, attributes: str = "", weights: str = "i8", channels: int = 1) -> Model:
    """Return a model of a layer of int16 data with an int32 bias.  ``channels``: the number of scales."""
    data, shape, axis, call, result = LAYERS[code]
    scales = [[0.01, 0.02, 0.03, 0.02, 0.01][:channels], [1e-5, 2e-5, 3e-5, 2e-5, 1e-5][:channels]]
    axes = [f", axis: {axis}", ", axis: 0"] if channels > 1 else ["", ""]
    return parse_model(f"""graph main(%x: i16{data} quant(scale: 0.001)) -> %y {{
        %w = const {weights}{shape} quant(scale: {scales[0]}{axes[0]}) uniform(-100, 100)
        %b = const i32[5] quant(scale: {scales[1]}{axes[1]}) [90000, -80000, 70000, 60000, 0]
        %y = {call} {{{attributes}}} : i16{result} quant(scale: 0.002)
    }}""")


@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize("code", LAYERS)
def test_an_int32_bias_becomes_int64(code: str, channels: int) -> None:
    model = layer(code, channels=channels)
    (finding,) = find_unsupported(model, LITERT)
    assert "i32" in finding.reason
    legal = legalize(model, "tflite", targets=[LITERT])
    assert not find_unsupported(legal, LITERT)
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    expected = run(model, inputs)[0]
    assert len(np.unique(expected)) > 5
    np.testing.assert_array_equal(run(legal, inputs)[0], expected)
    np.testing.assert_array_equal(run_litert(legal.main, inputs)[0], expected)


@pytest.mark.parametrize(
    ("code", "attributes", "weights"),
    [
        ("CONV_2D", "quantized_bias_type: i32", "i8"),
        ("TRANSPOSE_CONV", "quantized_bias_type: i32", "i8"),
        ("FULLY_CONNECTED", "quantized_bias_type: i32", "i8"),
        ("FULLY_CONNECTED", "", "i16"),
    ],
)
def test_an_int32_bias_that_litert_reads_as_such_stays(code: str, attributes: str, weights: str) -> None:
    model = layer(code, attributes, weights)
    assert not find_unsupported(model, LITERT)
    (op,) = legalize(model, "tflite", targets=[LITERT]).main
    assert [v.dtype.short for name, v in op.operand_items() if name == "bias"] == ["i32"]
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    np.testing.assert_array_equal(run_litert(model.main, inputs)[0], run(model, inputs)[0])


@pytest.mark.parametrize("code", LAYERS)
def test_an_int32_bias_stays_if_no_runtime_is_named(code: str) -> None:
    (op,) = legalize(layer(code), "tflite").main
    assert [v.dtype.short for name, v in op.operand_items() if name == "bias"] == ["i32"]


def test_a_computed_bias_stays() -> None:
    text = """graph main(%x: i16[2,3] quant(scale: 0.001), %b: i32[5] quant(scale: 1.0e-5)) -> %y {
        %w = const i8[5,3] quant(scale: 0.01) constant(5)
        %y = FullyConnected(%x, %w, %b) : i16[2,5] quant(scale: 0.002)
    }"""
    (op,) = legalize(parse_model(text), "tflite", targets=[LITERT]).main
    assert dict(op.operand_items())["bias"].dtype.short == "i32"
