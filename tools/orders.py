# SPDX-License-Identifier: Apache-2.0
"""Check ``reorder_for_memory``: ``python -m tools.orders [--graphs 500] [--seed 7] [MODEL...]``.

The graphs are random ones, or those of the models.
On every graph, and for the planners of both formats: the peak and the planned arena are never higher than
before, the peak is the lowest on graphs of at most 12 operators (all orders are examined), outputs are equal.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

import circlekit
from circlekit.equivalence.seeded_inputs import input_sets, make_inputs
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array
from circlekit.passes.order.reorder_for_memory import ReorderForMemory
from circlekit.rewrite.base import Context
from circlekit.targets.lifetimes import Buffer, buffers_of
from circlekit.targets.memory_plan import plan_memory
from circlekit.targets.planners import Planner, default_planner
from circlekit.testing import random_model
from tools.sweep import sweep

EXAMINED_OPERATORS = 12
STEPS = (6, 10, 20, 40)
FORMATS = ("tflite", "circle")


def lowest_peak(graph: Graph, planner: Planner) -> int:
    """Return the lowest peak of all orders that data allows, by trying every operator after every set."""
    ops, buffers = graph.ops, buffers_of(graph, planner)
    before = {op: {v.producer for v in op.inputs if v is not None and v.producer is not None} for op in ops}

    @cache
    def rest(done: frozenset[Op]) -> int:
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


def findings(model: Model, inputs: Sequence[Array], format: str, counts: Counter[str]) -> Iterator[str]:
    """Yield what is wrong after the pass; count what was examined."""
    planner = default_planner(format)
    plans = [plan_memory(graph, planner) for graph in model.graphs]
    outputs = circlekit.run(model, inputs)
    counts["models"] += 1
    counts["changed"] += bool(ReorderForMemory().run(model, Context(format)))
    for graph, plan in zip(model.graphs, plans, strict=True):
        after = plan_memory(graph, planner)
        counts["lower peaks"] += after.peak_bytes < plan.peak_bytes
        counts["lower arenas"] += after.size < plan.size
        if after.peak_bytes > plan.peak_bytes or after.size > plan.size:
            yield f"peak {plan.peak_bytes} -> {after.peak_bytes}, arena {plan.size} -> {after.size}"
        if 2 <= len(graph) <= EXAMINED_OPERATORS and all(op.pure for op in graph):
            counts["examined"] += 1
            lowest = lowest_peak(graph, planner)
            counts["arena would grow"] += after.peak_bytes > lowest
            if after.peak_bytes > lowest and "would grow" not in _reason(graph, format):
                yield f"peak {after.peak_bytes}, the lowest is {lowest}"
    for a, b in zip(outputs, circlekit.run(model, inputs), strict=True):
        if not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
            yield "outputs differ"


def _reason(graph: Graph, format: str) -> str:
    context = Context(format, refusals=[])
    ReorderForMemory().run_graph(graph, context)
    return context.refusals[-1].sentence if context.refusals else ""


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, Model, Sequence[Array]]]:
    """Yield name, model and inputs of each case."""
    for path in arguments.models:
        model = circlekit.load(path)
        yield path, model, make_inputs(model.main, input_sets(model.main)[0])
    for number in range(0 if arguments.models else arguments.graphs):
        seed = arguments.seed * 1_000_003 + number
        yield f"seed {seed}", *random_model(seed, steps=STEPS[number % len(STEPS)])


def main() -> int:
    """Print what is wrong, and counts; return 1 if anything is."""
    parser = argparse.ArgumentParser(prog="tools.orders", description=__doc__)
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = 0
    with sweep(len(arguments.models) or arguments.graphs, "graphs") as line:
        for name, model, inputs in line.each(cases(arguments)):
            for format in FORMATS:
                for finding in findings(clone(model), inputs, format, counts):
                    wrong += 1
                    print(f"{name}, {format}: {finding}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()), f"{wrong} findings", sep=", ")
    return line.exit_code(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
