# SPDX-License-Identifier: Apache-2.0
"""Remove Reshapes to the same shape, at once or behind elementwise operators."""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.passes.remove.movement.remove_reshape_around_unaryop import RemoveReshapeAroundUnaryOp
from circlekit.passes.support.conditions import same_shape
from circlekit.rewrite.base import Context
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class ToTheSameShape(Rewrite):
    """reshape(x, the shape of x)  ==  x."""

    quantized = True

    before = """
        y = Reshape(x, shape?)      {new_shape: any}
    """
    after = "x"

    @condition
    def one_shape(self, x: Value, y: Value) -> str | None:
        return same_shape(x, y)


class ThereAndBack(RemoveReshapeAroundUnaryOp):
    """reshape(f(reshape(x)), the shape of x)  ==  f(x) for elementwise functions."""

    name = ""
    back = True


class RemoveUnnecessaryReshape(Rules):
    """reshape(x, the shape of x)  ==  x, also behind another Reshape and elementwise operators.

    For the latter see remove_reshape_around_unaryop.
    """

    name = "remove_unnecessary_reshape"
    rules = (ToTheSameShape,)

    def run_graph(self, graph: Graph, context: Context) -> int:
        return super().run_graph(graph, context) + ThereAndBack().run_graph(graph, context)


ThereAndBack.name = RemoveUnnecessaryReshape.name  # for its refusals
