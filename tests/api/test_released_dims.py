# SPDX-License-Identifier: Apache-2.0
"""Files of dynamic models in which some results state a batch size, as litert-torch writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.litert import run_litert
from circlekit.ir.graph import Model

BATCH = 3


def dynamic_model(batch: int) -> Model:
    """Return a model for any batch size; the results of its last two operators state ``batch``."""
    return circlekit.parse(
        f"""
        graph main(%x: f32[?,4,6,8]) -> %y {{
          %t = Transpose(%x, [0, 2, 3, 1])  : f32[?,6,8,4]
          %p = Mean(%t, [2]) {{keep_dims: true}}  : f32[{batch},6,1,4]
          %y = Transpose(%p, [0, 3, 1, 2])  : f32[{batch},4,6,1]
        }}
        """
    )


@pytest.mark.parametrize("stated", [0, 1, 20])
def test_a_stated_batch_is_no_limit(stated: int, tmp_path: Path) -> None:
    before, after = tmp_path / "before.tflite", tmp_path / "after.tflite"
    circlekit.save(dynamic_model(stated), before)
    x = np.random.default_rng(7).normal(size=(BATCH, 4, 6, 8)).astype(np.float32)
    (expected,) = run_litert(before.read_bytes(), [x])
    assert expected.shape == (BATCH, 4, 6, 1)
    original = circlekit.load(before)
    assert original.main.outputs[0].shape == (stated, 4, 6, 1)  # as in the file
    np.testing.assert_allclose(circlekit.run(original, [x])[0], expected, rtol=1e-6, atol=1e-6)
    model = circlekit.load(before)
    circlekit.optimize(model, verify=True)
    assert "Mean" in str(model)
    assert model.main.outputs[0].shape == (None, 4, 6, 1)
    assert circlekit.compare(original, model)
    circlekit.save(model, after)
    np.testing.assert_allclose(run_litert(after.read_bytes(), [x])[0], expected, rtol=1e-6, atol=1e-6)
