# SPDX-License-Identifier: Apache-2.0
"""Move a data movement behind the operator that uses its result."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.rewrite.base import Context, GraphPass


class SinkPass(GraphPass):
    """op(move(x))  ==  move(op(x)); the move goes on until an operator refuses.

    ``kind``: the operator that moves.  It stays as well if its result has other users.  In a pipeline nothing
    happens if it would move more data behind the operator.
    """

    kind: ClassVar[type[Op]]

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._forward(graph, op, context) for op in graph.ops if op.graph is graph)

    def _forward(self, graph: Graph, op: Op, context: Context) -> int:
        moved = [v for v in op.inputs if v is not None and isinstance(v.producer, self.kind)]
        if not moved or len(op.results) != 1:
            return 0
        sentence = interior_obstacle(graph, op, moved) or self.obstacle(op, moved)
        if sentence is None and context.exact:
            sentence = cost_obstacle(op.output, moved)
        if sentence is not None:
            context.refuse(self.name, op, sentence, 3)
            return 0
        if not context.may_rewrite:
            return 0
        context.rewrites(op)
        self.swap(graph, op, moved)
        return 1

    @abstractmethod
    def obstacle(self, op: Op, moved: list[Value]) -> str | None:
        """Why ``kind`` cannot move behind ``op``; ``moved``: the operands of ``op`` that it produces."""

    @abstractmethod
    def swap(self, graph: Graph, op: Op, moved: list[Value]) -> None:
        """Let ``op`` read the operands of the movement, and insert the movement behind ``op``."""


def interior_obstacle(graph: Graph, op: Op, moved: list[Value]) -> str | None:
    """Refuse per-channel quantization, and operands that all have other users: operators would be added."""
    for value in (*moved, op.output):
        if value.quantization is not None and value.quantization.is_per_channel:
            return f"%{value.name}: is quantized along an axis"
    first = moved[0]
    if all(graph.is_output(v) or v.use_count > op.inputs.count(v) for v in moved):
        other = "is an output of the graph" if graph.is_output(first) else "has other users"
        return f"%{first.name}: {other}"
    return None


def cost_obstacle(result: Value, moved: list[Value]) -> str | None:
    """Refuse if more data would be moved behind the operator than before it."""
    before = sum(_size(v) for v in moved)
    if _size(result) <= before:
        return None
    return f"%{result.name}: is larger than %{moved[0].name}, so more data would be moved"


def _size(value: Value) -> int:
    """Size in bits, with 1 for an unknown dimension, which is mostly the same on both sides."""
    return value.dtype.bits * int(np.prod([d or 1 for d in value.shape or ()], dtype=np.int64))


def put_behind(graph: Graph, op: Op, move: Op, inner: Value) -> None:
    """Let ``op`` produce ``inner``, and ``move``, which reads ``inner``, the former result of ``op``."""
    result = op.output
    op.take_result(0, inner)
    move.add_result(result)
    graph.insert_after(op, move)


def drop_unread(graph: Graph, values: Iterable[Value]) -> None:
    """Remove the producers of those ``values`` that have no users any more."""
    for value in dict.fromkeys(values):
        if value.producer is not None and not value.use_count and not graph.is_output(value):
            graph.remove(value.producer)
