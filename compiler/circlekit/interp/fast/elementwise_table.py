# SPDX-License-Identifier: Apache-2.0
"""Tables of elementwise operators on quantized integers: the results for all possible operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.elementwise import Elementwise
from circlekit.ops.quantized_values import is_per_channel, is_quantized_8_or_16_bits

INDEX_BITS = 16
"""The largest number of bits that index a table: those of one operand of 16 bits, or of two of 8 bits."""


def has_table(op: Op) -> bool:
    """Return whether ``ElementwiseTable`` can compute ``op``.

    ``op`` must be elementwise and pure, and have one result and one or two operands.  Equal elements must
    have equal results.  Result and operands must be integers of 8 or 16 bits that are quantized per tensor.
    The dtypes of the operands must have at most INDEX_BITS bits in total.
    """
    values: Sequence[Value | None] = (*op.inputs, *op.results)
    return (
        isinstance(op, Elementwise)
        and op.pure
        and len(op.inputs) == len(op.operands) <= 2
        and len(op.results) == 1
        and all(v is not None and is_quantized_8_or_16_bits(v) and not is_per_channel(v) for v in values)
        and sum(v.dtype.bits for v in op.inputs if v is not None) <= INDEX_BITS
        and not op.depends_on_position()
    )


class ElementwiseTable:
    """A kernel that calls the plain kernel at first, and later looks results up in a table.

    ``computed``: the number of elements in all calls so far; of two operands, the larger one counts.  The
    table is made in the first call in which this number exceeds the number of entries of the table.  So
    small tensors that are computed only a few times need no table.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        self.dtypes = [np.dtype(v.dtype.numpy) for v in op.inputs if v is not None]
        self.entries = 1 << (8 * sum(dtype.itemsize for dtype in self.dtypes))
        self.computed = 0
        self.table: Array | None = None
        self.is_total = True
        """False if the kernel has refused to compute the table: SQRT of negative numbers, DIV by 0."""

    def __call__(self, *operands: Array) -> Array:
        if self.table is None:
            self.computed += max(a.size for a in operands)
            if self.computed > self.entries and self.is_total:
                try:
                    self.table = self._all_results()
                except ModelError:
                    self.is_total = False
        if self.table is None:
            result: Array = self.op.kernel(*operands)
            return result
        # every index is inside the table; mode "clip" only spares numpy the check of all indices
        unsigned = [a.view(f"u{a.itemsize}") for a in operands]
        if len(unsigned) == 1:
            return self.table.take(unsigned[0], mode="clip")
        index: Array = unsigned[0].astype(np.uint16) << 8 | unsigned[1]  # two operands have 8 bits each
        return self.table.take(index, mode="clip")

    def _all_results(self) -> Array:
        """Return the results for all possible operands.

        The index of a result is the operands' bits as one unsigned number, the first operand in the high
        bits.
        """
        numbers = [np.arange(1 << (8 * t.itemsize), dtype=f"u{t.itemsize}").view(t) for t in self.dtypes]
        if len(numbers) == 2:
            numbers = [numbers[0][:, None], numbers[1][None, :]]
        return np.asarray(self.op.kernel(*numbers)).reshape(-1)
