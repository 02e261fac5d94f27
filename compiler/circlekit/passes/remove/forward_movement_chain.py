# SPDX-License-Identifier: Apache-2.0
"""Move whole chains of Reshapes and Transposes past the elementwise operators that use their result."""

from __future__ import annotations

from typing import NamedTuple

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.remove.remove_reshape_around_elementwise import move, only_operand
from circlekit.rewrite.base import Context, GraphPass


class _Chain(NamedTuple):
    """Operators that move data, each reading the result of the one before.

    ``first``, ``last``: the first and the last operator.  ``kinds``: the classes of all of them.
    """

    first: Reshape | Transpose
    last: Reshape | Transpose
    kinds: frozenset[type[Op]]


class ForwardMovementChain(GraphPass):
    """f(chain(x))  ==  chain(f(x)) for an elementwise f of x and constants of one element.

    ``chain``: Reshapes and Transposes, at least one of each, such as a channel shuffle; other passes move
    chains of one kind.  One run moves f before the whole chain.  If f is between two chains, these become one
    chain, which other passes can shorten.
    """

    name = "forward_movement_chain"

    def run_graph(self, graph: Graph, context: Context) -> int:
        chains: dict[Value, _Chain] = {}  # by the result of the last operator
        changes = 0
        for op in graph.ops:
            if isinstance(op, Reshape | Transpose):
                before = chains.get(op.input) if _sharing_refusal(graph, op.input) is None else None
                first, _, kinds = before or _Chain(op, op, frozenset())
                chains[op.output] = _Chain(first, op, kinds | {type(op)})
                continue
            value = next((v for v in op.inputs if v in chains), None)
            if value is None or not op.results or chains[value].kinds != {Reshape, Transpose}:
                continue
            chain = chains[value]
            if context.accepts(self.name, op, _obstacle(graph, op, chain)):
                chains[op.output] = chains.pop(value)  # the chain will produce the result of ``op``
                _move_before(graph, op, chain)
                changes += 1
        return changes


def _sharing_refusal(graph: Graph, value: Value) -> str | None:
    """Return a refusal if ``value`` is an output of the graph or has several uses, else None."""
    if graph.is_output(value):
        return f"%{value.name}: is an output of the graph"
    return f"%{value.name}: has other users" if value.use_count > 1 else None


def _obstacle(graph: Graph, op: Op, chain: _Chain) -> str | None:
    """Return why ``op`` cannot move before ``chain``; None if it can."""
    source, value, result = chain.first.input, chain.last.output, op.output
    if only_operand(op) is not value:
        kind = type(op).__name__
        expected = "an elementwise operator of one value and constants of one element"
        return f"%{result.name}: expected {expected}, got {kind}"
    is_per_channel = value.quantization is not None and value.quantization.is_per_channel
    if is_per_channel or len({(v.dtype, v.quantization) for v in (source, value, result)}) > 1:
        names = f"%{source.name}, %{value.name} and %{result.name}"
        return f"%{result.name}: {names} differ in dtype or quantization, or are quantized per channel"
    if None in (source.shape, value.shape) or value.shape != result.shape:
        return f"%{result.name}: is broadcast to another shape, or a shape of the chain is unknown"
    return _sharing_refusal(graph, value)


def _move_before(graph: Graph, op: Op, chain: _Chain) -> None:
    """Move ``op`` before ``chain``; then ``chain`` produces the old result of ``op``."""
    first, last, _ = chain
    source, value, result = first.input, last.output, op.output
    name = graph.unique_name(f"{result.name}/{type(op).__name__}")
    inner = Value(name, result.dtype, source.shape, None, result.quantization)
    op.take_result(0, inner)
    move(graph, op, {value: source}, source.known_shape, value)
    first.set_input(0, inner)
    last.take_result(0, result)
    graph.unlink(op)
    graph.insert_before(first, op)
