# SPDX-License-Identifier: Apache-2.0
"""The order with the lowest peak, compared with all orders; operators with effects keep their order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

import circlekit
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.passes.order import lowest_peak, reorder_for_memory
from circlekit.passes.order.lowest_peak import BufferUse, OrderSearch
from circlekit.passes.order.reorder_for_memory import ReorderForMemory, _predecessors, lowest_order
from circlekit.passes.pipelines import pipeline_passes
from circlekit.recipes.load import load_recipe
from circlekit.rewrite.base import Context
from circlekit.targets.memory_plan import MemoryPlan, arena_bytes, plan_memory
from circlekit.targets.planners import LITERT, PLANNERS, Planner
from circlekit.testing import random_model
from tests.targets.toy import toy
from tools.models.order import findings

RECIPE = Path(__file__).parents[3] / "recipes/passes/reorder_for_memory.ck"


def branches(count: int, seed: int) -> circlekit.Model:
    """Return a model of ``count`` branches, with tensors of several sizes.

    A branch computes %s, the maximum of %x or of the %v of an earlier branch.  Its own %v repeats %s to
    4, 32 or 256 columns.
    """
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


def problem(seed: int) -> tuple[list[int], list[BufferUse]]:
    """Return the predecessors of each operator, as a set of bits, and the buffers of a random small graph."""
    choice = random.Random(seed)
    count = choice.randint(1, 6)
    predecessors = [0] * count
    buffers = [
        BufferUse(choice.randint(0, 9), -1, choice.randrange(1, 1 << count), choice.random() < 0.3)
        for _ in range(choice.randint(0, 2))
    ]
    for producer in range(count):
        users = [i for i in range(producer + 1, count) if choice.random() < 0.4]
        for user in users:
            predecessors[user] |= 1 << producer
        bits = sum(1 << i for i in (producer, *users))
        buffers.append(BufferUse(choice.randint(0, 9), producer, bits, choice.random() < 0.2))
    return predecessors, buffers


def peak_of(order: Sequence[int], buffers: Sequence[BufferUse]) -> int:
    """Return the most bytes that are live at a time, counted operator by operator."""
    first = {index: place for place, index in enumerate(order)}
    last = [max(first[i] for i in lowest_peak.members(b.users)) for b in buffers]
    return max(
        sum(
            b.size
            for b, end in zip(buffers, last, strict=True)
            if (b.producer < 0 or first[b.producer] <= place) and (b.is_kept or place <= end)
        )
        for place in range(len(order))
    )


@pytest.mark.parametrize("seed", range(40))
def test_both_searches_find_the_lowest_peak(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle tries every order.

    With EXACT_TRIALS of -1, the beam search runs.  For at most 6 operators, it finds the lowest peak, too.
    """
    predecessors, buffers = problem(seed)
    edges = [(before, op) for op, bits in enumerate(predecessors) for before in lowest_peak.members(bits)]
    orders = permutations(range(len(predecessors)))
    possible = [order for order in orders if all(order.index(a) < order.index(b) for a, b in edges)]
    peaks = [peak_of(order, buffers) for order in possible]
    for trials in (lowest_peak.EXACT_TRIALS, -1):
        monkeypatch.setattr(lowest_peak, "EXACT_TRIALS", trials)
        for limit in (min(peaks), min(peaks) + 1, max(peaks) + 1):
            order, is_lowest = OrderSearch(predecessors, buffers, limit).lowest()
            assert (order is None) == (limit == min(peaks))
            assert order is None or peak_of(order, buffers) == min(peaks)
            assert is_lowest or trials < 0


def test_random_graphs() -> None:
    """Peak and arena never rise, and values stay equal.

    On small graphs, the peak is the lowest one, unless the arena would grow.
    """
    counts: Counter[str] = Counter()
    for seed in range(12):
        model, inputs = random_model(seed, steps=10)
        assert not list(findings(model, inputs, counts))
    assert counts["lower peaks"] > 3
    assert counts["examined"] > 3


@pytest.mark.parametrize("seed", range(3))
def test_the_beam_search_lowers_the_peak(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = branches(12, seed).main
    exact, _ = lowest_order(graph, LITERT, peak(graph))
    monkeypatch.setattr(lowest_peak, "EXACT_TRIALS", 0)
    found, is_lowest = lowest_order(graph, LITERT, peak(graph))
    assert exact is not None
    assert found is not None
    assert not is_lowest
    lowest = plan_memory(graph, LITERT, exact).peak_bytes
    assert lowest <= plan_memory(graph, LITERT, found).peak_bytes < peak(graph)


def test_a_lower_peak_in_an_arena_of_the_same_size() -> None:
    graph = branches(3, 29).main
    before = plan_memory(graph, LITERT)
    assert ReorderForMemory().run_graph(graph, Context("tflite")) == 1
    after = plan_memory(graph, LITERT)
    assert (after.size, after.peak_bytes < before.peak_bytes) == (before.size, True)


@pytest.mark.parametrize(
    ("second", "has_effect"),
    [
        ("Neg(%memory)", True),
        ("If(%c, %x) {then_graph: @g, else_graph: @g}", True),
        ('Opaque(%x) {code: "CUSTOM", custom_code: "Any"} : f32[1,3]', True),
        ("Neg(%x)", False),
        ("FullyConnected(%x, %feature, none)", False),
    ],
)
def test_operators_with_effects_keep_their_order(second: str, has_effect: bool) -> None:
    """Svdf has an effect: it changes %memory.  An operator that has an effect, too, must stay after it."""
    model = circlekit.parse(f"""
        graph main(%x: f32[1,3], %c: bool[1]) -> %y, %z {{
          %feature = const f32[2,3] gaussian(0, 1)
          %time = const f32[2,4] gaussian(0, 1)
          %memory: f32[1,8] variable
          %y = Svdf(%x, %feature, %time, none, %memory) {{rank: 1}}
          %z = {second}
        }}
        graph g(%x: f32[1,3]) -> %y {{ %y = Neg(%x) }}
    """)
    ops = model.main.ops
    number = {op: index for index, op in enumerate(ops)}
    assert _predecessors(ops, number) == [0, int(has_effect)]


def test_the_same_order_every_time() -> None:
    texts = set()
    for _ in range(2):
        model = branches(10, 4)
        ReorderForMemory().run(model, Context("tflite"))
        texts.add(str(model))
    assert len(texts) == 1


def test_omem_is_o1_and_then_the_order() -> None:
    assert [*pipeline_passes("Omem")] == [*pipeline_passes("O1"), "reorder_for_memory"]
    model = load_recipe(RECIPE)
    report = circlekit.optimize(model, "Omem", verify=True)
    assert report.changes["reorder_for_memory"] == 1
    assert report.before.arena_bytes > report.after.arena_bytes


def test_the_named_target_plans_the_arena() -> None:
    """A tensor has 256 bytes.  The arena of LiteRT holds %x, %a and %b at once; TFLM reuses the place of %x.

    The arena of onert has no inputs and outputs.  If a target has no planner, LiteRT's plans a TFLite model.
    """
    text = "graph main(%x: f32[1,64]) -> %y {\n  %a = Neg(%x)\n  %b = Abs(%a)\n  %y = Neg(%b)\n}"
    sizes = {}
    for target in ("none", "onert", "tflm,onert", toy("NEG", "ABS")):
        model = circlekit.parse(text)
        model.format = "tflite"
        after = circlekit.optimize(model, ["reorder_for_memory"], target=target).after
        sizes[after.arena_planner] = after.arena_bytes
        assert after.arena_bytes == arena_bytes(model, PLANNERS[after.arena_planner])
    assert sizes == {"litert": 3 * 256, "onert": 2 * 256, "tflm": 2 * 256}


def test_the_order_follows_the_planner_of_the_named_target(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, None] = {}

    def plan(graph: Graph, planner: Planner, order: Sequence[Op] | None = None) -> MemoryPlan:
        names[planner.name] = None
        return plan_memory(graph, planner, order)

    monkeypatch.setattr(reorder_for_memory, "plan_memory", plan)
    for target in ("onert", "luci,tflm", "none"):
        circlekit.optimize(branches(2, 0), "Omem", target=target)
    assert list(names) == ["onert", "luci"]
