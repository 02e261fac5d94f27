# SPDX-License-Identifier: Apache-2.0
"""Store weights of fully connected layers in the order in which ONE's runtime multiplies them."""

from __future__ import annotations

from circlekit.ir.enums import WeightsFormat
from circlekit.ir.value import Array
from circlekit.ops.matmul.dense import ROWS, shuffled_16x1
from circlekit.rewrite.rewrite import Rewrite, condition


class ShuffleWeightTo16x1Float32(Rewrite):
    """Shuffle float32 weights of fully connected layers in blocks of 16 rows, for ONE's runtime."""

    name = "shuffle_weight_to_16x1float32"

    before = """
        y = FullyConnected(x, w: const f32[O, _], b?)
    """
    after = """
        y = FullyConnected(x, w2, b)       {like y, weights_format: format}
    """

    @condition
    def whole_blocks(self, O: int) -> str | None:
        return None if O % ROWS == 0 else f"expected weights with a multiple of {ROWS} rows, got {O}"

    def constants(self, w: Array) -> dict[str, object]:
        return {"w2": shuffled_16x1(w), "format": WeightsFormat.SHUFFLED16x1FLOAT32}
