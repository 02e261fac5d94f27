# SPDX-License-Identifier: Apache-2.0
"""Conditions that several passes share, and the removal of operators without users.

A function that returns ``str | None`` returns None if the condition holds, else the sentence of a refusal.
"""

from __future__ import annotations

from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Shape, Value, format_shape, same_grid
from circlekit.ops.arithmetic.activation import Logistic, Relu, Relu0To1, Relu6
from circlekit.ops.arithmetic.unary import Abs, Exp, Square
from circlekit.ops.movement.shape import Transpose

NEVER_NEGATIVE = (Relu, Relu6, Relu0To1, Logistic, Abs, Exp, Square)
"""Operators whose results are 0 or more, or NaN."""


def is_determined(shape: Shape | None) -> bool:
    """Return whether ``shape`` is known, or would be if the number of elements were known.

    At most one dimension may be unknown; if one is unknown, no other dimension may be 0.
    """
    return shape is not None and (None not in shape or (shape.count(None) == 1 and 0 not in shape))


def provably_equal(a: Shape | None, b: Shape | None) -> bool:
    """Return whether two tensors with the same number of elements surely have the same shape.

    ``a`` and ``b``: their declared shapes.  At one axis at most, the dimension may be unknown in ``a``, in
    ``b`` or in both: the number of elements determines it.  Shapes with a 0 must be known and equal.
    """
    if a is None or b is None or len(a) != len(b) or 0 in a or 0 in b:
        return a is not None and a == b and None not in a
    known = [x == y for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    return all(known) and len(known) >= len(a) - 1


def same_shape(a: Value, b: Value) -> str | None:
    """Refuse if the declared shapes of ``a`` and ``b`` differ, or are equal but not ``is_determined``.

    The caller guarantees that both values have the same elements in the same order.  In contrast to
    ``provably_equal``, [?] and [3] differ.
    """
    if a.shape != b.shape:
        expected = f"the shape of %{a.name}, {format_shape(a.shape)}"
        return f"%{b.name}: expected {expected}, got {format_shape(b.shape)}"
    return determined_shape(b)


def determined_shape(value: Value) -> str | None:
    """Refuse unless the declared shape of ``value`` is ``is_determined``."""
    if is_determined(value.shape):
        return None
    if value.shape is None:
        return f"%{value.name}: has an unknown rank"
    is_several = value.shape.count(None) > 1
    found = "more than one unknown dimension" if is_several else "an unknown dimension beside a 0"
    return f"%{value.name}: has {found}: {format_shape(value.shape)}"


def same_quantization(*values: Value) -> str | None:
    """Refuse if the quantization of a value differs from that of the first one; None equals None."""
    first = values[0]
    for value in values[1:]:
        if not same_grid(value.quantization, first.quantization):
            return f"%{value.name}: has other quantization parameters than %{first.name}"
    return None


def all_equal(array: Array, number: int, name: str) -> str | None:
    """Refuse unless ``array``, the data of the constant ``name``, has elements, and all are ``number``."""
    if array.size == 0:
        return f"%{name}: is empty"
    other = array.reshape(-1)[array.reshape(-1) != number]
    return None if other.size == 0 else f"%{name}: expected only {number}, got {other[0]!s}"


def broadcast_refusal(x: Value, constant: Value) -> str | None:
    """Refuse unless broadcasting ``x`` and ``constant`` together surely gives the shape of ``x``."""
    shape, other = x.shape, constant.static_shape
    if shape is not None and len(other) <= len(shape):
        last = shape[len(shape) - len(other) :]
        if all(b in (1, a) for a, b in zip(last, other, strict=True)):
            return None
    changed = f"may change the shape {format_shape(shape)} of %{x.name}"
    return f"%{constant.name}: broadcasting with its shape {format_shape(other)} {changed}"


def is_never_negative(value: Value) -> bool:
    """Return whether ``value`` is the result, perhaps transposed, of an operator that returns 0 or more."""
    op = value.producer
    while isinstance(op, Transpose):
        op = op.inputs[0].producer if op.inputs[0] is not None else None
    limited = (Activation.RELU, Activation.RELU6)
    return isinstance(op, NEVER_NEGATIVE) or (
        op is not None and op.fuses_activation and op.attribute_items()["act"] in limited
    )


def remove_unused(graph: Graph, *values: Value) -> None:
    """Remove the producer of each of ``values`` if it is pure and no result of it is used.

    The operands of a removed operator are treated in the same way.
    """
    todo = list(values)
    while todo:
        op = todo.pop().producer
        if op is None or op.graph is not graph or not op.pure:
            continue
        if not any(v.use_count or graph.is_output(v) for v in op.results):
            todo += [v for v in op.inputs if v is not None]
            graph.remove(op)
