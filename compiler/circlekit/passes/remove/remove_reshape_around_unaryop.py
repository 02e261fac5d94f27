# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators between two Reshapes, done in the shape before the first."""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.bases import Binary, Unary
from circlekit.ops.shape import Reshape
from circlekit.passes.remove.checks import same_elements
from circlekit.rewrite.base import Context, GraphPass


class RemoveReshapeAroundUnaryOp(GraphPass):
    """reshape(f(g(reshape(x, B))), C)  ==  reshape(f(g(x)), C), and no Reshape where x has shape C.

    f and g: functions of one element, or of two where the other is a constant of one element.  Between
    the Reshapes every value has one reader and is no output of the graph.
    """

    name = "remove_reshape_around_unaryop"

    def run_graph(self, graph: Graph, context: Context) -> int:
        dead_ends: set[Value] = set()
        reshapes = [op for op in graph.ops if isinstance(op, Reshape)]
        return sum(1 for op in reshapes if self._forward(graph, op, context, dead_ends))

    def _forward(self, graph: Graph, last: Reshape, context: Context, dead_ends: set[Value]) -> bool:
        """``dead_ends``: results of chains that no Reshape begins; nobody walks along them twice."""
        chain, start = _chain_before(last.input, dead_ends)
        if not chain or not isinstance(start.producer, Reshape):
            dead_ends.update(op.output for op in chain)
            return False
        first = start.producer
        source, end = first.input, chain[-1].output
        why = _obstacle(graph, [start, *(op.output for op in chain)], source, last.output)
        if why is not None:
            context.refuse(self.name, last, why, len(chain) + 1)
            return False
        if not context.may_rewrite:
            return False
        context.rewrites(last)
        for op in chain:
            move(graph, op, start, source)
            start = source = op.output
        graph.remove(first)
        # end is an interior value, so it can stand for an output of the graph too
        if same_elements(end, last.output) is None and end.quantization == last.output.quantization:
            graph.replace(last.output, end)
            graph.remove(last)
        return True


def _chain_before(value: Value, dead_ends: set[Value]) -> tuple[list[Op], Value]:
    """The elementwise operators that make ``value``, in order, and what the first of them reads."""
    chain: list[Op] = []
    while value.producer is not None and value.use_count == 1 and value not in dead_ends:
        operand = only_operand(value.producer)
        if operand is None:
            break
        chain.append(value.producer)
        value = operand
    return chain[::-1], value


def only_operand(op: Op) -> Value | None:
    """The one operand of an operator that works on each element of it alone; None for another operator."""
    if isinstance(op, Unary):
        return op.input
    if isinstance(op, Binary):
        if _is_single(op.rhs):
            return op.lhs
        if _is_single(op.lhs):
            return op.rhs
    return None


def _is_single(value: Value) -> bool:
    return value.is_plain and not value.is_variable and value.numel == 1


def _obstacle(graph: Graph, inside: list[Value], source: Value, result: Value) -> str | None:
    """Why the values ``inside`` must keep their shape."""
    for value in inside:
        if graph.is_output(value):
            return f"%{value.name}: is an output of the graph, its shape must stay"
        if value.use_count != 1:
            return f"%{value.name}: has {value.use_count} readers, one is wanted"
        if value.quantization is not None and value.quantization.is_per_channel:
            return f"%{value.name}: is quantized along an axis"
        if value.shape is None or value.rank != inside[0].rank:
            return f"%{value.name}: is broadcast to another rank"
    if source.shape is None:
        return f"%{source.name}: has an unknown rank"
    if source.quantization != inside[0].quantization:
        return f"%{inside[0].name}: has other quantization parameters than %{source.name}"
    return None


def move(graph: Graph, op: Op, old: Value, new: Value) -> None:
    """Let ``op`` read ``new`` in the place of ``old``, and have its shape."""
    for index, value in enumerate(op.inputs):
        if value is old:
            op.set_input(index, new)
        elif value is not None and (value.rank or 0) > (new.rank or 0):
            name = graph.unique_name(value.name)
            op.set_input(index, Value.constant(name, value.array().reshape(()), value.quantization))
    op.output.shape = new.shape
