# SPDX-License-Identifier: Apache-2.0
"""The buffers of a graph: which values share memory, and during which operators each buffer is needed.

The planner of a runtime places the buffers in the arena, the memory for all activations.  Which values share
a buffer does not depend on the order of the operators.  So a search for a better order computes the buffers
only once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.targets.cost import value_bytes
from circlekit.targets.planners import Planner

SMALLEST_SHARED_BYTES = 5
"""The least size of an operand that a result may overwrite; most scalars are smaller (4 bytes)."""


@dataclass(frozen=True)
class Buffer:
    """Memory that ``values`` share; without ``values``, scratch memory of the kernel of ``producer``.

    ``size``: the size in bytes, with unknown dimensions taken as 1.  ``producer``: the operator that writes
    the buffer first; None for a graph input.  ``users``: the operators that read or write one of ``values``.
    ``is_kept``: whether the buffer is needed until the end of the run, not only until its last user.
    """

    values: tuple[Value, ...]
    size: int
    producer: Op | None
    users: frozenset[Op]
    is_kept: bool

    @property
    def name(self) -> str:
        """The name in plans and reports: the values, as in ``%a = %b``, or ``scratch of CODE``."""
        if self.values:
            return " = ".join(f"%{value.name}" for value in self.values)
        return f"scratch of {self.producer.code}" if self.producer is not None else "scratch"


@dataclass(frozen=True)
class Lifetime:
    """When a buffer is needed: from the operator with index ``first`` to that with index ``last``, inclusive.

    For a buffer that is kept to the end, ``last`` is the number of operators.
    """

    buffer: Buffer
    first: int
    last: int

    @property
    def size(self) -> int:
        """The size of the buffer in bytes."""
        return self.buffer.size


def buffers_of(graph: Graph, planner: Planner) -> list[Buffer]:
    """Return the buffers that ``planner`` places for one run of ``graph``.

    First come the buffers of values, in the order in which the values are produced, then the scratch buffers
    in the order of the operators.  Constants, variables, values computed once for all runs, and values whose
    size is 0 or unknown before a run (unknown rank, strings) are in no buffer; nor are inputs and outputs if
    the caller holds their memory.  Graphs that operators call have plans of their own.
    """
    ops, unplaced = graph.ops, _unplaced(graph, planner)
    owners: dict[Value, Value] = {}  # for each value that shares a buffer, the first value in that buffer
    for op, shared in shared_operands(graph, planner).items():
        owners[op.results[0]] = owners.get(shared, shared)
    members: dict[Value, list[Value]] = {}  # by owner
    for value in (*graph.inputs, *(result for op in ops for result in op.results)):
        if value_bytes(value) and not value.is_variable and value not in unplaced:
            members.setdefault(owners.get(value, value), []).append(value)
    buffers = [_buffer(graph, values, planner) for values in members.values()]
    scratch = [Buffer((), size, op, frozenset(), False) for op in ops for size in planner.scratch(op) if size]
    return buffers + scratch


def shared_operands(graph: Graph, planner: Planner) -> dict[Op, Value]:
    """Return {operator: operand whose buffer its first result shares}, for operators that share a buffer."""
    uses, unplaced = _use_counts(graph, graph.ops), _unplaced(graph, planner)
    owners: dict[Value, Value] = {}
    found: dict[Op, Value] = {}
    for op in graph.ops:
        shared = _shared_operand(graph, op, planner, uses, owners, unplaced)
        if shared is not None:
            found[op] = shared
            owners[op.results[0]] = owners.get(shared, shared)
    return found


def _use_counts(graph: Graph, ops: Sequence[Op]) -> Counter[Value]:
    """Return how often each value is read, plus one for graph inputs, graph outputs and variables.

    The one stands for a reader outside of the graph: such a value must not be overwritten.
    """
    counts = Counter(value for op in ops for value in op.inputs if value is not None)
    counts.update((*graph.inputs, *graph.outputs))
    counts.update(value for value in list(counts) if value.is_variable)
    return counts


def _unplaced(graph: Graph, planner: Planner) -> set[Value]:
    """Return the values that the planner does not place.

    They are computed once for all runs, or the caller provides their memory.
    """
    interface = () if planner.holds_interface else (*graph.inputs, *graph.outputs)
    return planner.values_outside(graph.ops).union(interface)


def _shared_operand(
    graph: Graph,
    op: Op,
    planner: Planner,
    uses: Counter[Value],
    owners: dict[Value, Value],
    unplaced: Set[Value],
) -> Value | None:
    """Return the operand whose buffer the first result of ``op`` shares; None if it has a buffer of its own.

    The result of a view (``planner.views``) shares the buffer of the first operand.  Another operator may
    overwrite an operand (``planner.in_place``) under these conditions:

    - The operand has the size of the result, which is at least SMALLEST_SHARED_BYTES.
    - The use count (``_use_counts``) of the operand is 1, and that of the first value in its buffer 0 or 1.

    A graph output has a buffer of its own.  Constants, variables, graph inputs and values that are not placed
    share no buffer.
    ``uses``: the result of ``_use_counts``.  ``owners``: for each value that shares a buffer, the first value
    in that buffer.  ``unplaced``: the result of ``_unplaced``.
    """
    is_view = op.code in planner.views
    candidates = op.inputs[: 1 if is_view else planner.in_place.get(op.code, 0)]
    if not op.results or graph.is_output(op.results[0]) or op.results[0] in unplaced:
        return None
    for value in candidates:
        if value is None or value.is_const or value.is_variable or graph.is_input(value) or value in unplaced:
            continue
        if is_view:
            return value
        size = value_bytes(value)
        if size < SMALLEST_SHARED_BYTES or size != value_bytes(op.results[0]) or uses[value] > 1:
            continue
        return value if uses[owners.get(value, value)] <= 1 else None  # no further operand is tried
    return None


def _buffer(graph: Graph, values: list[Value], planner: Planner) -> Buffer:
    """Return the buffer that ``values`` share, with the size and the producer of the first value."""
    owner = values[0]
    users = {op for value in values for op in value.users}
    users.update(value.producer for value in values if value.producer is not None)
    is_kept = any(graph.is_output(value) for value in values)
    if planner.keeps_inputs and graph.is_input(owner):
        is_kept = True
    if planner.keeps_unused and not any(value.use_count for value in values):
        is_kept = True
    return Buffer(tuple(values), value_bytes(owner), owner.producer, frozenset(users), is_kept)


def lifetimes(ops: Sequence[Op], buffers: Sequence[Buffer]) -> list[Lifetime]:
    """Return when each buffer is needed if the operators run in the order of ``ops``."""
    position = {op: index for index, op in enumerate(ops)}
    result = []
    for buffer in buffers:
        first = 0 if buffer.producer is None else position[buffer.producer]
        last = max((position[op] for op in buffer.users if op in position), default=first)
        result.append(Lifetime(buffer, first, len(ops) if buffer.is_kept else last))
    return result
