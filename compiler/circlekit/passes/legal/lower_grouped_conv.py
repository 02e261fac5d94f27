# SPDX-License-Identifier: Apache-2.0
"""Replace a grouped convolution by one convolution for each group, for runtimes without groups.

A Replacement replaces the operators that it ``wants``.  Its ``results`` returns None to leave an operator as
it is.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter


class SplitGroupedConv(Replacement[Conv2D]):
    """conv(x, w) of G groups  ==  concat(conv(x1, w1), ..., conv(xG, wG)), along the channels.

    x1 ... xG are equal parts of the channels of x, and w1 ... wG equal parts of the output channels of w.
    The number of channels of x must be known, and filter and bias must be constants without quantization.
    """

    kinds = (Conv2D,)

    def wants(self, op: Op) -> bool:
        return isinstance(op, Conv2D) and _groups(op) > 1 and super().wants(op)

    def results(self, op: Conv2D, insert: Inserter) -> list[Value] | None:
        constants = [value for value in (op.filter, op.bias) if value is not None]
        if not all(value.is_plain and value.quantization is None for value in constants):
            return None
        count = _groups(op)
        split = Split(insert.constant("axis", np.array(3, np.int32)), op.input, num_splits=count)
        insert.make(split)
        filters = np.split(op.filter.array(), count)
        biases = [None] * count if op.bias is None else np.split(op.bias.array().reshape(-1), count)
        parts = []
        for data, filter, bias in zip(split.results, filters, biases, strict=True):
            weights = insert.constant("filter", np.ascontiguousarray(filter))
            offset = None if bias is None else insert.constant("bias", np.ascontiguousarray(bias))
            parts.append(insert.make(Conv2D(data, weights, offset, **op.attribute_items())))
        return [insert.make(Concatenation(*parts, axis=3))]


def _groups(op: Conv2D) -> int:
    """Return the number of groups: input channels divided by filter channels.

    Return 1 if one of these numbers is unknown, or if the filter has no channels.
    """
    shapes = (op.input.shape, op.filter.shape)
    channels, per_group = (shape[3] if shape and len(shape) == 4 else None for shape in shapes)
    return channels // per_group if channels and per_group else 1
