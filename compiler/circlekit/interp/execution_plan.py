# SPDX-License-Identifier: Apache-2.0
"""Execution plan of a graph: its operators in order, and what is known about them before the first run."""

from __future__ import annotations

from circlekit.interp.fast import FastKernel, prepare
from circlekit.interp.result_size import ResultMemory
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import constant_elements


class ExecutionPlan:
    """Operators of a graph with their specialised kernels, lifetimes of values, and decoded constants.

    It is valid as long as ``graph.epoch`` is ``epoch``: changed operators make a new plan necessary, new
    contents of a constant do not.  ``largest_macs``: multiply-accumulates of the largest operator.
    """

    def __init__(self, graph: Graph) -> None:
        self.epoch = graph.epoch
        self.operators = [PlannedOp(op) for op in graph]
        self.largest_macs = max((op.macs() for op in graph if op.results), default=0)
        self._constants: dict[Value, Array] = {}
        self._find_last_uses(graph)

    def _find_last_uses(self, graph: Graph) -> None:
        """Let each operator release the values that no later operator reads, except graph outputs."""
        last: dict[Value, PlannedOp] = {}
        for planned in self.operators:
            for value in (*planned.op.inputs, *planned.op.results):
                if value is not None and value.data is None:
                    last[value] = planned
        outputs = set(graph.outputs)
        for value, planned in last.items():
            if value not in outputs:
                planned.released.append(value)

    def constant(self, value: Value) -> Array:
        """Return the elements of a constant as a read-only array, decoded at the first request."""
        array = self._constants.get(value)
        if array is None:
            array = self._constants[value] = constant_elements(value).view()
            array.flags.writeable = False
        return array


class PlannedOp:
    """One operator of a plan.

    ``absent``: declared operands that the operator omits at its end; ``fast_kernel``: replaces ``op.kernel``
    where there is one; ``memory``: check of the results' size; ``released``: values that no later operator
    reads.
    """

    __slots__ = ("absent", "fast_kernel", "memory", "op", "released")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.absent = absent_operands(op)
        self.fast_kernel: FastKernel | None = prepare(op)
        self.memory = ResultMemory(op)
        self.released: list[Value] = []


def absent_operands(op: Op) -> int:
    """Return how many trailing operands of its declaration ``op`` omits."""
    if any(operand.variadic for operand in op.operands):
        return 0
    return max(len(op.operands) - len(op.inputs), 0)
