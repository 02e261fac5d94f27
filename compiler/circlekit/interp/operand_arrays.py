# SPDX-License-Identifier: Apache-2.0
"""Copies of operators whose operands are given arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value

OpT = TypeVar("OpT", bound=Op)


def with_operands(op: OpT, operands: Sequence[Array | None], constant: bool) -> OpT:
    """Return a copy of ``op`` whose operands have the shapes of the arrays ``operands``.

    If ``constant``, the operands are constants with the elements of the arrays.  For None in ``operands``,
    the copy has the operand of ``op``.  The copy is not registered as a user of any value.
    """

    def given(value: Value | None, array: Array | None) -> Value | None:
        if value is None or array is None:
            return value
        data = array if constant else value.data
        return Value(value.name, value.dtype, array.shape, data, value.quantization)

    copy: OpT = object.__new__(type(op))
    copy.__dict__.update(op.__dict__)
    values = [*op.inputs, *[None] * (len(operands) - len(op.inputs))]
    copy.inputs = [given(v, a) for v, a in zip(values, operands, strict=False)]
    return copy
