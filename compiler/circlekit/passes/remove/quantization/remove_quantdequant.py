# SPDX-License-Identifier: Apache-2.0
"""Remove a Quantize with a Dequantize behind it."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite


class RemoveQuantDequant(Rewrite):
    """dequantize(quantize(x))  becomes  x: values are no longer rounded or clamped to a range."""

    name = "remove_quantdequant"
    changes_values = True
    quantized = True
    shared = ("q",)

    before = """
        q = Quantize(x: f32)
        z = Dequantize(q)
    """
    after = "x"
