# SPDX-License-Identifier: Apache-2.0
"""How much memory the results of an operator take, found out before they are made.

The operator's own shape rule says it, for every operator alike: before the run where its shapes are all it
needs, else (Fill, Range, Tile...) from the operands of the run, which it is shown as constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.resource_limits import amount, limits, need_memory
from circlekit.ir.value import Array, TensorType, Value

HANDLE = 8
"""Bytes of an element that is a Python object: a string, a variable's handle."""


class Room:
    """``size``: bytes of the results where the operands' shapes tell; None where it takes their elements.

    For an operator without a shape rule, which only its kernel knows, they are those that the model says.
    """

    __slots__ = ("has_rule", "op", "size")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.has_rule = not isinstance(op, OpaqueOp)
        self.size = bytes_of(inferred(op) if self.has_rule else [v.type for v in op.results])

    def check(self, arguments: Sequence[Array | None], held: int = 0) -> None:
        """LimitError unless the results fit beside the ``held`` bytes of a run."""
        size = self.size
        if size is None and self.has_rule:
            size = bytes_of(inferred(shown(self.op, arguments)))
        if size is not None and held + size > limits().memory:
            self._refuse(size, held, arguments)

    def _refuse(self, size: int, held: int, arguments: Sequence[Array | None]) -> None:
        types = inferred(shown(self.op, arguments)) or tuple(v.type for v in self.op.results)
        made = ", ".join(f"%{v.name}: {t}" for v, t in zip(self.op.results, types, strict=False))
        beside = f" (beside {amount(held)} of this run)" if held else ""
        need_memory(held + size, f"{made} of {self.op.code}{beside}")


def inferred(op: Op) -> tuple[TensorType, ...]:
    """What the shape rule says; nothing where it refuses: then the kernel does, too."""
    try:
        return op.inferred()
    except (CirclekitError, ValueError, IndexError, ArithmeticError):
        return ()


def shown(op: Op, arguments: Sequence[Array | None]) -> Op:
    """``op`` as it would be with ``arguments`` as constant operands; in no graph, and no use of any value."""
    copy: Op = object.__new__(type(op))
    copy.__dict__.update(op.__dict__)
    values = [*op.inputs, *[None] * (len(arguments) - len(op.inputs))]
    copy.inputs = [_as_constant(v, a) for v, a in zip(values, arguments, strict=False)]
    return copy


def _as_constant(value: Value | None, array: Array | None) -> Value | None:
    if value is None or array is None:
        return value
    return Value(value.name, value.dtype, array.shape, array, value.quantization)


def bytes_of(types: Sequence[TensorType]) -> int | None:
    """Of arrays of these types; None where a dimension is unknown, or there are no types at all."""
    total = 0
    for kind in types:
        if kind.shape is None or None in kind.shape:
            return None
        total += prod(kind.shape) * element_bytes(kind.dtype)  # type: ignore[arg-type]  # no None is left
    return total if types else None


def element_bytes(dtype: DType) -> int:
    """Of one element in an array of the interpreter, which holds packed numbers one by one."""
    if dtype.numpy is not None:
        return dtype.numpy.itemsize
    return max(dtype.bits // 8, 1) * (2 if dtype is DType.BFLOAT16 else 1) if dtype.bits else HANDLE
