# SPDX-License-Identifier: Apache-2.0
"""Copy each graph output that operators also read."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.engine.legalize import Legalization
from circlekit.passes.support.conditions import is_determined
from circlekit.rewrite.base import Context


class CopyReadOutputs(Legalization):
    """y, an output that operators also read  ==  reshape(y, the shape of y) as the output.

    With too many unknown dimensions, a Reshape cannot state the shape of y.  Then the copy is a Transpose
    that keeps the order of the axes.  If the rank is unknown, or a runtime refuses the Transpose, y stays.
    An output that no operator produces (an input or a constant) stays, too.
    """

    targets = frozenset({"onert"})  # onert releases the buffer after the last operator that reads it
    kinds = (Reshape, Transpose)  # of the copy

    def run_graph(self, graph: Graph, context: Context) -> int:
        if not self.is_forced:  # no runtime of the model is among ``targets``
            return 0
        outputs = (value for value in dict.fromkeys(graph.outputs) if value.producer is not None)
        return sum(self._copy(graph, value) for value in outputs if value.users)

    def _copy(self, graph: Graph, value: Value) -> bool:
        """Let the producer and the users of ``value`` use a new value; copy the new value to ``value``.

        Return False if no operator can copy it.
        """
        producer = value.producer
        assert producer is not None  # by run_graph
        copy = _copy_of(graph, value)
        if copy is None:
            return False
        if isinstance(copy, Transpose) and self.obstacle(copy) is not None:
            copy.drop_inputs()  # else it would stay a user of ``value``
            return False
        inner = Value(
            graph.unique_name(f"{value.name}/read"), value.dtype, value.shape, None, value.quantization
        )
        producer.take_result(value.result_index, inner)
        for op, index in tuple(value.uses):
            op.set_input(index, inner)
        copy.take_result(0, value)
        graph.insert_after(producer, copy)
        return True


def _copy_of(graph: Graph, value: Value) -> Op | None:
    """Return an operator that copies ``value``; None if its rank is unknown."""
    if value.shape is None:
        return None
    dims = [-1 if dim is None else dim for dim in value.shape]
    is_stated = is_determined(value.shape)  # then a RESHAPE can state the shape, with at most one -1
    name = graph.unique_name(f"{value.name}/{'shape' if is_stated else 'perm'}")
    operand = Value.constant(name, np.array(dims if is_stated else range(len(dims)), np.int32))
    return (Reshape if is_stated else Transpose)(value, operand, results=[Value.of_type(value)])
