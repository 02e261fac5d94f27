# SPDX-License-Identifier: Apache-2.0
"""The noise is measured even if quantization changes the shape of an output, or if elements are NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit

LIMIT_IS_COMPUTED = """
model circle {version: 0}
graph main(%x: f32[1,4], %n: f32[]) -> %y, %range {
  %y = FullyConnected(%x, [[1, 0.4, -0.7, 0.1], [0.3, 1, 0.2, -0.9]])
  %limit = Mul(%n, 19.7)
  %longer = Add(%limit, 12.3)
  %range = Range(0.0, %longer, 1.0)
}
"""

ROOT_OF_NEGATIVES = """
model circle {version: 0}
graph main(%x: f32[1,4]) -> %y, %z {
  %root = Sqrt(%x)
  %y = Add(%root, [1, 2, 3, 4])
  %z = FullyConnected(%x, [[1, 0.4, -0.7, 0.1], [0.3, 1, 0.2, -0.9]])
}
"""


@pytest.mark.parametrize("choice", [{"budget": "50%"}, {"target_sqnr": 30.0}, {"seconds": 0.3}])
@pytest.mark.parametrize("text", [LIMIT_IS_COMPUTED, ROOT_OF_NEGATIVES])
def test_noise_is_measured(text: str, choice: dict[str, Any]) -> None:
    model = circlekit.parse(text)
    rng = np.random.default_rng(3)
    samples = [
        [rng.normal(size=v.static_shape).astype(np.float32) * 3 for v in model.main.inputs] for _ in range(4)
    ]
    for sample in samples:
        sample[1:] = [np.abs(array) + 1 for array in sample[1:]]
    shapes = [output.shape for output in circlekit.run(model, samples[0])]
    report = circlekit.quantize(model, "int8", samples, **choice)
    assert report.schemes["int8"] > 0
    if text is LIMIT_IS_COMPUTED and "target_sqnr" not in choice:
        assert [output.shape for output in circlekit.run(model, samples[0])] != shapes
