# SPDX-License-Identifier: Apache-2.0
"""Fuse RELU, RELU6 and RELU_N1_TO_1 into the operator before them."""

from __future__ import annotations

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value
from circlekit.rewrite.base import Context, GraphPass

NONE, RELU, RELU6, N1 = Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1

COMPOSED = {
    ("RELU", NONE): RELU,
    ("RELU", RELU): RELU,
    ("RELU", RELU6): RELU6,
    ("RELU6", NONE): RELU6,
    ("RELU6", RELU): RELU6,
    ("RELU6", RELU6): RELU6,
    ("RELU_N1_TO_1", NONE): N1,
    ("RELU_N1_TO_1", N1): N1,
}
"""The activation that an operator after a fused activation is equal to, where there is one."""


class FuseActivationFunction(GraphPass):
    """relu(op(x))  ==  op(x) with the activation fused, where ``op`` can fuse one.

    Operators that only move elements may stand in between; of a concatenation, all parts must be able to fuse
    the activation.
    """

    name = "fuse_activation_function"

    def run_graph(self, graph: Graph, context: Context) -> int:
        kinds = tuple(REGISTRY[code] for code in sorted({code for code, _ in COMPOSED}))
        return sum(1 for op in graph.ops if isinstance(op, kinds) and self._fuse(graph, op, context))

    def _fuse(self, graph: Graph, relu: Op, context: Context) -> bool:
        value, result = relu.inputs[0], relu.output
        sources = None if value is None else _sources(value)
        if value is None or not sources:
            if context.partial_matches and value is not None:
                context.refuse(self.name, relu, f"%{value.name}: its producer cannot fuse an activation")
            return False
        why = next(filter(None, (_refusal(graph, relu, v) for v in sources)), None)
        if not context.accepts(self.name, relu, why):
            return False
        for maker in (v.producer for v in sources if v.producer is not None and v.producer.fuses_activation):
            maker.act = COMPOSED[relu.code, maker.act]  # type: ignore[attr-defined]
        if value.producer is not None:
            value.producer.take_result(value.result_index, result)
        graph.remove(relu)
        return True


def _sources(value: Value) -> list[Value]:
    """Return ``value`` and its sources through data movement, up to operators that fuse; [] if one cannot."""
    found, todo = list[Value](), [value]
    while todo:
        value = todo.pop()
        maker = value.producer
        found.append(value)
        movement = maker is not None and maker.data_movement and len(maker.results) == 1
        if maker is None or not (maker.fuses_activation or (movement and value.use_count == 1)):
            return []
        if not maker.fuses_activation:
            parts = maker.inputs if maker.operands[0].variadic else maker.inputs[:1]
            todo += [part for part in parts if part is not None]
    return found


def _refusal(graph: Graph, relu: Op, value: Value) -> str | None:
    """Why ``relu`` cannot be applied to ``value``, one of its sources, instead."""
    result, maker = relu.output, value.producer
    if maker is not None and maker.fuses_activation:
        act: Activation = maker.act  # type: ignore[attr-defined]  # operators with fuses_activation have it
        if (relu.code, act) not in COMPOSED:
            return f"%{value.name}: act is {act.name}, which {relu.code} cannot be merged with"
    if value.use_count > 1 or graph.is_output(value):
        return f"%{value.name}: has other users, or is an output of the graph, without the activation"
    if value.quantization != result.quantization:
        return f"%{result.name}: has other quantization parameters than %{value.name}"
    if value.dtype is not f32 and value.quantization is None:
        return f"%{value.name}: expected f32 or quantized values, got {value.dtype.short}"
    return None
