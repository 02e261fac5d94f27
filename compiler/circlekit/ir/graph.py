# SPDX-License-Identifier: Apache-2.0
"""Graph and Model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from circlekit.errors import ModelError
from circlekit.ir.op import Body, Op
from circlekit.ir.value import Value


class Graph(Body):
    """Inputs, outputs, and operators in a valid order.

    Operators are linked to each other, so that inserting and removing one costs the same in a graph of
    any size.  ``epoch`` grows with every change.  ``table`` holds the values as the file listed them,
    those that nothing reads included.
    """

    def __init__(self, name: str, inputs: Sequence[Value] = (), outputs: Sequence[Value] = ()) -> None:
        self.name = name
        self.epoch = 0
        self.table: list[Value] = []
        self.extra: dict[str, Any] = {}
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._input_ids = {id(v) for v in inputs}
        self._output_ids = {id(v) for v in outputs}
        self._first: Op | None = None
        self._last: Op | None = None
        self._count = 0
        self._listed: tuple[Op, ...] | None = None
        self._kinds: frozenset[type[Op]] | None = None
        self._names: dict[str, int] | None = None

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self._inputs

    @inputs.setter
    def inputs(self, values: Sequence[Value]) -> None:
        self._inputs = tuple(values)
        self._input_ids = {id(v) for v in values}
        self.epoch += 1

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self._outputs

    @outputs.setter
    def outputs(self, values: Sequence[Value]) -> None:
        self._outputs = tuple(values)
        self._output_ids = {id(v) for v in values}
        self.epoch += 1

    def is_input(self, value: Value) -> bool:
        return id(value) in self._input_ids

    def is_output(self, value: Value) -> bool:
        return id(value) in self._output_ids

    @property
    def ops(self) -> tuple[Op, ...]:
        """The operators in order: a snapshot, safe to walk while the graph changes."""
        if self._listed is None:
            self._listed = tuple(self)
        return self._listed

    @property
    def kinds(self) -> frozenset[type[Op]]:
        """The classes of the operators."""
        if self._kinds is None:
            self._kinds = frozenset(map(type, self.ops))
        return self._kinds

    def __iter__(self) -> Iterator[Op]:
        op = self._first
        while op is not None:
            yield op
            op = op.next

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {self._count} operators>"

    # -- changes -------------------------------------------------------------------------------

    def append(self, op: Op) -> Op:
        """Put ``op`` at the end; its nameless results get names."""
        return self._link(op, self._last, None)

    def insert_before(self, anchor: Op, op: Op) -> Op:
        """Put ``op`` before ``anchor``; its nameless results get names."""
        return self._link(op, anchor.previous, anchor)

    def insert_after(self, anchor: Op | None, op: Op) -> Op:
        """Put ``op`` after ``anchor``, or first where that is None; its nameless results get names."""
        return self._link(op, anchor, self._first if anchor is None else anchor.next)

    def _link(self, op: Op, before: Op | None, after: Op | None) -> Op:
        if op.graph is not None:
            raise ModelError(f"{op!r} is in a graph already")
        op.graph, op.previous, op.next = self, before, after
        if before is None:
            self._first = op
        else:
            before.next = op
        if after is None:
            self._last = op
        else:
            after.previous = op
        self._count += 1
        self._listed = self._kinds = None
        self.epoch += 1
        for value in op.results:
            if not value.name:
                value.name = self.unique_name(type(op).__name__)
        return op

    def remove(self, op: Op) -> None:
        """Take out an operator whose results nobody reads; it stops reading its operands."""
        for value in op.results:
            if value.use_count or self.is_output(value):
                raise ModelError(f"%{value.name} is still used, its operator {op.code} cannot go")
        self.unlink(op)
        op.drop_inputs()

    def unlink(self, op: Op) -> None:
        """Take ``op`` out of the order, edges untouched (to put it back elsewhere)."""
        if op.previous is None:
            self._first = op.next
        else:
            op.previous.next = op.next
        if op.next is None:
            self._last = op.previous
        else:
            op.next.previous = op.previous
        op.graph = op.previous = op.next = None
        self._count -= 1
        self._listed = self._kinds = None
        self.epoch += 1

    def replace_uses(self, old: Value, new: Value) -> None:
        """Every operator that reads ``old`` reads ``new``; the graph's outputs stay as they are."""
        for op, index in old.uses:
            op.set_input(index, new)

    def can_stand_for(self, old: Value, new: Value) -> bool:
        """Whether ``replace`` can put ``new`` in the place of ``old`` and keep the graph's interface."""
        if not self.is_output(old):
            return True
        return (
            new.producer is not None
            and not self.is_output(new)
            and not self.is_input(new)
            and not new.is_variable
        )

    def replace(self, old: Value, new: Value) -> None:
        """``new`` takes the place of ``old`` everywhere.

        Where ``old`` is an output of the graph it stays the output, name and all: the operator that made
        ``new`` makes ``old`` instead.  ModelError where that cannot be (``can_stand_for`` tells before).
        """
        if not self.is_output(old):
            self.replace_uses(old, new)
            return
        if not self.can_stand_for(old, new) or new.producer is None:
            raise ModelError(f"%{new.name} cannot take the place of output %{old.name}")
        new.producer.take_result(new.result_index, old)
        self.replace_uses(new, old)

    # -- names ---------------------------------------------------------------------------------

    def unique_name(self, base: str) -> str:
        """``base``, or ``base_1``, ``base_2``... : the first that no value of this graph has had."""
        if self._names is None:
            self._names = {v.name: 0 for v in self.values()}
        if base not in self._names:
            self._names[base] = 0
            return base
        name = base
        while name in self._names:  # counted on from the last time, or many of one base would take long
            self._names[base] += 1
            name = f"{base}_{self._names[base]}"
        self._names[name] = 0
        return name

    def values(self) -> Iterator[Value]:
        """Every value once: as the file listed them, then inputs, operands and results in order."""
        seen: set[int] = set()
        for value in self._all_values():
            if id(value) not in seen:
                seen.add(id(value))
                yield value

    def _all_values(self) -> Iterator[Value]:
        yield from self.table
        yield from self._inputs
        for op in self:
            yield from (v for v in op.inputs if v is not None)
            yield from op.results
        yield from self._outputs


@dataclass
class Signature:
    """A named way to call a graph: the caller's names for its inputs and outputs."""

    key: str
    graph: Graph
    inputs: dict[str, Value]
    outputs: dict[str, Value]


@dataclass(eq=False, repr=False)
class Model:
    """Graphs (the first is the main one), signatures, metadata.

    ``format``: "circle" or "tflite": what it came from and, unless told otherwise, will be written as.
    ``source``: the path it came from, for messages; constants may be views of that file's memory map.
    ``extra``: fields of the schema's Model that the IR does not interpret.
    """

    graphs: list[Graph]
    format: str = "circle"
    signatures: list[Signature] = field(default_factory=list)
    metadata: list[tuple[str, bytes]] = field(default_factory=list)
    description: str | None = None
    version: int = 3
    source: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> Graph:
        return self.graphs[0]

    def ops(self) -> Iterator[Op]:
        """Every operator of every graph."""
        for graph in self.graphs:
            yield from graph

    def __repr__(self) -> str:
        source = f" {self.source}" if self.source is not None else ""
        return f"<Model{source} ({self.format}): {', '.join(map(repr, self.graphs)) or 'no graph'}>"
