# SPDX-License-Identifier: Apache-2.0
"""Reshapes to the same shape."""

from __future__ import annotations

from circlekit.ir.value import Value
from circlekit.passes.remove.checks import same_elements
from circlekit.rewrite.rewrite import Rewrite, condition


class RemoveUnnecessaryReshape(Rewrite):
    """reshape(x, the shape of x)  ==  x."""

    name = "remove_unnecessary_reshape"
    quantized = True

    before = """
        y = Reshape(x, shape?)      {new_shape: any}
    """
    after = "x"

    @condition
    def one_shape(self, x: Value, y: Value) -> str | None:
        return same_elements(x, y)
