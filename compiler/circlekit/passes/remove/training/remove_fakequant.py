# SPDX-License-Identifier: Apache-2.0
"""Remove the fake quantization that training leaves in a model."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite


class RemoveFakeQuant(Rewrite):
    """fake_quant(x)  becomes  x: values are no longer rounded to the grid or clamped to its range."""

    name = "remove_fakequant"
    changes_values = True
    quantized = True

    before = """
        y = FakeQuant(x)        {min: any, max: any, num_bits: any, narrow_range: any}
    """
    after = "x"
