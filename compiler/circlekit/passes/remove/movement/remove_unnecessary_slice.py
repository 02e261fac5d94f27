# SPDX-License-Identifier: Apache-2.0
"""Remove slices of everything."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.rewrite.rewrite import Rewrite, condition


class RemoveUnnecessarySlice(Rewrite):
    """slice(x, 0, all)  ==  x."""

    name = "remove_unnecessary_slice"
    quantized = True

    before = """
        y = Slice(x, begin: const, size: const)
    """
    after = "x"

    @condition
    def takes_everything(self, x: Value, y: Value, begin: Array, size: Array) -> str | None:
        if x.shape is None:
            return f"%{x.name}: expected a known rank"
        for axis, (dim, first, count) in enumerate(zip(x.shape, begin, size, strict=True)):
            if first != 0 or count not in (-1, dim):
                return (
                    f"%{y.name}: expected all {dim or 'elements'} of axis {axis}, got {count} from {first} on"
                )
        return None
