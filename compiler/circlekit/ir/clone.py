# SPDX-License-Identifier: Apache-2.0
"""Copy models, graphs and operators.  Copies share the arrays of constants, which must not be changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from circlekit.ir.graph import Graph, Model, Signature, called_graphs
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value


def clone(model: Model) -> Model:
    """Return a copy of ``model`` that can be changed without changing ``model``.

    An operator that is in no graph is not copied, even if it uses a value of ``model``.
    """
    return _Cloner().model(model)


def inline(source: Graph, anchor: Op, arguments: Sequence[Value]) -> list[Value]:
    """Insert copies of the operators of ``source`` before ``anchor``, an operator of another graph.

    ``arguments``: for each input of ``source``, the value that takes its place.  Return for each output of
    ``source`` its copy, or the argument if the output is an input.  A copied value keeps its name, unless a
    value of the graph of ``anchor`` has it; the arguments keep their names.
    """
    graph = anchor.graph
    assert graph is not None
    cloner = _Cloner()
    cloner.values = {id(v): argument for v, argument in zip(source.inputs, arguments, strict=True)}
    input_ids = set(cloner.values)
    copies = [cloner.op(op) for op in source]
    outputs = [cloner.value(v) for v in source.outputs]
    # name the copies before they enter the graph: afterwards their own names would count as taken
    for key, value in cloner.values.items():
        value.name = value.name if key in input_ids else graph.unique_name(value.name)
    for copied in copies:
        # not ``edges``, which replaces all uses of a value: the arguments have other users
        for index, operand in enumerate(copied.inputs):
            if operand is not None:
                operand._uses[copied, index] = None
        for value in copied.results:
            value.producer = copied
        graph.insert_before(anchor, copied)
    return outputs


def copy_op(op: Op, operands: Sequence[Value | None] = (), results: Sequence[Value] = ()) -> Op:
    """Return a copy of ``op``, in no graph.

    ``operands``: by default, the copy uses the operands of ``op``.  ``results``: by default, the results of
    the copy are nameless copies of the results of ``op``.
    """
    operands = operands or op.inputs
    cloner = _Cloner()
    cloner.values = {id(v): new for v, new in zip(op.inputs, operands, strict=True) if v and new}
    cloner.values.update((id(v), new) for v, new in zip(op.results, results, strict=bool(results)))
    copied = cloner.op(op)
    copied.inputs = list(operands)
    for index, value in enumerate(copied.inputs):
        if value is not None:
            value._uses[copied, index] = None
    for index, value in enumerate(copied.results):
        value.producer, value.result_index = copied, index
        if not results:
            value.name = ""
    return copied


def copy_submodel(
    model: Model, ops: Sequence[Op], inputs: Sequence[Value], outputs: Sequence[Value]
) -> Model:
    """Return a model with copies of ``ops`` in its main graph, and with copies of the graphs that they call.

    ``ops``: operators of one graph in a valid order.  ``inputs``, ``outputs``: values of that graph, which
    become the inputs and outputs of the new model.  Every operand of ``ops`` must be an input, a result of
    ``ops``, a constant or a variable.  If an input is a result of one of ``ops``, the copied operator gets a
    new result without users in its place.  Signatures and metadata are not copied, because they describe the
    whole model.
    """
    cloner = _Cloner()
    main = Graph(model.main.name)
    callees = called_graphs(ops)
    cloner.graphs = {id(graph): Graph(graph.name) for graph in callees}
    cloner.fill(callees)
    main.inputs = cloner.copies(inputs)
    cloner.append(ops, main)
    main.outputs = cloner.copies(outputs)
    values = [v for op in ops for v in (*op.inputs, *op.results) if v is not None]
    cloner.edges(dict.fromkeys([*values, *inputs, *outputs]))
    for value in main.inputs:
        if value.producer is not None:
            stub = Value.of_type(value, main.unique_name(value.name))
            value.producer.take_result(value.result_index, stub)
    new = copy(model)
    new.graphs = [main, *(cloner.graphs[id(g)] for g in callees)]
    new.signatures, new.metadata, new.extra, new.source = [], [], {}, None
    return new


class _Cloner:
    """Copies each object once.  ``values``, ``ops``, ``graphs``: the copies, by ``id`` of the original.

    A caller may enter other values into ``values`` first: they are then used instead of copies.
    """

    def __init__(self) -> None:
        self.values: dict[int, Value] = {}
        self.ops: dict[int, Op] = {}
        self.graphs: dict[int, Graph] = {}

    def model(self, model: Model) -> Model:
        for graph in model.graphs:
            self.graphs[id(graph)] = Graph(graph.name)
        self.fill(model.graphs)
        new = copy(model)
        new.graphs = [self.graphs[id(g)] for g in model.graphs]
        new.signatures = [Signature(**self._tree(vars(s))) for s in model.signatures]
        new.metadata = list(model.metadata)
        new.extra = self._tree(model.extra)
        return new

    def value(self, value: Value) -> Value:
        """Return the copy of ``value``, made in the first call; ``edges`` sets producer and uses later."""
        new = self.values.get(id(value))
        if new is None:
            new = Value(value.name, value.dtype, value.shape, value.data, value.quantization)
            new.is_variable = value.is_variable
            new.result_index = value.result_index
            self.values[id(value)] = new
            if value.extra:
                new.extra = self._tree(value.extra)
            if value.quantization is not None and value.scale_values:  # scales of blocks are values
                details = self._tree(value.quantization.details)
                new.quantization = replace(value.quantization, details=details)
        return new

    def copies(self, values: Iterable[Value]) -> list[Value]:
        return [self.value(v) for v in values]

    def fill(self, graphs: Sequence[Graph]) -> None:
        """Copy the contents of ``graphs`` into their copies, which are empty graphs in ``self.graphs``."""
        for graph in graphs:
            new = self.graphs[id(graph)]
            new.table = self.copies(graph.table)
            new.inputs = self.copies(graph.inputs)
            self.append(graph, new)
            new.outputs = self.copies(graph.outputs)
            new.epoch = graph.epoch  # equal epochs tell a caller that the copy was not changed since
        for graph in graphs:
            self.edges(graph.values())
            self.graphs[id(graph)].extra = self._tree(graph.extra)

    def append(self, ops: Iterable[Op], new: Graph) -> None:
        """Append copies of ``ops`` to ``new``."""
        for op in ops:
            new_op = new.append(self.op(op))
            for old, value in zip(op.results, new_op.results, strict=True):
                value.name = old.name  # ``Graph.append`` gives names to results without one

    def op(self, op: Op) -> Op:
        """Return a copy of ``op`` in no graph; ``edges`` sets the producers and uses of its values later."""
        new: Op = object.__new__(type(op))
        new.graph = new.previous = new.next = None
        new.version, new.extra = op.version, self._tree(op.extra)
        new.attribute_values = self._tree(op.attribute_values)
        if isinstance(op, OpaqueOp):
            assert isinstance(new, OpaqueOp)  # it has the class of ``op``
            new.code, new.custom_code = op.code, op.custom_code  # type: ignore[misc]  # as in OpaqueOp
            new.option_tree = self._tree(op.option_tree)
        new.inputs = [None if v is None else self.value(v) for v in op.inputs]
        new.results = self.copies(op.results)
        self.ops[id(op)] = new
        return new

    def edges(self, values: Iterable[Value]) -> None:
        """Set the producer and the uses of the copies of ``values``; skip operators that have no copy.

        A user in no graph, for example, has no copy.
        """
        for value in values:
            new = self.values[id(value)]
            if value.producer is not None:
                new.producer = self.ops.get(id(value.producer))
            ops = self.ops
            new._uses = {(ops[id(op)], i): None for op, i in value._uses if id(op) in ops}

    def _tree(self, data: Any) -> Any:
        """Return a copy of nested dicts, lists and tuples, in which copies replace the values and graphs.

        Everything else in them, such as arrays, is shared.
        """
        if type(data) is dict:
            return {key: self._tree(x) for key, x in data.items()}
        if type(data) is list:
            return [self._tree(x) for x in data]
        if type(data) is tuple:
            return tuple(self._tree(x) for x in data)
        if isinstance(data, Value):
            return self.value(data)
        return self.graphs.get(id(data), data) if isinstance(data, Graph) else data
