# SPDX-License-Identifier: Apache-2.0
"""What an interpreter takes, in parts of the model's own arena and constants; small models are the hard ones.

Bytes are counted, no time: the same model takes the same.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from circlekit.interp import Interpreter, run
from circlekit.io.read.load import load
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from tests.ops.litert import run_litert
from tools.bench.interpreter import arena, constants, peak
from tools.bench.mobilenet import sample

MOST = 3.0

SHARED = Path(os.environ.get("CIRCLEKIT_SHARED", Path(__file__).parents[3] / "shared"))
SMALL = (
    "mlperf_tiny/*_quant",
    "mlperf_tiny/ad01*",
    "mlperf_tiny/kws*",
    "mlperf_tiny/str*",
    "tensorflow/*int*",
)


def data(shape: str, scale: float = 0.05, zero: int = 3, dtype: str = "i8") -> str:
    return f"{dtype}[{shape}] quant(scale: {scale}, zero_point: {zero})"


def weights(shape: str) -> str:
    return f"const i8[{shape}] quant(scale: 0.004) uniform(-127, 127)"


def bias(units: int) -> str:
    return f"const i32[{units}] quant(scale: 0.0002) uniform(-2000, 2000)"


LAYERS = {
    "separable": f"""
        graph main(%x: {data("1,24,6,48")}) -> %y {{
          %w1 = {weights("1,3,3,48")}
          %b1 = {bias(48)}
          %w2 = {weights("48,1,1,48")}
          %b2 = {bias(48)}
          %1 = DepthwiseConv2D(%x, %w1, %b1) {{act: RELU}}  : {data("1,24,6,48", 0.1, -128)}
          %2 = Conv2D(%1, %w2, %b2) {{act: RELU}}           : {data("1,24,6,48", 0.2, -128)}
          %y = DepthwiseConv2D(%2, %w1, %b1)                : {data("1,24,6,48", 0.3)}
        }}""",
    "residual": f"""
        graph main(%x: {data("1,20,20,16")}) -> %y {{
          %w1 = {weights("16,3,3,16")}
          %b1 = {bias(16)}
          %w2 = {weights("32,3,3,16")}
          %b2 = {bias(32)}
          %1 = Conv2D(%x, %w1, %b1) {{act: RELU}}           : {data("1,20,20,16", 0.1, -128)}
          %2 = Add(%1, %x)                                  : {data("1,20,20,16", 0.12, 5)}
          %3 = Conv2D(%2, %w2, %b2) {{stride_h: 2, stride_w: 2}}  : {data("1,10,10,32", 0.3, -4)}
          %4 = AveragePool2D(%3) {{filter_height: 3, filter_width: 3}}  : {data("1,10,10,32", 0.3, -4)}
          %y = Mul(%4, %3)                                  : {data("1,10,10,32", 0.9, 7)}
        }}""",
    "long": f"""
        graph main(%x: {data("1,1,2000,8")}) -> %y {{
          %w = {weights("8,1,9,8")}
          %b = {bias(8)}
          %1 = Conv2D(%x, %w, %b)                           : {data("1,1,2000,8", 0.2)}
          %d = {weights("1,1,5,8")}
          %y = DepthwiseConv2D(%1, %d, %b)                  : {data("1,1,2000,8", 0.3)}
        }}""",
    "dense": f"""
        graph main(%x: {data("1,300")}) -> %y {{
          %w1 = {weights("200,300")}
          %b1 = {bias(200)}
          %w2 = {weights("300,200")}
          %b2 = {bias(300)}
          %1 = FullyConnected(%x, %w1, %b1) {{act: RELU}}   : {data("1,200", 0.2, -128)}
          %y = FullyConnected(%1, %w2, %b2)                 : {data("1,300", 0.4)}
        }}""",
    "upwards": f"""
        graph main(%x: {data("1,8,8,48")}) -> %y {{
          %w = {weights("24,4,4,48")}
          %b = {bias(24)}
          %1 = TransposeConv([1,16,16,24], %w, %x, %b) {{stride_h: 2, stride_w: 2}}
             : {data("1,16,16,24", 0.4)}
          %y = LeakyRelu(%1) {{alpha: 0.2}}                 : {data("1,16,16,24", 0.3, 9)}
        }}""",
    "hybrid": f"""
        graph main(%x: f32[1,300]) -> %y {{
          %w1 = {weights("200,300")}
          %w2 = {weights("300,200")}
          %1 = FullyConnected(%x, %w1, none) {{act: RELU}}  : f32[1,200]
          %y = FullyConnected(%1, %w2, none)                : f32[1,300]
        }}""",
    "classes": f"""
        graph main(%x: f32[1,16,16,48]) -> %y {{
          %1 = Quantize(%x)                                 : {data("1,16,16,48", 0.02, -7)}
          %y = Softmax(%1) {{beta: 1.0}}                    : {data("1,16,16,48", 0.00390625, -128)}
        }}""",
}


def ratio(model: Model) -> float:
    inputs = [sample(value) for value in model.main.inputs]
    Interpreter(model).run(inputs)  # what is made but once in a process counts for no model
    return peak(model, inputs)[0] / (arena(model.main) + constants(model))


@pytest.mark.parametrize("name", LAYERS)
def test_small_integer_layers_take_less_than_three_times_the_model(name: str) -> None:
    assert ratio(parse_model(LAYERS[name])) < MOST


@pytest.mark.parametrize("name", [n for n in LAYERS if n != "hybrid"])  # of which floats are rounded
def test_results_in_little_memory(name: str) -> None:
    model = parse_model(LAYERS[name])
    inputs = [sample(value) for value in model.main.inputs]
    wanted = run_litert(model.main, inputs)[0]
    interpreter = Interpreter(model)
    for _ in range(2):
        np.testing.assert_array_equal(interpreter.run(inputs)[0], wanted)
    np.testing.assert_array_equal(run(model, inputs)[0], wanted)


@pytest.mark.parametrize("pattern", SMALL)
def test_small_integer_models(pattern: str) -> None:
    paths = sorted((SHARED / "models").glob(pattern + ".tflite"))
    if not paths:
        pytest.skip("no models")
    for path in paths:
        assert ratio(load(path)) < MOST, path.name
