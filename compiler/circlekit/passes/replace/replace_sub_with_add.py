# SPDX-License-Identifier: Apache-2.0
"""Write the subtraction of a constant as an addition."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite


class ReplaceSubWithAdd(Rewrite):
    """x - c  ==  x + (-c)."""

    name = "replace_sub_with_add"

    before = """
        z = Sub(x, c: const f32)    {act: any = act}
    """
    after = """
        z = Add(x, negative)        {act: act}
    """

    def constants(self, c: Array) -> dict[str, Array]:
        return {"negative": -c}
