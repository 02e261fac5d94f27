# SPDX-License-Identifier: Apache-2.0
"""Find the inputs of a graph that are used as indices, and the size that they index."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value


def index_bounds(graph: Graph) -> dict[int, int]:
    """Return the smallest size that each input indexes, by the ``id`` of the input; others are left out.

    Integer operators between the input and the index operand (Cast, Reshape, arithmetic) are passed through:
    indices that stay below the bound at the input are valid in what exporters write.
    """
    bounds: dict[int, int] = {}
    for value in graph.inputs:
        if value.dtype.is_integer:
            sizes = list(_indexed_sizes(value))
            if sizes:
                bounds[id(value)] = min(sizes)
    return bounds


def _indexed_sizes(start: Value) -> Iterator[int]:
    """Yield the sizes indexed by integers computed from ``start``, in called graphs too."""
    seen = {id(start)}
    pending = [start]
    while pending:
        value = pending.pop()
        for op, position in value.uses:
            size = _indexed_size(op, position)
            if size is not None:
                yield size
                continue
            for result in [*op.results, *_callee_inputs(op, position)]:
                if result.dtype.is_integer and id(result) not in seen:
                    seen.add(id(result))
                    pending.append(result)


def _indexed_size(op: Op, position: int) -> int | None:
    """Return the size that operand ``position`` indexes; None if it is no index, or the size is unknown."""
    if op.code == "EMBEDDING_LOOKUP" and position == 0:
        return _smallest(op.inputs[1], 0, 1)
    if op.code == "GATHER" and position == 1:
        table = op.inputs[0]
        rank = table.rank if table is not None else None
        axis = int(getattr(op, "axis", 0)) % (rank or 1)
        return _smallest(table, axis, axis + 1)
    if op.code == "GATHER_ND" and position == 1:
        indices = op.inputs[1]
        depth = indices.shape[-1] if indices is not None and indices.shape else None
        return _smallest(op.inputs[0], 0, depth)
    return None


def _smallest(table: Value | None, start: int, end: int | None) -> int | None:
    """Return the smallest known size among dimensions ``start`` to ``end`` of ``table``."""
    if table is None or table.shape is None:
        return None
    return min((dim for dim in table.shape[start:end] if dim is not None), default=None)


def _callee_inputs(op: Op, position: int) -> Iterator[Value]:
    """Yield the inputs of called graphs that get operand ``position``; a condition precedes the arguments."""
    for graph in op.called_graphs():
        at = position - (len(op.inputs) - len(graph.inputs))
        if at >= 0:
            yield graph.inputs[at]
