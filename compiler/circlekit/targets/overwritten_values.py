# SPDX-License-Identifier: Apache-2.0
"""Find values that a runtime overwrites before their last use, because a result takes their buffer.

A view is a result that has the bytes and the buffer of the first operand of its operator, such as the result
of a RESHAPE.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.targets.lifetimes import shared_operands
from circlekit.targets.planners import Planner


class Overwritten(NamedTuple):
    """An operator that overwrites data which other operators read later.

    ``writer``: the operator that writes its result into the buffer of its operand ``operand``.  ``readers``:
    the later reads of the data, as pairs (operator, index of the operand).  ``same_data``: first the value
    whose data are overwritten, which is no view, then all views of it.
    """

    writer: Op
    operand: Value
    readers: list[tuple[Op, int]]
    same_data: list[Value]


def overwritten_values(graph: Graph, planner: Planner, settled: Container[Op] = ()) -> list[Overwritten]:
    """Return, for each value and its views, the first operator that overwrites what later operators read.

    ``settled``: operators that are not examined.  Operators that overwrite an operand of unknown shape are
    not examined either, because its size is known only at run time.

    Why it happens: LiteRT 2.3 lets an operator overwrite an operand if the operand, and the first value in
    the same buffer, have no other reader.  It does not look at the readers of other views of the buffer.
    Source: ``tflite``, arena_planner.cc, IdentifyInPlaceTensors.
    """
    shared = shared_operands(graph, planner)
    writers = [
        op
        for op, value in shared.items()
        if op.code not in planner.views and value.is_static and op not in settled
    ]
    if not writers:
        return []
    # for each view, its operand; the loop follows operands that are views themselves
    origins = {op.results[0]: value for op, value in shared.items() if op.code in planner.views}
    positions = {op: index for index, op in enumerate(graph.ops)}
    views: dict[Value, list[Value]] = {}  # all views of each value that is no view
    for view, value in origins.items():
        origins[view] = origins.get(value, value)
        views.setdefault(origins[view], []).append(view)
    found: dict[Value, Overwritten] = {}  # by the first value of ``same_data``
    for op in writers:
        origin = origins.get(shared[op], shared[op])
        if origin in found:
            continue
        same_data = [origin, *views.get(origin, ())]
        readers = [
            (user, index)
            for value in same_data
            for user, index in value.uses
            if positions[user] > positions[op]
        ]
        if readers:
            readers.sort(key=lambda use: (positions[use[0]], use[1]))
            found[origin] = Overwritten(op, shared[op], readers, same_data)
    return list(found.values())
