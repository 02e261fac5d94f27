# SPDX-License-Identifier: Apache-2.0
"""One constant for all that are equal."""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.passes.fold.content import equal_constants, graph_constants
from circlekit.passes.fold.nearly import nearly_one
from circlekit.rewrite.base import Context, GraphPass


class RemoveDuplicateConst(GraphPass):
    """Constants of one dtype, shape, quantization and bit pattern become the first of them.

    A constant that is an output of the graph stays what it is.
    """

    name = "remove_duplicate_const"

    def run_graph(self, graph: Graph, context: Context) -> int:
        if context.partial_matches:
            for value, sentence, progress in nearly_one(graph):
                context.refuse(self.name, next(iter(value.users)), sentence, progress)
        gone: set[int] = set()
        for first, *others in equal_constants(graph_constants(graph)):
            for other in others:
                graph.replace_uses(other, first)
                if not graph.is_output(other):
                    gone.add(id(other))
        if gone:
            graph.table = [v for v in graph.table if id(v) not in gone]
        return len(gone)
