# SPDX-License-Identifier: Apache-2.0
"""Fused activations that the runtimes of a format do not apply become operators of their own."""

from __future__ import annotations

from typing import ClassVar

from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.activation import Relu, Relu6, ReluN1To1, Tanh
from circlekit.ops.conv import TransposeConv
from circlekit.ops.join import Concatenation
from circlekit.passes.legal.legalize import Legalization
from circlekit.rewrite.base import Context

OPERATORS: dict[Activation, type[Op]] = {
    Activation.RELU: Relu,
    Activation.RELU6: Relu6,
    Activation.RELU_N1_TO_1: ReluN1To1,
    Activation.TANH: Tanh,
}


class SplitActivation(Legalization):
    """op(x) with RELU fused  ==  relu(op(x)); quantization parameters are those of the result."""

    kind: ClassVar[type[Op]]

    def run_graph(self, graph: Graph, context: Context) -> int:
        ops = [op for op in graph.ops if isinstance(op, self.kind) and _activation(op) in OPERATORS]
        for op in ops:
            _split(graph, op)
        return len(ops)


class SplitTransposeConvActivation(SplitActivation):
    """ONE's runtime does not apply it."""

    targets = frozenset({"circle"})
    kind = TransposeConv


class SplitConcatenationActivation(SplitActivation):
    """LiteRT takes none, and neither does ONE's interpreter."""

    targets = frozenset({"circle", "tflite"})
    kind = Concatenation


def _activation(op: Op) -> Activation:
    act: Activation = op.attribute_items()["act"]
    return act


def _split(graph: Graph, op: Op) -> None:
    result, act = op.output, _activation(op)
    name = graph.unique_name(f"{result.name}/{type(op).__name__}")
    value = Value(name, result.dtype, result.shape, None, result.quantization)
    op.take_result(0, value)
    graph.insert_after(op, OPERATORS[act](value, results=[result]))
    op.act = Activation.NONE  # type: ignore[attr-defined]  # the kinds above have it
