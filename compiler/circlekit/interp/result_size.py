# SPDX-License-Identifier: Apache-2.0
"""Memory that the results of an operator need, known before they are computed.

The sizes come from the operator's shape rule: once per operator where the declared shapes are sufficient, in
every run where the result shapes depend on operand elements (Fill, Range, Tile) or on unknown dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.resource_limits import amount, need_memory
from circlekit.ir.value import Array, TensorType, Value

POINTER_BYTES = 8
"""Bytes of an array element that is a Python object: a string."""


def static_result_bytes(op: Op) -> int | None:
    """Return the bytes of the results if the declared shapes determine them, else None.

    An operator without a shape rule (OpaqueOp) counts with the result types that the model declares.
    """
    types = [v.type for v in op.results] if isinstance(op, OpaqueOp) else _inferred_types(op)
    return _total_bytes(types)


def check_result_memory(
    op: Op, operands: Sequence[Array | None], static_bytes: int | None, held_bytes: int = 0
) -> None:
    """Raise LimitError if the results of ``op`` do not fit into the memory limit.

    ``static_bytes``: what ``static_result_bytes`` returned; ``held_bytes``: other values of the same run.
    """
    size = static_bytes
    if size is None:
        size = _total_bytes(_inferred_types(with_constant_operands(op, operands)))
    if size is not None:
        need_memory(held_bytes + size, lambda: _described(op, operands, held_bytes))


def _described(op: Op, operands: Sequence[Array | None], held_bytes: int) -> str:
    """Return the results of ``op`` with their types, and what else is in memory, for an error."""
    types = _inferred_types(with_constant_operands(op, operands)) or [v.type for v in op.results]
    results = ", ".join(f"%{v.name}: {t}" for v, t in zip(op.results, types, strict=False))
    held = f" (in addition to {amount(held_bytes)} held by this run)" if held_bytes else ""
    return f"{results} of {op.code}{held}"


def with_constant_operands(op: Op, operands: Sequence[Array | None]) -> Op:
    """Return a copy of ``op`` whose operands are constants; it is not registered as a user of any value."""
    copy: Op = object.__new__(type(op))
    copy.__dict__.update(op.__dict__)
    values = [*op.inputs, *[None] * (len(operands) - len(op.inputs))]
    copy.inputs = [_as_constant(v, a) for v, a in zip(values, operands, strict=False)]
    return copy


def _as_constant(value: Value | None, array: Array | None) -> Value | None:
    if value is None or array is None:
        return value
    return Value(value.name, value.dtype, array.shape, array, value.quantization)


def _inferred_types(op: Op) -> Sequence[TensorType]:
    """Result types by the shape rule; none if the rule rejects the operands, as the kernel then does too."""
    try:
        return op.inferred()
    except (CirclekitError, ValueError, IndexError, ArithmeticError):
        return ()


def _total_bytes(types: Sequence[TensorType]) -> int | None:
    """Return the bytes of arrays of these types; None if a dimension is unknown or there are no types."""
    total = 0
    for kind in types:
        if kind.shape is None or None in kind.shape:
            return None
        total += prod(kind.shape) * _element_bytes(kind.dtype)  # type: ignore[arg-type]  # no None is left
    return total if types else None


def _element_bytes(dtype: DType) -> int:
    """Bytes of one array element; packed numbers take a byte each, bfloat16 is held as float32."""
    if dtype.numpy is not None:
        return dtype.numpy.itemsize
    if dtype is DType.BFLOAT16:
        return 4
    return 1 if dtype.bits else POINTER_BYTES
