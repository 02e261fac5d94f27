# SPDX-License-Identifier: Apache-2.0
"""Activations fused into TRANSPOSE_CONV, for circle: ONE's runtime does not apply them."""

from __future__ import annotations

from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.activation import Relu, Relu6, ReluN1To1, Tanh
from circlekit.ops.conv import TransposeConv
from circlekit.passes.replace.legalize import Legalization
from circlekit.rewrite.base import Context

OPERATORS: dict[Activation, type[Op]] = {
    Activation.RELU: Relu,
    Activation.RELU6: Relu6,
    Activation.RELU_N1_TO_1: ReluN1To1,
    Activation.TANH: Tanh,
}


class SplitTransposeConvActivation(Legalization):
    """tconv(x) with RELU fused  ==  relu(tconv(x)); quantization parameters are those of the result."""

    targets = frozenset({"circle"})

    def run_graph(self, graph: Graph, context: Context) -> int:
        ops = [op for op in graph.ops if isinstance(op, TransposeConv) and op.act in OPERATORS]
        for op in ops:
            _split(graph, op)
        return len(ops)


def _split(graph: Graph, op: TransposeConv) -> None:
    result = op.output
    name = graph.unique_name(f"{result.name}/TransposeConv")
    value = Value(name, result.dtype, result.shape, None, result.quantization)
    op.take_result(0, value)
    graph.insert_after(op, OPERATORS[op.act](value, results=[result]))
    op.act = Activation.NONE
