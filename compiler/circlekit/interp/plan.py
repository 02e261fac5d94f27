# SPDX-License-Identifier: Apache-2.0
"""A graph made ready to run: its values numbered, its constants decoded, the end of each value known."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from circlekit.errors import ModelError
from circlekit.interp.evaluate import compute
from circlekit.interp.room import Room
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, Run
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_storage import constant_elements
from circlekit.ops.program.state import State

Slots = list[Any]
"""The arrays of one run by the number of their value; None where there is none (yet, or any more)."""


class Plan:
    """``slots``: what a run starts with: inputs first, the constants; ``steps``: what it does.

    ``macs``: multiplications of the largest operator.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.epoch = graph.epoch
        self.numbers: dict[int, int] = {}
        self.values: list[Value | None] = []
        for value in graph.inputs:
            self.number(value)
        self.slots: Slots = []
        self.steps: list[Step] = []
        known = set(self.numbers.values())
        for op in graph:
            self.steps.append(Step(op, self, known))
            known.update(self.steps[-1].made)
        self.macs = max((op.macs() for op in graph if op.results), default=0)
        self.results = [self.number(v) for v in graph.outputs]
        self.slots = [None] * len(self.values)
        self._note_ends()

    def number(self, value: Value | None) -> int:
        """The number of ``value``; absent operands share one."""
        key = id(value)
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append(value)
        return self.numbers[key]

    def _note_ends(self) -> None:
        """Each value is dropped by the step that reads it last, or that makes it for nobody."""
        last: dict[int, Step] = {}
        for step in self.steps:
            for number in (*step.operands, *step.made):
                last[number] = step
        kept = set(self.results)
        for number, step in last.items():
            value = self.values[number]
            if number not in kept and value is not None and value.data is None:
                step.dropped.append(number)

    def read(self, number: int, slots: Slots, state: State) -> Array:
        """The array of a value that has none in ``slots`` yet."""
        value = self.values[number]
        assert value is not None  # absent operands are not read
        if value.data is not None:
            array = slots[number] = self.constant(number)
            return array
        if value.is_variable:
            return state.read(value)
        raise ModelError(f"%{value.name} is read before anything makes it")

    def most(self) -> int:
        """Bytes of the values that live at the same time, of known shapes, each in memory of its own."""
        sizes = [0 if v is None or v.data is not None else known_bytes(v) for v in self.values]
        living = most = sum(sizes[n] for n, _ in enumerate(self.graph.inputs))
        for step in self.steps:
            living += sum(sizes[n] for n in step.made)
            most = max(most, living)
            living -= sum(sizes[n] for n in step.dropped)
        return most

    def constant(self, number: int) -> Array:
        """The elements of a constant, decoded once for all runs."""
        value, array = self.values[number], self.slots[number]
        if array is None:
            assert value is not None  # it is a constant
            array = self.slots[number] = constant_elements(value).view()
            array.flags.writeable = False
        found: Array = array
        return found

    def outputs(self, slots: Slots, state: State) -> list[Array]:
        return [self.read(n, slots, state) if slots[n] is None else slots[n] for n in self.results]


def known_bytes(value: Value) -> int:
    """Bytes of a value, unknown dimensions taken as 1; 0 of one of unknown rank."""
    if value.shape is None or value.dtype.numpy is None:
        return 0
    return prod(1 if d is None else d for d in value.shape) * value.dtype.numpy.itemsize


class Step:
    """One operator: where its operands are, where its results go, and what nobody reads after it.

    ``late``: indices of the operands that have no array when a run starts, and none that an operator makes:
    constants that are not decoded yet, variables.
    """

    def __init__(self, op: Op, plan: Plan, known: set[int]) -> None:
        self.op = op
        self.plan = plan
        self.room = Room(op)
        self.operands = [plan.number(v) for v in op.inputs]
        self.late = [i for i, n in enumerate(self.operands) if op.inputs[i] is not None and n not in known]
        self.made = [plan.number(v) for v in op.results]
        self.dropped: list[int] = []
        variadic = any(o.variadic for o in op.operands)
        self.missing = [None] * (0 if variadic else max(len(op.operands) - len(op.inputs), 0))

    def compute(self, slots: Slots, runner: Run) -> Sequence[Array]:
        """Run the operator, keep its results in ``slots``, and drop what ends here."""
        arguments = [slots[n] for n in self.operands]
        for index in self.late:
            if arguments[index] is None:
                arguments[index] = self.plan.read(self.operands[index], slots, runner.state)  # type: ignore[attr-defined]  # the interpreter's
        self.room.check(arguments, runner.held)  # type: ignore[attr-defined]
        results = compute(self.op, arguments + self.missing, runner)
        held = 0
        for number, array in zip(self.made, results, strict=True):
            slots[number] = array
            if array.base is None:  # a view holds no memory of its own
                held += array.nbytes
        for number in self.dropped:
            array = slots[number]
            if array is not None and array.base is None:
                held -= array.nbytes
            slots[number] = None
        runner.held += held  # type: ignore[attr-defined]
        return results
