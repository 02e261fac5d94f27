# SPDX-License-Identifier: Apache-2.0
"""Change the order of operators so that activations need less memory."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ops.program.custom import is_pure
from circlekit.passes.order.lowest_peak import BufferUse, OrderSearch
from circlekit.rewrite.base import Context, GraphPass
from circlekit.targets.lifetimes import buffers_of
from circlekit.targets.memory_plan import MemoryPlan, plan_memory
from circlekit.targets.planners import Planner, default_planner


class ReorderForMemory(GraphPass):
    """Put operators into the order with the lowest peak of memory.

    The peak is the largest number of bytes of activations that are live at the same time.  The memory planner
    decides which tensors share a buffer.  The planner is that of the first named target that has one; without
    such a target, that of the format's default target.  If the exact search takes too long, a faster search
    replaces it and may miss the best order.  The order changes only if the peak becomes lower and the planned
    arena does not grow.  Operators with side effects keep their order.
    """

    name = "reorder_for_memory"
    obeys_target = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        if len(graph) < 2:
            return 0
        planner = default_planner(context.format, context.target.names if context.target is not None else ())
        plan = plan_memory(graph, planner)
        order, is_lowest = lowest_order(graph, planner, plan.peak_bytes)
        sentence = _obstacle(graph, plan, order, is_lowest)
        at_peak = graph.ops[plan.peak_index]
        if not context.accepts(self.name, at_peak, sentence) or order is None:
            return 0
        for op in graph.ops:
            graph.unlink(op)
        for op in order:
            graph.append(op)
        return 1


def _obstacle(graph: Graph, plan: MemoryPlan, order: Sequence[Op] | None, is_lowest: bool) -> str | None:
    """Return why the order of ``graph`` stays; None if ``order`` is better.

    ``plan``: for the present order.  ``order``, ``is_lowest``: see ``lowest_order``.
    """
    if order is None:
        if is_lowest:
            return f"no order has a lower peak than {plan.peak_bytes:,} live bytes"
        return f"the search found no order with a lower peak than {plan.peak_bytes:,} live bytes"
    size = plan_memory(graph, plan.planner, order).size
    if size <= plan.size:
        return None
    return f"the peak would be lower, but the arena would grow from {plan.size:,} to {size:,} bytes"


def lowest_order(graph: Graph, planner: Planner, peak: int) -> tuple[list[Op] | None, bool]:
    """Return (an order with a lower peak than ``peak`` bytes, whether the search was complete).

    The order is None if none was found.  After a complete search, the returned order has the lowest peak, and
    None means that no order has a lower peak than ``peak``.
    """
    ops = graph.ops
    number = {op: index for index, op in enumerate(ops)}
    buffers = []
    for buffer in buffers_of(graph, planner):
        producer = -1 if buffer.producer is None else number[buffer.producer]
        users = {*buffer.users, *filter(None, [buffer.producer])}
        bits = sum(1 << number[op] for op in users if op in number)
        buffers.append(BufferUse(buffer.size, producer, bits, buffer.is_kept))
    found, is_lowest = OrderSearch(_predecessors(ops, number), buffers, peak).lowest()
    return (None if found is None else [ops[index] for index in found]), is_lowest


def _predecessors(ops: Sequence[Op], number: dict[Op, int]) -> list[int]:
    """Return for each operator a set of operators that must run before it; bit i of a set is operator i.

    They are the producers of its operands and, if it has an effect, the last earlier operator with an effect.
    The operators that must run before these are not added.
    """
    found, last_effect = [], 0
    for op in ops:
        producers = {
            value.producer for value in op.inputs if value is not None and value.producer is not None
        }
        bits = sum(1 << number[producer] for producer in producers if producer in number)
        if _has_effect(op):
            bits |= last_effect
            last_effect = 1 << number[op]
        found.append(bits)
    return found


def _has_effect(op: Op) -> bool:
    """Return whether ``op`` may depend on, or change, something besides its operands and results."""
    touches_variable = any(value is not None and value.is_variable for value in op.inputs)
    return not is_pure(op) or touches_variable
