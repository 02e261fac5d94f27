# SPDX-License-Identifier: Apache-2.0
"""ONE's execution plan: the order of nodes, their positions at run time, and the words of the table."""

from __future__ import annotations

import struct

import circlekit
from circlekit.targets.one_plan_table import (
    allocations,
    execution_plan,
    micro_positions,
    nodes_of,
    plan_table,
)

GRAPH = circlekit.parse("""
graph main(%x: f32[1,4,4,2]) -> %y {
  %w = const f32[2,3,3,2] gaussian(0, 1)
  %c = Conv2D(%x, %w, none)             : f32[1,4,4,2]
  %a, %b = Split(3, %c) {num_splits: 2} : f32[1,4,4,1], f32[1,4,4,1]
  %y = Maximum(%a, %b)                  : f32[1,4,4,1]
}
""").main
# the node with number n is NAMES[n]: a constant, input or result, "-" for the absent bias, or an operator
NAMES = ["split_dim", "x", "w", "-", "CONV_2D", "SPLIT", "a", "b", "MAXIMUM", "y"]
BYTES = {"x": 128, "CONV_2D": 128, "a": 64, "b": 64, "MAXIMUM": 64, "w": 144}
ALIVE = {"x": (0, 10), "CONV_2D": (4, 5), "a": (6, 8), "b": (7, 8), "MAXIMUM": (8, 9)}
"""The first and the last node at which a value must be in memory."""


def rows_of(data: bytes) -> dict[str, tuple[int, ...]]:
    """Decode the table, word by word as ``CircleImportMetadata.cpp`` of ONE does."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    found, at = {}, 1
    for _ in range(words[0]):
        number, count = words[at : at + 2]
        found[NAMES[number]] = words[at + 2 : at + 2 + count]
        at += 2 + count
    assert at == len(words)
    return found


def test_nodes_are_in_postorder() -> None:
    """ONE's order: the operands of an operator before it; results of SPLIT are nodes of their own."""
    names = [
        node.op.code if node.op is not None else node.value.name if node.value is not None else "-"
        for node in nodes_of(GRAPH)
    ]
    assert names[1:] == NAMES[1:]


def test_rows_have_position_offset_and_scratch() -> None:
    nodes, plan = execution_plan(GRAPH, with_constants=False)
    rows = rows_of(plan_table(nodes, plan, range(len(nodes))))
    assert [row[0] for row in rows.values()] == list(range(10))
    assert {name for name, row in rows.items() if len(row) == 3} == {"CONV_2D"}
    assert rows["w"][1] == 0
    for one, other in [(a, b) for a in ALIVE for b in ALIVE if a < b]:
        is_apart = (
            rows[one][1] >= rows[other][1] + BYTES[other] or rows[other][1] >= rows[one][1] + BYTES[one]
        )
        together = ALIVE[one][0] <= ALIVE[other][1] and ALIVE[other][0] <= ALIVE[one][1]
        assert is_apart or not together
    listed = {row["origin"]: row for row in allocations(plan)["segments"][0]["allocations"]}
    assert {name: row["size"] for name, row in listed.items() if name in ("%x", "%c", "%a")} == {
        "%x": 128, "%c": 128, "%a": 64,
    }  # fmt: skip
    assert listed["%c"]["offset"] == rows["CONV_2D"][1]
    assert (listed["%c"]["alive_from"], listed["%c"]["alive_till"]) == (4, 5)
    (scratch,) = (life for life in plan.lifetimes if life.buffer.producer is not None)
    assert (scratch.first, scratch.last) == (3, 5), "from the node before the convolution to the one after"


def test_what_has_no_memory_is_at_0() -> None:
    nodes, plan = execution_plan(GRAPH, with_constants=False, with_inputs=False, with_scratch=False)
    rows = rows_of(plan_table(nodes, plan, range(len(nodes))))
    assert {len(row) for row in rows.values()} == {2}
    assert rows["x"][1] == rows["w"][1] == 0
    planned = execution_plan(GRAPH, with_scratch=False)[1]
    assert planned.size >= BYTES["x"] + BYTES["w"] + BYTES["CONV_2D"] > plan.size


def test_the_memory_of_inputs_is_left_out_but_not_that_of_variables() -> None:
    """Without memory for inputs, no input has any, not even an input that is also an output."""
    graph = circlekit.parse("""
    graph main(%x: f32[2], %z: f32[4]) -> %y, %x {
      %s: f32[2] variable
      %a = Add(%s, %x) : f32[2]
      %y = Concatenation(%a, %z) : f32[6]
    }
    """).main
    sizes = []
    for with_inputs in (True, False):
        plan = execution_plan(graph, with_inputs=with_inputs)[1]
        inputs = {life.buffer.values[0].name: life.size for life in plan.lifetimes if not life.first}
        sizes.append([inputs[name] for name in ("x", "z", "s")])
        assert sum(life.size for life in plan.lifetimes if life.buffer.name == "%x") == sizes[-1][0] + 8
    assert sizes == [[8, 16, 8], [0, 0, 8]]


def test_onert_micro_has_inputs_and_outputs_first() -> None:
    positions = micro_positions(GRAPH, nodes_of(GRAPH))
    assert dict(zip(NAMES, positions, strict=True)) == {
        "x": 0, "MAXIMUM": 1, "CONV_2D": 2, "SPLIT": 3, "a": 4, "b": 5, "y": 6,
        "split_dim": None, "w": None, "-": None,
    }  # fmt: skip


def test_a_variable_is_no_graph_input() -> None:
    """The order of onert-micro has ``luci::input_nodes`` first; the node of a variable is not among them."""
    graph = circlekit.parse("""
    graph main(%x: f32[2]) -> %y {
      %s: f32[2] variable
      %y = Add(%s, %x) : f32[2]
    }
    """).main
    nodes = nodes_of(graph)
    positions = dict(zip(nodes, micro_positions(graph, nodes), strict=True))
    leaves = [node for node in nodes if not node.operands]
    assert [(str(node.value), positions[node]) for node in leaves] == [("%s: f32[2]", 2), ("%x: f32[2]", 0)]


def test_an_output_that_is_a_constant_has_memory_of_its_own() -> None:
    """ONE has a CircleConst, and a CircleOutput that reads it, as for any other output."""
    graph = circlekit.parse("""
    graph main(%x: f32[2]) -> %y, %c {
      %c = const f32[4] [1.0, 2.0, 3.0, 4.0]
      %y = Neg(%x) : f32[2]
    }
    """).main
    nodes, plan = execution_plan(graph)
    constant, output = (index for index, node in enumerate(nodes) if node.value is graph.outputs[1])
    lives = [life for life in plan.lifetimes if graph.outputs[1] in life.buffer.values]
    assert [(life.first, life.last) for life in lives] == [(0, output), (output, len(nodes))]
    words = struct.unpack("<21I", plan_table(nodes, plan, range(len(nodes))))
    offsets = dict(zip(words[1::4], words[4::4], strict=True))
    assert [offsets[constant], offsets[output]] == [
        offset for life, offset in zip(plan.lifetimes, plan.offsets, strict=True) if life in lives
    ]
    assert offsets[constant] != offsets[output]
    positions = micro_positions(graph, nodes)
    assert [positions[constant], positions[output]] == [2, 4]
    lives = list(execution_plan(graph, with_constants=False)[1].lifetimes)
    assert {life.first: life.size for life in lives if graph.outputs[1] in life.buffer.values} == {
        0: 0, output: 16,
    }  # fmt: skip
