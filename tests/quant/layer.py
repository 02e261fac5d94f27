# SPDX-License-Identifier: Apache-2.0
"""A layer to quantize, its samples, and a check of the quantized model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import circlekit
from circlekit.quant.quantization_report import QuantizationReport
from circlekit.testing import is_available, run_litert, tflite_of
from tests.ops.litert import FLOAT_TOLERANCE

LAYER = """
graph main(%x: f32[1,8]) -> %y {
  %w = const f32[4,8] gaussian(0, 0.3)
  %b = const f32[4] gaussian(0, 0.1)
  %y = FullyConnected(%x, %w, %b)
}
"""
SCHEMES = ["int8", "int16x8", "uint8"]
Model = circlekit.Model
Samples = list[list[np.ndarray]]


def samples(scale: float = 1.0, count: int = 3) -> Samples:
    """Return ``count`` samples of normally distributed numbers with the standard deviation ``scale``."""
    random = np.random.default_rng(3)
    return [[random.normal(0, scale, (1, 8)).astype(np.float32)] for _ in range(count)]


def changed(index: int, change: Callable[[np.ndarray], None]) -> Model:
    """Return LAYER after ``change`` of its operand ``index``: 1 is the weights, 2 the bias."""
    model = circlekit.parse(LAYER)
    value = model.main.ops[0].inputs[index]
    assert value is not None
    array = value.array().copy()
    change(array)
    value.data = array
    return model


def check(model: Model, scheme: str, given: Samples, tolerance: float) -> QuantizationReport:
    """Quantize ``model`` and compare its results for the first sample with those of the float model.

    ``tolerance``: the largest error, as a part of the largest magnitude of the float result.  Where LiteRT
    is installed, its results must be equal; up to the order of float sums if an operator stayed float.
    """
    expected = circlekit.run(model, given[0])
    report = circlekit.quantize(model, scheme, given, auto=False)
    results = circlekit.run(model, given[0])
    for before, after in zip(expected, results, strict=True):
        largest = np.abs(before).max() if before.size else 0
        np.testing.assert_allclose(after, before, atol=largest * tolerance, rtol=0)
    if is_available():
        for ours, theirs in zip(results, run_litert(tflite_of(model), given[0]), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=FLOAT_TOLERANCE if report.floats else 0)
    return report
