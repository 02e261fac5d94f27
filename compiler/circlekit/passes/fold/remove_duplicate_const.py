# SPDX-License-Identifier: Apache-2.0
"""Merge equal constants."""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.passes.support.equality import different_constants, equal_constants, graph_constants
from circlekit.rewrite.base import Context, GraphPass


class RemoveDuplicateConst(GraphPass):
    """Constants of equal dtype, shape, quantization and bit pattern become one.

    A constant that is an output of the graph stays.
    """

    name = "remove_duplicate_const"

    def run_graph(self, graph: Graph, context: Context) -> int:
        if context.partial_matches:
            for value, sentence, progress in different_constants(graph):
                context.refuse(self.name, next(iter(value.users)), sentence, progress)
        removed: set[int] = set()
        for first, *others in equal_constants(graph_constants(graph)):
            for other in others:
                graph.replace_uses(other, first)
                if not graph.is_output(other):
                    removed.add(id(other))
        if removed:
            graph.table = [value for value in graph.table if id(value) not in removed]
        return len(removed)
