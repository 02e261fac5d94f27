# SPDX-License-Identifier: Apache-2.0
"""What passes share that write an operator which keeps order and number of elements as a Reshape."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.passes.support.conditions import is_determined, same_quantization
from circlekit.rewrite.rewrite import Rewrite, condition


class ToReshape(Rewrite):
    """z has the elements of x in their order  ==  reshape(x, the shape of z)."""

    quantized = True

    after = """
        z = Reshape(x, shape)
    """

    @condition
    def has_one_shape(self, z: Value) -> str | None:
        if is_determined(z.shape):
            return None
        return f"%{z.name}: shape {format_shape(z.shape)} leaves more than one dimension open"

    @condition
    def keeps_the_scale(self, x: Value, z: Value) -> str | None:
        return same_quantization(x, z)

    def constants(self, z: Value) -> dict[str, Array]:
        assert z.shape is not None  # has_one_shape has seen to that
        return {"shape": np.asarray([-1 if d is None else d for d in z.shape], np.int32)}
