# SPDX-License-Identifier: Apache-2.0
"""The order with the lowest peak: against all orders, with the bounded search, and what stays in order."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

import circlekit
from circlekit.ir.graph import Graph
from circlekit.passes.order import lowest_peak
from circlekit.passes.order.reorder_for_memory import ReorderForMemory, lowest_order
from circlekit.recipes.load import load_recipe
from circlekit.rewrite.base import Context
from circlekit.targets.memory_plan import plan_memory
from circlekit.targets.planners import LITERT
from circlekit.testing import random_model
from tools.orders import findings

RECIPE = Path(__file__).parents[3] / "recipes/passes/reorder_for_memory.ck"


def branches(count: int, seed: int) -> circlekit.Model:
    """Return a model in which each value is a larger or smaller function of earlier ones."""
    choice = random.Random(seed)
    lines, values = [], ["%x"]
    for index in range(count):
        source = choice.choice(values[-6:])
        lines += [
            f"%s{index} = ReduceMax({source}, [1]) {{keep_dims: true}}",
            f"%v{index} = Tile(%s{index}, [1, {choice.choice((4, 32, 256))}])",
        ]
        values.append(f"%v{index}")
    joined = ", ".join(f"%s{index}" for index in range(count))
    body = "\n  ".join(lines)
    return circlekit.parse(
        f"graph main(%x: f32[1,8]) -> %y {{\n  {body}\n  %y = Concatenation({joined}) {{axis: 1}}\n}}"
    )


def peak(graph: Graph) -> int:
    return plan_memory(graph, LITERT).peak_bytes


def test_no_order_has_a_lower_peak() -> None:
    """The oracle tries every permutation in which operands come first."""
    graph = branches(3, 1).main
    found, is_lowest = lowest_order(graph, LITERT, peak(graph) + 1)
    assert found is not None
    assert is_lowest
    peaks = []
    for order in permutations(graph.ops):
        place = {op: index for index, op in enumerate(order)}
        operands = ((v.producer, op) for op in order for v in op.inputs if v is not None)
        if all(place[producer] < place[op] for producer, op in operands if producer is not None):
            peaks.append(plan_memory(graph, LITERT, order).peak_bytes)
    assert len(peaks) > 10
    assert plan_memory(graph, LITERT, found).peak_bytes == min(peaks)


@pytest.mark.parametrize("format", ["tflite", "circle"])
def test_random_graphs(format: str) -> None:
    """Peak and arena are never higher, the peak is the lowest on small graphs, and values are equal."""
    counts: Counter[str] = Counter()
    for seed in range(12):
        model, inputs = random_model(seed, steps=10)
        assert not list(findings(model, inputs, format, counts))
    assert counts["lower peaks"] > 3
    assert counts["examined"] > 3


@pytest.mark.parametrize("seed", range(3))
def test_the_bounded_search_is_never_worse(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = branches(12, seed).main
    exact, _ = lowest_order(graph, LITERT, peak(graph))
    monkeypatch.setattr(lowest_peak, "EXACT_TRIALS", 0)
    bounded, is_lowest = lowest_order(graph, LITERT, peak(graph))
    assert exact is not None
    assert bounded is not None
    assert not is_lowest
    lowest = plan_memory(graph, LITERT, exact).peak_bytes
    assert lowest <= plan_memory(graph, LITERT, bounded).peak_bytes < peak(graph)


def test_the_same_order_every_time() -> None:
    texts = set()
    for _ in range(2):
        model = branches(10, 4)
        ReorderForMemory().run(model, Context("tflite"))
        texts.add(str(model))
    assert len(texts) == 1


def test_omem_is_o1_and_then_the_order() -> None:
    model = load_recipe(RECIPE)
    report = circlekit.optimize(model, "Omem", verify=True)
    assert report.changes["reorder_for_memory"] == 1
    assert report.before.arena_bytes > report.after.arena_bytes
