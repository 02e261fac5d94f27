# SPDX-License-Identifier: Apache-2.0
"""Keep values that the runtime would overwrite before their last use."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.engine.legalize import LITERT, Legalization
from circlekit.rewrite.base import Context
from circlekit.targets.overwritten_values import Overwritten, first_overwritten
from circlekit.targets.planners import PLANNERS


class KeepOverwritten(Legalization):
    """f(w), g(v)  ==  f(w), g(reshape(w)), where w is v reshaped and f works in place.

    The planner then sees that w is read again, and f gets a buffer of its own.
    """

    targets = LITERT
    kinds = (Reshape,)

    def run_graph(self, graph: Graph, context: Context) -> int:
        if not self.is_forced:
            return 0
        kept = set[Op]()
        while (found := first_overwritten(graph, PLANNERS["litert"], kept)) is not None:
            self._keep(graph, found)
            kept.add(found.writer)
        return len(kept)

    def _keep(self, graph: Graph, found: Overwritten) -> None:
        """Let the later readers read the operand that would be overwritten, or a new Reshape of this operand.

        If the overwriting operator reads a view with the shape of the operand, let it read the operand
        instead, so that it cannot work in place on the view.
        """
        for index, value in enumerate(found.writer.inputs):
            if value in found.views and value.shape == found.operand.shape:
                found.writer.set_input(index, found.operand)
        views: dict[Value, Value] = {}
        for op, index in found.readers:
            old = op.inputs[index]
            assert old is not None  # by Overwritten
            if old.shape == found.operand.shape:
                views[old] = found.operand
            elif old not in views:
                name = graph.unique_name(f"{old.name}/kept")
                view = Value.of_type(old, name)
                shape = Value.constant(graph.unique_name(f"{name}/shape"), np.array(old.shape, np.int32))
                graph.insert_after(found.writer, Reshape(found.operand, shape, results=[view]))
                views[old] = view
            op.set_input(index, views[old])
