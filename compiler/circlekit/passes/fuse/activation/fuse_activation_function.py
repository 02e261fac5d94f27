# SPDX-License-Identifier: Apache-2.0
"""RELU and its kin, made the activation of the operator before them."""

from __future__ import annotations

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value
from circlekit.rewrite.base import Context, GraphPass

NONE, RELU, RELU6, N1 = Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1

AFTER = {
    ("RELU", NONE): RELU,
    ("RELU", RELU): RELU,
    ("RELU", RELU6): RELU6,
    ("RELU6", NONE): RELU6,
    ("RELU6", RELU): RELU6,
    ("RELU6", RELU6): RELU6,
    ("RELU_N1_TO_1", NONE): N1,
    ("RELU_N1_TO_1", N1): N1,
}
"""What an operator and the activation fused before it amount to, where that is one activation again."""


class FuseActivationFunction(GraphPass):
    """relu(op(x))  ==  op(x) with the activation fused, where the operator has one to set.

    Between them may be what only moves elements; of a concatenation, all parts must be able to take it.
    """

    name = "fuse_activation_function"

    def run_graph(self, graph: Graph, context: Context) -> int:
        kinds = tuple(REGISTRY[code] for code in sorted({code for code, _ in AFTER}))
        return sum(1 for op in graph.ops if isinstance(op, kinds) and self._fuse(graph, op, context))

    def _fuse(self, graph: Graph, relu: Op, context: Context) -> bool:
        value, result = relu.inputs[0], relu.output
        made = None if value is None else _made(value)
        if value is None or not made:
            if context.partial_matches and value is not None:
                context.refuse(self.name, relu, f"%{value.name}: what makes it fuses no activation", 1)
            return False
        sentences = (_refusal(graph, relu, v) for v in made)
        why = next(filter(None, sentences), None)
        if why is not None:
            context.refuse(self.name, relu, why, 3)
            return False
        if not context.may_rewrite:
            return False
        context.rewrites(relu)
        for maker in (v.producer for v in made if v.producer is not None and v.producer.fuses_activation):
            maker.act = AFTER[relu.code, maker.act]  # type: ignore[attr-defined]
        if value.producer is not None:
            value.producer.take_result(value.result_index, result)
        graph.remove(relu)
        return True


def _made(value: Value) -> list[Value]:
    """``value`` and what it is moved from, up to operators that fuse activations; [] where others make it."""
    found, todo = list[Value](), [value]
    while todo:
        value = todo.pop()
        maker = value.producer
        found.append(value)
        if maker is None or not (maker.fuses_activation or (_moves(maker) and value.use_count == 1)):
            return []
        if not maker.fuses_activation:
            parts = maker.inputs if maker.operands[0].variadic else maker.inputs[:1]
            todo += [part for part in parts if part is not None]
    return found


def _moves(op: Op) -> bool:
    """Whether a function of elements may as well be applied to what ``op`` moves."""
    return op.data_movement and len(op.results) == 1


def _refusal(graph: Graph, relu: Op, value: Value) -> str | None:
    """Why ``value`` cannot be what ``relu`` makes of it."""
    result, maker = relu.output, value.producer
    if maker is not None and maker.fuses_activation and (relu.code, _act(maker)) not in AFTER:
        return f"%{value.name}: act is {_act(maker).name}, which {relu.code} cannot join"
    if value.use_count > 1 or graph.is_output(value):
        return f"%{value.name}: is read elsewhere without the activation"
    if value.quantization != result.quantization:
        return f"%{result.name}: has other quantization parameters than %{value.name}"
    if value.dtype is not f32 and value.quantization is None:
        return f"%{value.name}: is {value.dtype.short}, activations are fused for f32 and quantized values"
    return None


def _act(maker: Op) -> Activation:
    act: Activation = maker.act  # type: ignore[attr-defined]  # fuses_activation promises it
    return act
