# SPDX-License-Identifier: Apache-2.0
"""Write SPLIT_V into equal parts as SPLIT."""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.ir.shape_inference import fits
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.join import Split, SplitV
from circlekit.rewrite.base import Context, GraphPass


class SubstituteSplitVToSplit(GraphPass):
    """split_v(x, [n, n, ...])  ==  split(x)."""

    name = "substitute_splitv_to_split"

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._replace(graph, op, context) for op in graph.ops if isinstance(op, SplitV))

    def _replace(self, graph: Graph, op: SplitV, context: Context) -> bool:
        lengths = self._lengths(op)
        if lengths is None or len(set(lengths)) != 1:
            context.refuse(
                self.name, op, f"%{op.output.name}: expected parts of equal size, got {lengths}", 2
            )
            return False
        split = Split(op.split_dim, op.value, results=[], num_splits=len(op.results))
        graph.insert_before(op, split)
        results = list(op.results)
        for value in results:
            value.producer = None
            split.add_result(value)
        op.results = []
        graph.remove(op)
        return True

    @staticmethod
    def _lengths(op: SplitV) -> list[int] | None:
        """The size of each part along the axis; None if it is unknown."""
        axis = static_int_vector(op.split_dim)
        if axis is None or op.value.shape is None or not fits(op):
            return None
        sizes = [v.shape[axis[0]] if v.shape is not None else None for v in op.results]
        return None if None in sizes else [int(s) for s in sizes if s is not None]
