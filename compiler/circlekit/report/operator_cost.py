# SPDX-License-Identifier: Apache-2.0
"""Cost of operators, and the activation memory that is in use while each of them runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value


@dataclass(frozen=True)
class OperatorCost:
    """What one run of an operator costs; sizes in bytes.

    ``activation_bytes``: operands that are computed while the model runs; ``constant_bytes``: the others.
    """

    macs: int
    activation_bytes: int
    constant_bytes: int
    written_bytes: int

    @property
    def moved_bytes(self) -> int:
        """All bytes that the operator reads or writes."""
        return self.activation_bytes + self.constant_bytes + self.written_bytes


def value_bytes(value: Value) -> int:
    """Return the size of a value; unknown dimensions count as 1, as in ``Op.macs``."""
    if value.data is not None:
        return value.data.nbytes
    if value.shape is None:
        return 0
    elements = prod(1 if dim is None else dim for dim in value.shape)
    return -(-elements * value.dtype.bits // 8)


def operator_cost(op: Op) -> OperatorCost:
    """Return the cost of one run; an operand that is read twice counts once."""
    operands = list(dict.fromkeys(value for value in op.inputs if value is not None))
    return OperatorCost(
        op.macs() if op.results else 0,
        sum(value_bytes(value) for value in operands if not value.is_const),
        sum(value_bytes(value) for value in operands if value.is_const),
        sum(map(value_bytes, op.results)),
    )


@dataclass(frozen=True)
class Lifetime:
    """A value in memory from operator number ``first`` to operator number ``last``, both included."""

    value: Value
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Arena:
    """Bytes of all live activations while each operator of a graph runs.

    A plain sum of sizes: a runtime's arena is at least as large, because it also has gaps, alignment and
    scratch buffers.  ``live_bytes``: by operator.  ``peak``: the first operator with the largest sum; -1 if
    the graph is empty.  ``held``: what is live then, largest first.
    """

    live_bytes: list[int]
    peak: int
    held: list[Lifetime]

    @property
    def peak_bytes(self) -> int:
        return self.live_bytes[self.peak] if self.live_bytes else 0


def activation_arena(graph: Graph) -> Arena:
    """Return the activation memory of ``graph``; graphs that its operators call are not counted.

    Graph inputs are live from the start to their last use, results from their producer to their last use,
    graph outputs to the end.  Constants and variables are not in the arena.
    """
    ops = graph.ops
    if not ops:
        return Arena([], -1, [])
    first = dict.fromkeys(graph.inputs, 0)
    last = dict.fromkeys(graph.inputs, 0)
    for index, op in enumerate(ops):
        for value in (*op.inputs, *op.results):
            if value is not None and not value.is_const and not value.is_variable:
                first.setdefault(value, index)
                last[value] = index
    last.update((value, len(ops) - 1) for value in graph.outputs if value in last)
    lifetimes = [Lifetime(v, value_bytes(v), first[v], last[v]) for v in first if not v.is_variable]
    changes = [0] * (len(ops) + 1)
    for life in lifetimes:
        changes[life.first] += life.size
        changes[life.last + 1] -= life.size
    live_bytes, total = [], 0
    for change in changes[:-1]:
        total += change
        live_bytes.append(total)
    peak = live_bytes.index(max(live_bytes))
    held = [life for life in lifetimes if life.first <= peak <= life.last]
    return Arena(live_bytes, peak, sorted(held, key=lambda life: -life.size))
