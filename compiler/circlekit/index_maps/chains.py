# SPDX-License-Identifier: Apache-2.0
"""Follow a result back through operators that move data, to the values that it is copied from.

The path is described by an index map: for each element of the result, the source element that it copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from circlekit.index_maps.index_map import Factor, IndexMap
from circlekit.index_maps.of_operators import Movement, movement_of
from circlekit.index_maps.steps import MovementCost, run_cost
from circlekit.index_maps.unknown_dim import dims_of, has_dims, known_count, size_of
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.join import Concatenation, Pack
from circlekit.ops.movement.shape import ExpandDims, Reshape, Squeeze

MAX_CHAIN_OPS = 32
"""The search ends when a way replaces this many operators, so the time stays linear for long chains."""

MovementOf = Callable[[Op], Movement | None]
"""``movement_of``, or a cached form of this function, which is valid while the graph does not change."""


class Origin(NamedTuple):
    """A way to compute a result as a copy of elements of ``sources``.

    ``map``: the index map from the elements of all sources, as one vector in the order of ``sources``, to the
    result.  ``ops``: the operators that now compute the result from the sources; the last operator first.
    """

    sources: tuple[Value, ...]
    map: IndexMap
    ops: tuple[Op, ...]


def origins(result: Value, known: MovementOf = movement_of) -> Iterator[Origin]:
    """Yield ways to compute ``result`` from values before it, the nearest values first.

    Each way replaces more operators than the way before.  For ``result = Reshape(Transpose(x))``, the first
    way starts at the result of the Transpose and replaces the Reshape; the second way starts at ``x``.

    The search goes on through a join in two cases:

    - ``result`` reads only one operand of the join.
    - The operands are parts of one value at equal distances, such as the columns x[:, 0], x[:, 1] and
      x[:, 2].  Then the operators that cut these parts are replaced, too.

    Any other join ends the search: its operands are the sources of the last way.

    The search also ends at an operator that ``known`` does not describe, or whose map cannot be composed.  If
    that operator is the producer of ``result``, nothing is yielded.
    """
    ops: list[Op] = []
    # ``found``: the map from ``value`` to ``result``
    value, found = result, IndexMap.identity(size_of(result)) if has_dims(result) else None
    while found is not None and len(ops) < MAX_CHAIN_OPS and (op := value.producer) is not None:
        movement = known(op)
        if movement is None:
            return
        ops.append(op)
        step = movement.maps[value.result_index]
        found = None if step is None else found.after(step)
        if found is None:
            return
        if len(movement.sources) > 1:
            # the only source that ``result`` reads, or the value that all sources are cut from
            part = movement.part_of(found) or _common_source(movement, found, ops, known)
            if part is None:
                yield Origin(movement.sources, found, tuple(ops))
                return
            value, found = part
        else:
            value = movement.sources[0]
        yield Origin((value,), found, tuple(ops))


def _common_source(
    movement: Movement, found: IndexMap, ops: list[Op], known: MovementOf
) -> tuple[Value, IndexMap] | None:
    """Return the value that all operands of a join are cut from, and the map from that value to the result.

    Example: for a Pack of the columns x[:, 0], x[:, 1] and x[:, 2], this value is x.

    ``movement``: the join.  ``found``: the map from its operands to the result.  The operators that cut the
    operands are appended to ``ops``.

    Return None if there is no such value, or if the maps from this value to the operands differ in their
    factors or do not have evenly spaced offsets.
    """
    parts = []  # for each operand, the value that it is cut from, and the map from that value to the operand
    for value in movement.sources:
        own = None if value.producer is None else known(value.producer)
        step = None if own is None else own.maps[value.result_index]
        if own is None or step is None or len(own.sources) > 1:
            return None
        parts.append((own.sources[0], step))
    root, first = parts[0]
    distance = parts[1][1].offset - first.offset
    for index, (source, step) in enumerate(parts):
        if source is not root or step.factors != first.factors:
            return None
        if step.offset != first.offset + index * distance:
            return None
    # from ``root`` to all operands: the first factor counts the operands, the rest are the factors of one
    joined = IndexMap.of(first.source_size, [Factor(len(parts), distance), *first.factors], first.offset)
    whole = found.after(joined)
    if whole is None:
        return None
    ops += dict.fromkeys(v.producer for v in movement.sources if v.producer is not None)
    return root, whole


def removable(graph: Graph, result: Value, ops: tuple[Op, ...]) -> list[Op]:
    """Return those of ``ops`` whose results nothing needs once ``result`` is computed in another way.

    ``ops``: the operators that compute ``result`` now, the last one first, as in ``Origin``.
    """
    dead: dict[Op, None] = {}
    for op in ops:
        others = [value for value in op.results if value is not result]
        if all(not graph.is_output(v) and all(user in dead for user in v.users) for v in others):
            dead[op] = None
    return list(dead)


def present_cost(op: Op) -> MovementCost:
    """Return the cost of ``op``, an operator that moves data.  A reshape copies no bytes.

    A join also costs its runs (``run_cost``); a join of unknown rank counts as one along the first axis.
    """
    is_view = isinstance(op, Reshape | Squeeze | ExpandDims)
    bits = 0 if is_view else sum(known_count(dims_of(value)) * value.dtype.bits for value in op.results)
    runs = 0
    if isinstance(op, Concatenation | Pack):
        axis = op.axis % max(len(dims_of(op.output)), 1)
        runs = run_cost([dims_of(value) for value in op.values], axis)
    return MovementCost((bits + 7) // 8 + runs, 1)
