# SPDX-License-Identifier: Apache-2.0
"""Lower PADV2 to CONCATENATION."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.pad import PadV2
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter

MAX_CONSTANT_ELEMENTS = 1 << 20
"""The largest number of padded elements, which become constants of the model.  With more, PADV2 stays."""


class PadByConcatenation(Replacement[PadV2]):
    """padv2(x, c)  ==  concatenation(constant, x, constant) along each padded axis.

    The elements of the constants are c.  Shapes, paddings and c must be known, x must not be empty, and
    nothing may be quantized.
    """

    changes_more = True  # so legalizations that change less of the model run first
    kinds = (PadV2,)

    def results(self, op: PadV2, insert: Inserter) -> list[Value] | None:
        value, number = op.input, op.constant_values
        counts = static_int_vector(op.paddings)
        if counts is None or not (value.is_static and op.output.is_static and number.is_plain):
            return None
        if any(v.quantization is not None for v in (value, number, op.output)):
            return None
        if not value.numel or not number.numel or op.output.numel - value.numel > MAX_CONSTANT_ELEMENTS:
            return None
        pairs = list(zip(counts[::2], counts[1::2], strict=True))
        # the last axis comes first: joining along it is slowest, so it is done while the data are small
        for axis in reversed(range(len(pairs))):
            sides = [_constant(value, axis, count, number, insert) for count in pairs[axis]]
            operands = [side for side in (sides[0], value, sides[1]) if side is not None]
            if len(operands) > 1:
                value = insert.make(Concatenation(*operands, axis=axis))
        return [value] if insert.ops else None


def _constant(value: Value, axis: int, count: int, number: Value, insert: Inserter) -> Value | None:
    """Return a constant whose elements are ``number``; None if ``count`` is 0.

    Its shape is that of ``value``, but with the size ``count`` along ``axis``.
    """
    if not count:
        return None
    shape = [count if a == axis else size for a, size in enumerate(value.static_shape)]
    return insert.constant("padding", np.full(shape, number.array().reshape(-1)[0]))
