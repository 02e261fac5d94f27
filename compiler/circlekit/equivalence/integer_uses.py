# SPDX-License-Identifier: Apache-2.0
"""Find out by data flow which integers an input may hold: indices below a size, or any integers."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value


def index_bounds(graph: Graph) -> dict[int, int]:
    """Return {``id`` of an input: the smallest size that its integers index} for inputs that are indices.

    The input may be an index operand itself, or integer operators (Cast, Reshape, arithmetic) may compute the
    index operand from it.  These operators are assumed to keep indices below the bound, as they do in models
    that exporters write.  A float input holds indices if it is only moved until a CAST makes integers of it,
    as before a Keras Embedding.
    """
    numbers = [v for v in graph.inputs if v.dtype.is_integer or v.dtype.is_float]
    sizes = {id(v): [_indexed_size(*use) for use in _uses(v)] for v in numbers}
    bounds = {key: min((n for n in found if n is not None), default=None) for key, found in sizes.items()}
    return {key: bound for key, bound in bounds.items() if bound is not None}


def free_integers(graph: Graph) -> set[int]:
    """Return the ``id`` of each integer input for which all integers of its dtype are surely valid.

    Each operator that uses the input, or integers computed from it, must read these integers as data.  They
    must not be a parameter (an index, a shape, an axis, a number of steps), the divisor of an integer
    division, an exponent or a number of bits.  WHILE must not use them either, because they may decide how
    often the loop runs.
    """
    uses = {id(value): list(_uses(value)) for value in graph.inputs if value.dtype.is_integer}
    return {key for key, found in uses.items() if found and all(_reads_data(*use) for use in found)}


def _uses(start: Value) -> Iterator[tuple[Op, int]]:
    """Yield each use of ``start``, and of integers computed from it, as an operator and an operand position.

    Floats are followed only through data movement and CAST.  Uses in called graphs count, too.  Results of an
    operator that uses the integers as indices are not followed.
    """
    seen = {id(start)}
    pending = [start]
    while pending:
        value = pending.pop()
        for op, position in value.uses:
            yield op, position
            if _holds_indices(op, position):
                continue
            for result in following_values(op, position):
                if _keeps_integers(value, op, result) and id(result) not in seen:
                    seen.add(id(result))
                    pending.append(result)


def _keeps_integers(value: Value, op: Op, result: Value) -> bool:
    """Return whether integers in ``value``, an operand of ``op``, give integers in ``result``."""
    if not value.dtype.is_float:
        return result.dtype.is_integer
    return op.code == "CAST" or (op.data_movement and result.dtype is value.dtype)


def following_values(op: Op, position: int) -> list[Value]:
    """Return the results of ``op``, and the inputs of called graphs that get operand ``position``."""
    following = list(op.results)
    for graph in op.called_graphs():
        index = position - (len(op.inputs) - len(graph.inputs))  # IF does not pass its condition on
        following += graph.inputs[index : index + 1] if index >= 0 else ()
    return following


TABLES = {"EMBEDDING_LOOKUP": (0, 1), "GATHER": (1, 0), "GATHER_ND": (1, 0)}
"""By operator: the position of the operand with the indices, and of the table that they index."""

LIMITED_OPERANDS = {
    "DIV": "rhs", "FLOOR_DIV": "rhs", "FLOOR_MOD": "rhs", "POW": "rhs", "RIGHT_SHIFT": "rhs",
}  # fmt: skip
"""By operator: the operand that has the axes of the result, but may not hold every integer."""


def _holds_indices(op: Op, position: int) -> bool:
    return op.code in TABLES and position == TABLES[op.code][0]


def _indexed_size(op: Op, position: int) -> int | None:
    """Return the size that operand ``position`` of ``op`` indexes.

    Return None if the size is unknown, or if this operand has no indices.  GATHER_ND indexes as many leading
    axes as the last dimension of its indices says: return the smallest.
    """
    if not _holds_indices(op, position):
        return None
    _, table_position = TABLES[op.code]
    has_table = table_position < len(op.inputs)  # a damaged file may lack it
    data = op.inputs[table_position] if has_table else None
    if data is None or not data.shape:
        return None
    sizes = data.shape[:1]
    if op.code == "GATHER":
        sizes = (data.shape[getattr(op, "axis", 0) % len(data.shape)],)
    elif op.code == "GATHER_ND":
        indices = op.inputs[position]
        sizes = data.shape[: indices.shape[-1] if indices is not None and indices.shape else None]
    return min((dim for dim in sizes if dim is not None), default=None)


def _reads_data(op: Op, position: int) -> bool:
    """Return whether operand ``position`` of ``op`` is data, not a parameter; False if unsure."""
    if op.code in ("IF", "CALL"):
        return True  # the integers are data for the operator; the uses in its graphs count for themselves
    spec = op.operand_spec(position)
    return holds_data(op, position) and spec is not None and spec.name != LIMITED_OPERANDS.get(op.code)


def holds_data(op: Op, position: int) -> bool:
    """Return whether operand ``position`` of ``op`` has the axes of the result, or is data that it moves."""
    spec = op.operand_spec(position)
    if spec is None:  # an opaque operator
        return False
    return spec.name in op.layout_operands if op.layout_operands else op.data_movement and spec.index == 0
