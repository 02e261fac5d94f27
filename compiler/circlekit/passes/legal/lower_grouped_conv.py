# SPDX-License-Identifier: Apache-2.0
"""Lower a grouped convolution to one convolution for each group.

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


class SplitGroupedConv(Replacement):
    """conv(x, w) of G groups  ==  concat(conv(x1, w1), ..., conv(xG, wG)), along the channels.

    x1 ... xG are equal parts of the channels of x, and w1 ... wG equal parts of the output channels of w.
    Filter and bias must be constants without quantization.
    """

    # replaced for this runtime even if its table accepts the operator: onert computes wrong values
    targets = frozenset({"onert"})
    kinds = (Conv2D,)

    def wants(self, op: Op) -> bool:
        return isinstance(op, Conv2D) and _groups(op) > 1 and super().wants(op)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        assert isinstance(op, Conv2D)  # by kinds
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

    Return 1 if input and filter do not both have a known shape of rank 4, or if the filter has no channels.
    """
    if op.input.rank != 4 or op.filter.rank != 4 or not (op.input.is_static and op.filter.is_static):
        return 1
    depth = op.filter.static_shape[3]
    return op.input.static_shape[3] // depth if depth else 1
