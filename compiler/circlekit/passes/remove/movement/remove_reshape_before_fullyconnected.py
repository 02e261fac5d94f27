# SPDX-License-Identifier: Apache-2.0
"""Remove Reshapes to rows, which FULLY_CONNECTED does by itself."""

from __future__ import annotations

from circlekit.ir.value import Value, format_shape
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.rewrite import Rewrite, condition


class RemoveReshapeBeforeFullyConnected(Rewrite):
    """fc(reshape(x), w)  ==  fc(x, w): FULLY_CONNECTED reads its input as rows of the width of w."""

    name = "remove_reshape_before_fullyconnected"
    quantized = True

    before = """
        y = Reshape(x, shape?)      {new_shape: any}
        z = FullyConnected(y, w: [_, _], b?) {keep_num_dims: false}
    """
    after = """
        z = FullyConnected(x, w, b) {like z}
    """

    @condition
    def has_rows(self, x: Value, y: Value) -> str | None:
        """The input has two dimensions or more, as runtimes require."""
        if x.shape is None or len(x.shape) < 2:
            return f"%{x.name}: expected two dimensions or more, got shape {format_shape(x.shape)}"
        return same_quantization(x, y)
