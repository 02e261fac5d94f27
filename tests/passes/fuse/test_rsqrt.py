# SPDX-License-Identifier: Apache-2.0
"""Fusion of the reciprocal square root of int16."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context


def rsqrt(one: str = "const i16[1] quant(scale: 0.0001) [10000]", s: str = "quant(scale: 0.001)") -> Model:
    """Return 1 / sqrt(x); ``one``: the constant 1, such as 10000 * 0.0001; ``s``: the quantization of %s."""
    text = f"""graph main(%x: i16[4] quant(scale: 0.01)) -> %z {{
      %k = {one}
      %s = Sqrt(%x) : i16[4] {s}
      %z = Div(%k, %s) : i16[4] quant(scale: 0.02)
    }}"""
    return parse_model(text)


def test_rsqrt_of_int16_has_the_scale_of_the_quotient() -> None:
    model = rsqrt()
    assert all_passes()["fuse_rsqrt"]().run(model, Context()) == 1
    (op,) = model.main.ops
    assert op.code == "RSQRT"
    assert op.output.quantization is not None
    assert op.output.quantization.scale.tolist() == pytest.approx([0.02])


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (rsqrt("const i16[1] quant(scale: 0.0001) [5000]"), "%k: expected 1, got 0.5"),
        (rsqrt("const i16[1] [1]"), "%k: expected quantization with one scale"),
        (rsqrt(s=""), "%s: expected quantization with one scale"),
    ],
)
def test_int16_rsqrt_near_misses(model: Model, sentence: str) -> None:
    context = Context(refusals=[])
    assert all_passes()["fuse_rsqrt"]().run(model, context) == 0
    assert sentence in [r.sentence for r in context.refusals or ()]


@pytest.mark.parametrize(
    ("low", "fused_error"), [(1, 2.65), (128, 0.033), (256, 0.011), (512, 0.0034), (1024, 0.00096)]
)
def test_the_error_of_int16_rsqrt_is_that_of_the_fused_kernel(low: int, fused_error: float) -> None:
    """LiteRT's RSQRT interpolates between operands that are 128 integers apart; SQRT and DIV do not."""
    integers = np.arange(low, 32768)
    exact = 1 / np.sqrt(integers * 0.01)
    scale = exact[0] / 32767
    text = f"""graph main(%x: i16[{integers.size}] quant(scale: 0.01)) -> %z {{
      %k = const i16[1] quant(scale: 0.0001) [10000]
      %s = Sqrt(%x)    : i16[{integers.size}] quant(scale: 0.000553)
      %z = Div(%k, %s) : i16[{integers.size}] quant(scale: {scale})
    }}"""
    chain, fused = parse_model(text), parse_model(text)
    assert all_passes()["fuse_rsqrt"]().run(fused, Context()) == 1

    def error(model: Model) -> float:
        """Return the largest relative error, after one step, for rounding, is subtracted from each error."""
        (result,) = Interpreter(model).run([integers.astype(np.int16)])
        return float(np.max((np.abs(result * scale - exact) - scale) / exact))

    assert error(fused) == pytest.approx(fused_error, rel=0.05)
    assert error(chain) < 0.004
