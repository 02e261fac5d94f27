# SPDX-License-Identifier: Apache-2.0
"""Compute elementwise operators between Reshapes in the shape before the first Reshape."""

from __future__ import annotations

from typing import ClassVar

from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.support.conditions import same_shape
from circlekit.passes.support.reshape_region import (
    Region,
    move,
    obstacle,
    region_before,
    saved,
    sources_of,
)
from circlekit.passes.support.sink import drop_unread
from circlekit.rewrite.base import Context, GraphPass


class RemoveReshapeAroundUnaryOp(GraphPass):
    """reshape(f(g(reshape(x, B))), C)  ==  reshape(f(g(x)), C), and no Reshape where x has shape C.

    f and g are elementwise.  If they have two operands, both come from Reshapes of the same shape, or one is
    a constant that can be reshaped for x.  Their results have no other users and are no outputs of the graph,
    and at least one Reshape is removed.

    ``back``: whether x must have shape C.
    """

    name = "remove_reshape_around_unaryop"
    back: ClassVar[bool] = False

    def run_graph(self, graph: Graph, context: Context) -> int:
        dead_ends: set[Value] = set()
        reshapes = [op for op in graph.ops if isinstance(op, Reshape)]
        return sum(1 for op in reshapes if self._remove(graph, op, context, dead_ends))

    def _remove(self, graph: Graph, last: Reshape, context: Context, dead_ends: set[Value]) -> bool:
        """``dead_ends``: values already known to come from something else than a Reshape."""
        region = region_before(last, dead_ends)
        if region is None:
            if context.partial_matches:
                far = f"%{last.input.name}: is not computed from a Reshape by elementwise operators"
                context.refuse(self.name, last, far, 1)
            return False
        why = obstacle(graph, region, last)
        if why is None:
            count, reason = saved(graph, region, last)
            same = same_shape(sources_of(region)[0], last.output)
            why = same if self.back else None if count else reason
        if why is not None:
            if context.refusals is None:
                dead_ends.update(op.output for op in region.ops)
            context.refuse(self.name, last, why, len(region.ops) + 3)
            return False
        if not context.may_rewrite:
            return False
        context.rewrites(last)
        self._move(graph, region, last)
        return True

    def _move(self, graph: Graph, region: Region, last: Reshape) -> None:
        sources = sources_of(region)
        first, new, end = region.starts[0], dict(zip(region.starts, sources, strict=True)), last.input
        for op in region.ops:
            move(graph, op, new, sources[0].shape, first)
        drop_unread(graph, region.starts)
        # end is an interior value, so it can also replace an output of the graph
        if same_shape(end, last.output) is None and end.quantization == last.output.quantization:
            graph.replace(last.output, end)
            graph.remove(last)
