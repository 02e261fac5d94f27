# SPDX-License-Identifier: Apache-2.0
"""RELU and its kin, made the activation of the operator before them."""

from __future__ import annotations

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op
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
    """relu(op(x))  ==  op(x) with the activation fused, where the operator has one to set."""

    name = "fuse_activation_function"

    def run_graph(self, graph: Graph, context: Context) -> int:
        kinds = tuple(REGISTRY[code] for code in sorted({code for code, _ in AFTER}))
        return sum(1 for op in graph.ops if isinstance(op, kinds) and self._fuse(graph, op, context))

    def _fuse(self, graph: Graph, relu: Op, context: Context) -> bool:
        value, result = relu.inputs[0], relu.output
        maker = value.producer if value is not None else None
        if value is None or maker is None or not maker.fuses_activation:
            return False
        act: Activation = maker.act  # type: ignore[attr-defined]  # fuses_activation promises it
        fused = AFTER.get((relu.code, act))
        why = None
        if fused is None:
            why = f"%{value.name}: act is {act.name}, which {relu.code} cannot join"
        elif value.use_count > 1 or graph.is_output(value):
            why = f"%{value.name}: is read elsewhere without the activation"
        elif value.quantization != result.quantization:
            why = f"%{result.name}: has other quantization parameters than %{value.name}"
        elif value.dtype is not f32 and value.quantization is None:
            why = f"%{value.name}: is {value.dtype.short}, activations are fused for f32 and quantized values"
        if why is not None or fused is None:
            context.refuse(self.name, relu, why or "", 3)
            return False
        if not context.may_rewrite:
            return False
        context.rewrites(relu)
        maker.take_result(value.result_index, result)
        maker.act = fused  # type: ignore[attr-defined]
        graph.remove(relu)
        return True
