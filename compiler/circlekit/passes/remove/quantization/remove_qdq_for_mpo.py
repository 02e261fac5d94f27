# SPDX-License-Identifier: Apache-2.0
"""Remove the first of two roundings after a matrix product, for mixed precision."""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import Dequantize, Quantize
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.passes.support.conditions import remove_unused
from circlekit.rewrite.base import Context, GraphPass


class RemoveQdqForMpo(GraphPass):
    """dq(q2(dq(q1(product))))  becomes  dq(q2(product)): values are no longer rounded to the first grid.

    ``product`` is a FULLY_CONNECTED or a BATCH_MATMUL.  A plain pass, because a picture cannot create a
    QUANTIZE: only its result says to which grid it rounds.
    """

    name = "remove_qdq_for_mpo"
    changes_values = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._remove(graph, op, context) for op in graph.ops if isinstance(op, Quantize))

    def _remove(self, graph: Graph, second: Quantize, context: Context) -> bool:
        source = rounded_twice(second)
        if source is None:
            return False
        if not isinstance(source.producer, FullyConnected | BatchMatMul):
            found = "an input" if source.producer is None else type(source.producer).__name__
            sentence = f"%{source.name}: comes from {found}, expected FullyConnected or BatchMatMul"
            context.refuse(self.name, second, sentence, 3)
            return False
        if any(not isinstance(user, Dequantize) for user in second.output.users):
            sentence = f"%{second.output.name}: has users other than Dequantize"
            context.refuse(self.name, second, sentence, 4)
            return False
        if not context.may_rewrite:
            return False
        context.rewrites(second)
        back = second.input.producer
        second.set_input(0, source)
        if back is not None:
            remove_unused(graph, back)
        return True


def rounded_twice(second: Op) -> Value | None:
    """The value that is quantized, dequantized and then quantized by ``second``; None if it is none."""
    back = second.inputs[0].producer if second.inputs[0] is not None else None
    first = back.input.producer if isinstance(back, Dequantize) else None
    return first.input if isinstance(first, Quantize) else None
