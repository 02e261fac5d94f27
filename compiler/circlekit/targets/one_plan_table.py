# SPDX-License-Identifier: Apache-2.0
"""ONE's execution plan of a circle model: metadata that give the order of nodes and their offsets in memory.

ONE's compiler has a node for each graph input, variable, constant, operator, absent operand and graph output.
An operator with several results has one more node for each result.  Nodes are in the order of a postorder
walk from the outputs; memory is planned by ``PLANNERS["luci"]``.  Source: ``ExecutionPlanner.cpp`` and
``CircleExportMetadata.cpp`` of ONE.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from circlekit.errors import UnsupportedError
from circlekit.ir.graph import Graph, postorder
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.targets.cost import value_bytes
from circlekit.targets.lifetimes import Buffer, Lifetime
from circlekit.targets.memory_plan import MemoryPlan, place_buffers
from circlekit.targets.planners import PLANNERS

METADATA = "ONE_execution_plan_table"
"""The name of the metadata.

Its content is a list of little-endian uint32 numbers.  First comes the number of rows, then a row for
each node that has a position.  A row has these numbers:

- the index of the node,
- how many numbers follow in the row (2 or 3),
- the position of the node in the order of the runtime,
- the offset of the value in bytes,
- the offset of the scratch buffer in bytes, if there is one.
"""


MAX_UINT32 = 2**32 - 1


@dataclass(eq=False)
class Node:
    """A node of ONE's compiler.

    ``value``: the value that needs memory; None for an absent operand, and for an operator with several
    results, which have nodes of their own.
    ``op``: the operator, or None.  ``operands``: the nodes that this node reads.  ``is_output``: whether this
    is the node of a graph output.
    """

    value: Value | None
    op: Op | None = None
    operands: list[Node] = field(default_factory=list)
    is_output: bool = False

    @property
    def is_const(self) -> bool:
        """Whether this is the node of a constant, and not of a graph output that has its value."""
        return self.op is None and not self.is_output and self.value is not None and self.value.is_const

    @property
    def is_input(self) -> bool:
        """Whether this is the node of a graph input, or of a variable."""
        return self.op is None and not (
            self.is_const or self.is_output or self.operands or self.value is None
        )


def nodes_of(graph: Graph) -> list[Node]:
    """Return the nodes of ``graph`` on which an output depends, in ONE's order."""
    node_of = {value: Node(value) for value in graph.inputs}  # the node that gives each value
    for op in graph:
        operands = [Node(None) if v is None else node_of.setdefault(v, Node(v)) for v in op.inputs]
        node = Node(op.results[0] if len(op.results) == 1 else None, op, operands)
        for result in op.results:
            node_of[result] = node if len(op.results) == 1 else Node(result, None, [node])
    outputs = [Node(v, None, [node_of.setdefault(v, Node(v))], is_output=True) for v in graph.outputs]
    return postorder(outputs, lambda node: node.operands[::-1])


def execution_plan(
    graph: Graph, with_constants: bool = True, with_inputs: bool = True, with_scratch: bool = True
) -> tuple[list[Node], MemoryPlan]:
    """Return the nodes in ONE's order, and the plan of their memory.

    ``with_constants``, ``with_inputs``, ``with_scratch``: whether memory is planned for constants, graph
    inputs and scratch buffers.  Constants and inputs for which none is planned have size 0 in the plan.
    Variables always have memory, because no caller provides it.

    ``with_inputs=False`` stands for ONE's option ``null_inputs``, but differs from it: ONE plans no memory
    for the first node of its order, even if that is no graph input, and plans memory for all other nodes.
    """
    outside = set() if with_inputs else set(graph.inputs)  # the values whose memory the caller provides
    nodes = nodes_of(graph)
    place_of = {node: index for index, node in enumerate(nodes)}
    last = {operand: place_of[node] for node in nodes for operand in node.operands}  # the last reader's index
    planner = PLANNERS["luci"]
    alive = []
    for index, node in enumerate(nodes):
        left_out = (node.is_const and not with_constants) or (node.is_input and node.value in outside)
        size = 0 if node.value is None or left_out else value_bytes(node.value)
        end = len(nodes) if node.is_input else last.get(node, len(nodes))
        begin = 0 if node.is_input or node.is_const else index
        alive.append(_lifetime(node.value, size, begin, end))
        if node.op is not None and with_scratch:
            begin = max(index - 1, 0)  # as in ONE, from the node before ``node`` to the node after it
            alive += [_lifetime(None, n, begin, index + 1, node.op) for n in planner.scratch(node.op)]
    return nodes, place_buffers(alive, planner, len(nodes))


def _lifetime(value: Value | None, size: int, first: int, last: int, op: Op | None = None) -> Lifetime:
    """Return the lifetime of a new buffer for ``value``, or for the scratch memory of ``op``."""
    values = () if value is None else (value,)
    return Lifetime(Buffer(values, size, op, frozenset(), False), first, last)


def micro_positions(graph: Graph, nodes: list[Node]) -> list[int | None]:
    """Return the position of each node in the order of ONE's runtime onert-micro; None if it has no row.

    Graph inputs come first, then the nodes that compute graph outputs, then all other nodes, such as
    variables and the nodes for which ``Node.is_output`` is true.  Absent operands, and constants that are no
    graph outputs, have no row in the table.

    Source: ``make_execution_plan_onert_micro_common_buffer``.
    """
    inputs = list(graph.inputs)
    outputs = [node.operands[0] for node in nodes if node.is_output]
    # reversed: if a node gives two outputs, the dict keeps the first position
    by_output = {id(node): number for number, node in reversed(list(enumerate(outputs, len(inputs))))}
    others = count(len(inputs) + len(outputs))
    positions: list[int | None] = []
    for node in nodes:
        is_absent = node.value is None and node.op is None
        if node.is_input and node.value in inputs:
            positions.append(inputs.index(node.value))
        elif id(node) in by_output:
            positions.append(by_output[id(node)])
        else:
            positions.append(None if node.is_const or is_absent else next(others))
    return positions


def plan_table(nodes: list[Node], plan: MemoryPlan, positions: Sequence[int | None]) -> bytes:
    """Return the content of the metadata METADATA.

    ``nodes``, ``plan``: the results of ``execution_plan``.  ``positions``: the position of each node in the
    order of the runtime; a node with None has no row.  Raise UnsupportedError for an offset of 4 GiB or more.
    """
    largest = max(plan.offsets, default=0)
    if largest > MAX_UINT32:
        raise UnsupportedError(f"execution plan: expected offsets below 4 GiB, got {largest:,}")
    placed = list(zip(plan.lifetimes, plan.offsets, strict=True))
    # a graph output has the value of another node: the begin of the lifetime tells the two buffers apart
    own = {(life.buffer.values[0], life.first): offset for life, offset in placed if life.buffer.values}
    scratch = {life.buffer.producer: offset for life, offset in placed if life.buffer.producer is not None}
    rows = []
    for index, node in enumerate(nodes):
        begin = 0 if node.is_input or node.is_const else index
        position = positions[index]
        if position is None:
            continue
        words = [position, 0 if node.value is None else own[node.value, begin]]
        if node.op in scratch:
            words.append(scratch[node.op])
        rows.append(struct.pack(f"<{len(words) + 2}I", index, len(words), *words))
    return struct.pack("<I", len(rows)) + b"".join(rows)


def allocations(plan: MemoryPlan) -> dict[str, Any]:
    """Return the buffers of ``plan`` above size 0 as a JSON object.

    It has the layout of the file that ONE's circle-execution-plan writes for ``--save_allocations``.
    """

    def rows() -> Iterator[dict[str, Any]]:
        for life, offset in zip(plan.lifetimes, plan.offsets, strict=True):
            if life.size:
                yield {
                    "origin": life.buffer.name,
                    "size": life.size,
                    "offset": offset,
                    "alive_from": life.first,
                    "alive_till": life.last,
                }

    return {"schema_version": 1, "segments": [{"name": "Segment1", "allocations": list(rows())}]}
