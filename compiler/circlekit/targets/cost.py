# SPDX-License-Identifier: Apache-2.0
"""The cost of one run of an operator: multiply-accumulates, and bytes read and written."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from circlekit.ir.op import Op
from circlekit.ir.value import Value


@dataclass(frozen=True)
class OperatorCost:
    """The cost of one run of an operator, without the graphs that it calls.

    ``macs``: its multiply-accumulates.  ``activation_bytes``: bytes of the operands that are not constant.
    ``constant_bytes``: bytes of the constant operands.  ``written_bytes``: bytes of the results.
    """

    macs: int
    activation_bytes: int
    constant_bytes: int
    written_bytes: int

    @property
    def moved_bytes(self) -> int:
        """All bytes that the operator reads or writes."""
        return self.activation_bytes + self.constant_bytes + self.written_bytes


def value_bytes(value: Value) -> int:
    """Return the size of ``value`` in bytes, rounded up; an unknown dimension counts as 1.

    The size of a constant is that of its data.  Else it is 0 for an unknown rank, and for elements without a
    fixed size, such as strings and handles.
    """
    if value.data is not None:
        return value.data.nbytes
    if value.shape is None:
        return 0
    elements = prod(1 if dim is None else dim for dim in value.shape)
    return -(-elements * value.dtype.bits // 8)


def operator_cost(op: Op) -> OperatorCost:
    """Return the cost of one run of ``op``; an operand that occurs twice counts once."""
    operands = list(dict.fromkeys(value for value in op.inputs if value is not None))
    return OperatorCost(
        op.macs() if op.results else 0,  # the method needs the shape of the result
        sum(value_bytes(value) for value in operands if not value.is_const),
        sum(value_bytes(value) for value in operands if value.is_const),
        sum(map(value_bytes, op.results)),
    )
