# SPDX-License-Identifier: Apache-2.0
"""Keep values that the runtime would overwrite before their last use."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.engine.legalize import LITERT, Legalization
from circlekit.passes.support.conditions import is_determined
from circlekit.rewrite.base import Context
from circlekit.targets.overwritten_values import Overwritten, overwritten_values
from circlekit.targets.planners import PLANNERS


class KeepOverwritten(Legalization):
    """f(w), g(v)  ==  f(w), g(reshape(w)), where w is v reshaped and f works in place.

    v and w share a buffer, and f may write its result into this buffer.  If f comes before g, it overwrites
    v: LiteRT's memory planner does not count the later read of v.  After the replacement the planner sees
    that w is read again, and gives the result of f a buffer of its own.  If no Reshape can state the shape of
    v (several dimensions are unknown), f reads a copy of w instead.
    """

    targets = LITERT
    kinds = (Reshape, Transpose)  # of the new operators

    def run_graph(self, graph: Graph, context: Context) -> int:
        if not self.is_forced:  # the model is not legalized for one of ``targets``
            return 0
        kept = set[Op]()
        while found := overwritten_values(graph, PLANNERS["litert"], kept):
            for overwritten in found:  # each change is correct even if an earlier one made it unnecessary
                self._keep(graph, overwritten)
                kept.add(overwritten.writer)
        return len(kept)

    def _keep(self, graph: Graph, found: Overwritten) -> None:
        """Let the later readers read the operand that would be overwritten, or a new Reshape of this operand.

        ``found``: its ``writer`` overwrites the data of its ``operand``, its ``readers`` read these data
        later, and its ``same_data`` are all values that have them.  One of these may be another input of the
        writer with the shape of the operand.  The writer could work in place on this input, too, so it reads
        the operand instead.  If a Reshape cannot state the shape that a reader needs, the writer reads a
        copy, and the readers stay.
        """
        read = [value for op, index in found.readers if (value := op.inputs[index]) is not None]
        # whether a RESHAPE can state the shapes, with at most one -1
        is_stated = all(is_determined(value.shape) for value in read)
        operand = found.operand if is_stated else self._copied(graph, found)
        for index, value in enumerate(found.writer.inputs):
            if value in found.same_data and value.shape == operand.shape:
                found.writer.set_input(index, operand)
        if not is_stated:
            return
        replacements: dict[Value, Value] = {}  # for each value that readers read
        for (op, index), old in zip(found.readers, read, strict=True):
            if old.shape == found.operand.shape:
                replacements[old] = found.operand
            elif old not in replacements:
                name = graph.unique_name(f"{old.name}/kept")
                view = Value.of_type(old, name)
                shape = Value.constant(graph.unique_name(f"{name}/shape"), _sizes(old))
                graph.insert_after(found.writer, Reshape(found.operand, shape, results=[view]))
                replacements[old] = view
            op.set_input(index, replacements[old])

    def _copied(self, graph: Graph, found: Overwritten) -> Value:
        """Insert a copy of the operand, a Transpose that keeps the axes, before the writer and return it."""
        base = found.operand.name
        axes = np.arange(found.operand.known_rank, dtype=np.int32)
        perm = Value.constant(graph.unique_name(f"{base}/perm"), axes)
        copy = Value.of_type(found.operand, graph.unique_name(f"{base}/copy"))
        graph.insert_before(found.writer, Transpose(found.operand, perm, results=[copy]))
        return copy


def _sizes(value: Value) -> Array:
    """Return the dimensions of ``value`` as i32, with -1 for unknown ones."""
    return np.array([-1 if dim is None else dim for dim in value.known_shape], np.int32)
