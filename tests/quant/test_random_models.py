# SPDX-License-Identifier: Apache-2.0
"""Random models, quantized: LiteRT gives the integers that the interpreter gives."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.interp.interpreter import select_kernels
from circlekit.testing import is_available, random_model, run_litert, tflite_of

SEEDS = (720, 722, 732, 733, 739, 741, 752)
"""Models that LiteRT runs, with convolutions, layer normalization, means, square roots and logarithms."""


@pytest.mark.skipif(not is_available(), reason="LiteRT is not installed")
@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_litert_computes_the_same_integers(scheme: str) -> None:
    for seed in SEEDS:
        model, inputs = random_model(seed, steps=4)
        circlekit.quantize(model, scheme, [inputs], auto=False)
        theirs = run_litert(tflite_of(model), inputs, select_kernels(model))
        for left, right in zip(circlekit.run(model, inputs), theirs, strict=True):
            np.testing.assert_array_equal(left, right, err_msg=f"seed {seed}")
