# SPDX-License-Identifier: Apache-2.0
"""Weights of fully connected layers in the order that a runtime multiplies them in."""

from __future__ import annotations

from circlekit.ir.enums import WeightsFormat
from circlekit.ir.value import Array
from circlekit.ops.matmul.dense import ROWS, shuffled_16x1
from circlekit.rewrite.rewrite import Rewrite, condition


class ShuffleWeightTo16x1Float32(Rewrite):
    """Float32 weights of a fully connected layer, shuffled in blocks of 16 rows (for ONE's runtime)."""

    name = "shuffle_weight_to_16x1float32"

    before = """
        y = FullyConnected(x, w: const f32[O, _], b?)
    """
    after = """
        y = FullyConnected(x, w2, b)       {like y, weights_format: format}
    """

    @condition
    def whole_blocks(self, O: int) -> str | None:
        return None if O % ROWS == 0 else f"the weights have {O} rows, a multiple of {ROWS} is wanted"

    def constants(self, w: Array) -> dict[str, object]:
        return {"w2": shuffled_16x1(w), "format": WeightsFormat.SHUFFLED16x1FLOAT32}
