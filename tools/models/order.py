# SPDX-License-Identifier: Apache-2.0
"""``reorder_for_memory``, for the planners of both formats: the peak and the planned arena are never higher.

On graphs of 2 to 12 pure operators, all orders are examined: the peak is the lowest one.  The exception: if
the arena would grow, the pass refuses, and the peak stays.  The outputs keep their values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import circlekit
from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.tensor import same_array
from circlekit.ir.value import Array
from circlekit.passes.order.reorder_for_memory import ReorderForMemory
from circlekit.rewrite.base import Context
from circlekit.targets.lifetimes import Buffer, buffers_of
from circlekit.targets.memory_plan import MemoryPlan, plan_memory
from circlekit.targets.planners import Planner, default_planner

EXAMINED_OPERATORS = 12
FORMATS = ("tflite", "circle")


def lowest_peak(graph: Graph, planner: Planner) -> int:
    """Return the lowest peak of all orders in which operands are computed before they are read."""
    ops, buffers = graph.ops, buffers_of(graph, planner)
    before = {op: {v.producer for v in op.inputs if v is not None and v.producer is not None} for op in ops}

    @cache
    def rest(done: frozenset[Op]) -> int:
        """Return the lowest peak of the operators that are left after ``done``."""
        ready = [op for op in ops if op not in done and before[op] <= done]
        return min((max(_live(buffers, done, op), rest(done | {op})) for op in ready), default=0)

    return rest(frozenset())


def _live(buffers: Sequence[Buffer], done: frozenset[Op], op: Op) -> int:
    """Return the bytes that are live while ``op`` runs after ``done``."""
    total = 0
    for buffer in buffers:
        touching = buffer.users | ({buffer.producer} if buffer.producer is not None else set())
        is_created = buffer.producer is None or buffer.producer in done or buffer.producer is op
        is_released = not buffer.is_kept and touching <= done
        total += buffer.size if is_created and not is_released else 0
    return total


def findings(model: Model, inputs: Sequence[Array], counts: Counter[str]) -> Iterator[str]:
    """Yield what is wrong after the pass for the planner of each format; count what was examined."""
    try:
        outputs = circlekit.run(model, inputs)
    except CirclekitError:
        counts["do not run"] += 1
        return
    for format in FORMATS:
        changed = clone(model)
        planner = default_planner(format)
        plans = [plan_memory(graph, planner) for graph in changed.graphs]
        counts["changed"] += bool(ReorderForMemory().run(changed, Context(format)))
        for graph, plan in zip(changed.graphs, plans, strict=True):
            for finding in _wrong(graph, plan, format, counts):
                yield f"{format}: {finding}"
        if not all(map(same_array, outputs, circlekit.run(changed, inputs))):
            yield f"{format}: outputs differ"


def _wrong(graph: Graph, before: MemoryPlan, format: str, counts: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with ``graph`` after the pass; ``before``: its memory plan before the pass."""
    planner = default_planner(format)
    after = plan_memory(graph, planner)
    counts["lower peaks"] += after.peak_bytes < before.peak_bytes
    counts["lower arenas"] += after.size < before.size
    if after.peak_bytes > before.peak_bytes or after.size > before.size:
        yield f"peak {before.peak_bytes} -> {after.peak_bytes}, arena {before.size} -> {after.size}"
    if 2 <= len(graph) <= EXAMINED_OPERATORS and all(op.pure for op in graph):
        counts["examined"] += 1
        lowest = lowest_peak(graph, planner)
        counts["arena would grow"] += after.peak_bytes > lowest
        context = Context(format, refusals=[])
        ReorderForMemory().run_graph(graph, context)
        reasons = [refusal.sentence for refusal in context.refusals or ()]
        if after.peak_bytes > lowest and "would grow" not in "".join(reasons[-1:]):
            yield f"peak {after.peak_bytes}, the lowest is {lowest}"
