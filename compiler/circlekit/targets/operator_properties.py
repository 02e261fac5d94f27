# SPDX-License-Identifier: Apache-2.0
"""What the tables of targets limit: attributes, operands and results of an operator, by name, and ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Named
from circlekit.ir.op import Op
from circlekit.ir.value import Value


def plain_attribute(op: Op, name: str) -> Any:
    """Return an attribute as the tables write it: the name of an enum's member, or the value itself.

    A dtype has its name in the schema, such as INT32.
    """
    value = getattr(op, name)
    return value.name if isinstance(value, Named | DType) else value


def named_values(op: Op) -> Iterator[tuple[str, Value]]:
    """Yield operands and results with their names.

    All values of a variadic operand have the same name, and so do variadic results.
    """
    yield from op.operand_items()
    for index, value in enumerate(op.results):
        yield op.result_names[min(index, len(op.result_names) - 1)], value


def values_named(op: Op, name: str) -> list[Value]:
    """Return the operands or results with this name: [] if absent, several if variadic."""
    return [value for other, value in named_values(op) if other == name]


def scales_of(op: Op, name: str) -> list[tuple[tuple[float, ...], tuple[int, ...]]]:
    """Return (scales, zero points) of each operand or result with this name that has scales."""
    found = (value.quantization for value in values_named(op, name))
    return [(tuple(q.scale.tolist()), tuple(q.zero_point.tolist())) for q in found if q and q.scale.size]


def highest_rank(op: Op) -> int:
    """Return the highest known rank of the operands and results; 0 if no rank is known."""
    return max((len(value.shape or ()) for _, value in named_values(op)), default=0)


def broadcast_rank(op: Op) -> int:
    """Return the highest known rank of the ``layout_operands``; 0 if they all have the same shape.

    ``layout_operands`` are the operands that have the axes of the result.  If their shapes differ, an
    elementwise operator broadcasts them.  For an operator with only one of them, such as
    the variadic operand of CONCATENATION, return 0.
    """
    names = op.layout_operands if len(op.layout_operands) > 1 else ()
    operands = [value for name, value in op.operand_items() if name in names]
    if len({value.shape for value in operands}) <= 1:
        return 0
    return max(len(value.shape or ()) for value in operands)
