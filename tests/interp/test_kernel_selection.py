# SPDX-License-Identifier: Apache-2.0
"""A model that LiteRT's reference kernels refuse gives the integers of its optimized kernels."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.errors import UnsupportedError
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ops.numerics.output_stage import Kernels
from tests.ops.litert import run_litert

MODEL = """
model tflite

graph main(%x: i8[1,64,64,8] quant(scale: 0.5, zero_point: 3)) -> %y {{
  %w = const i8[4,3,3,8] quant(scale: 0.0078125) uniform(-127, 127)
  %b = const i32[4] quant(scale: 0.00390625) uniform(-3000, 3000)
  %c = Conv2D(%x, %w, %b) : i8[1,64,64,4] quant(scale: 8.0, zero_point: -4)
  %y = DepthToSpace(%c) {options} : i8[1,128,128,1] quant(scale: 8.0, zero_point: -4)
}}
"""


def model_of(options: str) -> Model:
    return parse_model(MODEL.format(options=options))


@pytest.mark.parametrize(
    ("options", "kernels"),
    [("{block_size: 2}", Kernels.OPTIMIZED), ("{block_size: 2, version: 1}", Kernels.REFERENCE)],
)
def test_model_as_litert_runs_it(options: str, kernels: Kernels) -> None:
    """LiteRT has a reference kernel of DEPTH_TO_SPACE for version 1 only.

    With version 2, it runs the whole model with optimized kernels, which give other integers here.
    """
    model = model_of(options)
    assert select_kernels(model) is kernels
    rng = np.random.default_rng(5)
    x = rng.integers(-128, 128, (1, 64, 64, 8), dtype=np.int8)
    (wanted,) = run_litert(model.main, [x])
    interpreter = circlekit.Interpreter(model)
    for _ in range(2):  # the second run uses what the first has prepared
        (got,) = interpreter.run([x])
        np.testing.assert_array_equal(got, wanted)
    (other,) = next(circlekit.Interpreter(model, k) for k in Kernels if k is not kernels).run([x])
    assert np.count_nonzero(other != wanted)


def test_models_are_compared_with_the_kernels_of_the_first() -> None:
    """Otherwise these models, which differ only in a version, would not be equal."""
    assert circlekit.compare(model_of("{block_size: 2}"), model_of("{block_size: 2, version: 1}")).equal


def test_kernels_are_selected_by_name() -> None:
    model = parse_model("graph main(%x: f32[2]) -> %y { %y = Abs(%x) }")
    assert circlekit.Interpreter(model, kernels="optimized").kernels is Kernels.OPTIMIZED
    with pytest.raises(UnsupportedError, match="expected kernels reference or optimized, got 'fast'"):
        circlekit.Interpreter(model, kernels="fast")
    with pytest.raises(UnsupportedError, match=r"expected kernels reference or optimized, got array\("):
        circlekit.Interpreter(model, kernels=np.zeros(2))  # type: ignore[arg-type]  # no name
