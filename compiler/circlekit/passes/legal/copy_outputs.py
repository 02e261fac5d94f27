# SPDX-License-Identifier: Apache-2.0
"""Copy outputs of the model that operators read, too."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.engine.legalize import Legalization
from circlekit.rewrite.base import Context


class CopyReadOutputs(Legalization):
    """y, an output that operators read  ==  reshape(y) as the output, to the same shape."""

    targets = frozenset({"onert"})  # releases the buffer after the last operator that reads it
    kinds = (Reshape,)

    def run_graph(self, graph: Graph, context: Context) -> int:
        if not self.is_forced:
            return 0
        outputs = (value for value in dict.fromkeys(graph.outputs) if value.producer is not None)
        return sum(self._copy(graph, value) for value in outputs if value.users and _can_be_stated(value))

    def _copy(self, graph: Graph, value: Value) -> bool:
        producer = value.producer
        assert producer is not None  # by run_graph
        inner = Value(
            graph.unique_name(f"{value.name}/read"), value.dtype, value.shape, None, value.quantization
        )
        producer.take_result(value.result_index, inner)
        for op, index in tuple(value.uses):
            op.set_input(index, inner)
        name = graph.unique_name(f"{value.name}/shape")
        dims = [-1 if dim is None else dim for dim in value.shape or ()]
        shape = Value.constant(name, np.array(dims, np.int32))
        copy = Reshape(inner, shape, results=[value])
        graph.insert_after(producer, copy)
        return True


def _can_be_stated(value: Value) -> bool:
    """Return whether a constant states the shape: RESHAPE infers one unknown dimension of nonempty data."""
    shape = value.shape
    return value.is_static or (shape is not None and shape.count(None) == 1 and 0 not in shape)
