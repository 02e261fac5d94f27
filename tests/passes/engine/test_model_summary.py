# SPDX-License-Identifier: Apache-2.0
"""The sizes that a summary of a model counts."""

from __future__ import annotations

from circlekit.ir.text import parse_model
from circlekit.passes.engine.model_summary import summarize


def test_summary_of_a_model() -> None:
    """The quantized constant %q is a parameter, the shape of the Reshape is not; %w counts once."""
    model = parse_model("""
        graph g(%x: f32[?,4], %i: i8[2] quant(scale: 0.5, zero_point: 0)) -> %z, %s {
          %w = const f32[3,4] gaussian(0, 1)
          %q = const i8[2] quant(scale: 0.5, zero_point: 0) [1, 2]
          %y = FullyConnected(%x, %w)
          %v = FullyConnected(%x, %w)
          %a = Add(%y, %v)
          %z = Reshape(%a, [-1])
          %s = Add(%i, %q) : i8[2] quant(scale: 1.0, zero_point: 0)
        }
    """)
    found = summarize(model, 77)
    # parameters: %w and %q; MACs: two layers of 3 * 4, for a batch of 1 in place of the unknown one
    assert found.ops == {"ADD": 2, "FULLY_CONNECTED": 2, "RESHAPE": 1}
    assert (found.op_count, found.parameters, found.macs, found.file_size) == (5, 12 + 2, 2 * 3 * 4, 77)
