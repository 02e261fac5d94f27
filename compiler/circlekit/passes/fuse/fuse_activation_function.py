# SPDX-License-Identifier: Apache-2.0
"""Fuse RELU, RELU6 and RELU_N1_TO_1 into the operator before them."""

from __future__ import annotations

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value, same_grid
from circlekit.ops.quantized_values import is_quantized
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
"""{(operator, fused activation of the operator before it): the activation with the effect of both}."""

LIMITS = (NONE, RELU, RELU6, N1)
"""Activations that a CONCATENATION between the operator and the RELU may have.

Each of them limits every element to an interval, and so does the RELU.  Their order makes no difference.
"""


class FuseActivationFunction(GraphPass):
    """relu(op(x))  ==  op(x) with the activation fused, if ``op`` can fuse one.

    RELU stands for RELU, RELU6 and RELU_N1_TO_1.  Operators that only move elements may lie between ``op``
    and the RELU; all operands of a CONCATENATION or PACK must come from operators that can fuse the
    activation.
    """

    name = "fuse_activation_function"

    def run_graph(self, graph: Graph, context: Context) -> int:
        kinds = tuple(REGISTRY[code] for code in sorted({code for code, _ in COMPOSED}))
        return sum(1 for op in graph.ops if isinstance(op, kinds) and self._fuse(graph, op, context))

    def _fuse(self, graph: Graph, relu: Op, context: Context) -> bool:
        """Fuse ``relu`` into the operators before it if there is no obstacle; return whether it did."""
        value, result = relu.inputs[0], relu.output
        sources = None if value is None else _sources(value)
        if value is None or not sources:
            if context.partial_matches and value is not None:
                expected = "expected the result of an operator that can fuse an activation"
                moved = "data movement of such a result with one use"
                context.refuse(self.name, relu, f"%{value.name}: {expected}, or {moved}")
            return False
        refusal = next(filter(None, (_refusal(graph, relu, v) for v in sources)), None)
        if not context.accepts(self.name, relu, refusal):
            return False
        for op in (v.producer for v in sources if v.producer is not None and v.producer.fuses_activation):
            op.act = COMPOSED[relu.code, op.act]  # type: ignore[attr-defined]
        if value.producer is not None:  # the producer now computes the result of the activation itself
            value.producer.take_result(value.result_index, result)
        graph.remove(relu)
        return True


def _sources(value: Value) -> list[Value]:
    """Return the values that change if RELU moves up: ``value``, and those from which data movement makes it.

    Data movement is followed back to operators that can fuse an activation.  Return [] if the search reaches
    an input, a constant, any other operator, or a data movement with several results or several uses.
    """
    found, todo = list[Value](), [value]
    while todo:
        value = todo.pop()
        producer = value.producer
        found.append(value)
        movement = producer is not None and producer.data_movement and len(producer.results) == 1
        if producer is None or not (producer.fuses_activation or (movement and value.use_count == 1)):
            return []
        if not producer.fuses_activation:
            # CONCATENATION and PACK move all operands, the others the first one
            parts = producer.inputs if producer.operands[0].variadic else producer.inputs[:1]
            todo += [part for part in parts if part is not None]
    return found


def _refusal(graph: Graph, relu: Op, value: Value) -> str | None:
    """Return why ``value``, one of ``_sources``, cannot be changed to relu(value); None if it can."""
    result, producer = relu.output, value.producer
    act: Activation = getattr(producer, "act", NONE)
    is_fused = getattr(producer, "fuses_activation", False)
    can_merge = (relu.code, act) in COMPOSED if is_fused else act in LIMITS
    if not can_merge:
        return f"%{value.name}: act is {act.name}, which {relu.code} cannot be merged with"
    if value.use_count > 1 or graph.is_output(value):
        return f"%{value.name}: has other users, or is an output of the graph, and must not be changed"
    if not same_grid(value.quantization, result.quantization):
        return f"%{result.name}: has other quantization parameters than %{value.name}"
    if value.dtype is not f32 and not is_quantized(value):
        return f"%{value.name}: expected f32 or quantized values, got {value.dtype.short}"
    return None
