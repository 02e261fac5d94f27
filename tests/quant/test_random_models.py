# SPDX-License-Identifier: Apache-2.0
"""Random models, quantized: LiteRT gives the integers that the interpreter gives."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.errors import EquivalenceError
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.dtypes import f32
from circlekit.ir.op import Op
from circlekit.testing import is_available, random_model, run_litert, tflite_of

SEEDS = range(700, 760)


def is_float(op: Op) -> bool:
    """Return whether ``op`` computes with floats, which LiteRT rounds in its own way."""
    values = (v for v in (*op.inputs, *op.results) if v is not None)
    return op.code not in ("QUANTIZE", "DEQUANTIZE") and any(v.dtype is f32 for v in values)


@pytest.mark.skipif(not is_available(), reason="LiteRT is not installed")
@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_litert_computes_the_same_integers(scheme: str) -> None:
    compared = 0
    for seed in SEEDS:
        model, inputs = random_model(seed, steps=4)
        circlekit.quantize(model, scheme, [inputs], auto=False)
        if any(map(is_float, model.ops())) or not any(op.code == "QUANTIZE" for op in model.ops()):
            continue
        try:
            theirs = run_litert(tflite_of(model), inputs, select_kernels(model))
        except EquivalenceError as error:
            if "does not accept the model" in str(error):
                continue
            raise
        compared += 1
        for left, right in zip(circlekit.run(model, inputs), theirs, strict=True):
            np.testing.assert_array_equal(left, right, err_msg=f"seed {seed}")
    assert compared >= 10
