# SPDX-License-Identifier: Apache-2.0
"""Verify that a model is valid: links between values, operators and graphs; types and data of values.

The functions ``..._faults`` yield what is wrong as sentences without the place, which their caller adds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from circlekit.errors import ModelError, counted, shown
from circlekit.ir.arity import arity_faults
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model, postorder
from circlekit.ir.location import kind_of
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import LARGEST_DIMENSION, Array, Quantization, Value, format_shape


class Finding(NamedTuple):
    """A fault of a model.  ``place``: for example ``graph main > op 12 Conv2D``."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def check(model: Model) -> None:
    """Raise ModelError with all faults of ``model``, if there are any."""
    findings = verify(model)
    if findings:
        raise ModelError(f"the model has {counted(len(findings), 'fault')}", *map(str, findings))


def verify(model: Model) -> list[Finding]:
    """Return all faults of ``model``: its list of graphs, each graph, recursive calls, signatures.

    The list is empty if the model is valid.  In a graph, the faults of values come before those of operators.
    A graph whose list of operators is broken is not examined further.
    """
    return list(_Verifier(model).findings())


def check_order(model: Model) -> None:
    """Raise ModelError if an operator uses a value that is produced by the same or a later operator.

    Passes walk from values to their producers; in a cycle of operators, such a walk would not end.
    """
    for graph in model.graphs:
        position = {id(op): index for index, op in enumerate(_walk(graph))}
        for index, op in enumerate(_walk(graph)):
            for value in op.inputs:
                if value is not None and (message := _early(value, position, index)):
                    raise ModelError(f"graph {shown(graph.name)} > op {index} {kind_of(op)}: {message}")


class _Verifier:
    """Collects the faults of a model.

    ``graphs``: the ids of the model's graphs.  ``home``: by id of a value, the first graph that has it; a
    value may be in one graph only.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graphs = {id(g) for g in model.graphs}
        self.home: dict[int, Graph] = {}

    def findings(self) -> Iterator[Finding]:
        if not self.model.graphs:
            yield Finding("model", "it has no graph")
        if len(self.graphs) != len(self.model.graphs):
            yield Finding("model", "a graph is listed twice")
        for graph in self.model.graphs:
            yield from self._graph(graph, f"graph {shown(graph.name)}")
        for graph, callee in recursive_calls(self.model):
            message = f"it calls graph {shown(callee.name)}, which calls it back, directly or through others"
            yield Finding(f"graph {shown(graph.name)}", message)
        yield from self._signatures()

    def _graph(self, graph: Graph, where: str) -> Iterator[Finding]:
        ops = list(_walk(graph))
        if len(ops) != len(graph) or any(a.next is not b or b.previous is not a for a, b in pairwise(ops)):
            yield Finding(where, "its list of operators is broken")
            return  # the other checks need an intact list
        yield from (Finding(where, message) for message in _interface_faults(graph))
        for value in graph.values():
            yield from (Finding(f"{where} > %{value.name}", message) for message in value_faults(value))
            home = self.home.setdefault(id(value), graph)
            if home is not graph:
                yield Finding(where, f"%{value.name} is a value of graph {shown(home.name)}")
        position = {id(op): index for index, op in enumerate(ops)}
        for index, op in enumerate(ops):
            faults = chain(_link_faults(op, graph, position), op_faults(op, self.graphs))
            yield from (Finding(f"{where} > op {index} {kind_of(op)}", message) for message in faults)
        for value in graph.outputs:
            if message := _undefined(value, graph, position, len(ops)):
                yield Finding(f"{where} > outputs", message)

    def _signatures(self) -> Iterator[Finding]:
        for signature in self.model.signatures:
            where = f"signature {signature.key}"
            graph = signature.graph
            if id(graph) not in self.graphs:
                yield Finding(where, f"its graph {shown(graph.name)} is not in the model")
            for key, value in signature.inputs.items():
                if not graph.is_input(value):
                    yield Finding(
                        f"{where} > {key}", f"%{value.name} is not an input of graph {shown(graph.name)}"
                    )
            for key, value in signature.outputs.items():
                if not graph.is_output(value):
                    yield Finding(
                        f"{where} > {key}", f"%{value.name} is not an output of graph {shown(graph.name)}"
                    )


def recursive_calls(model: Model) -> Iterator[tuple[Graph, Graph]]:
    """Yield (caller, callee) for at least one call of each cycle of graphs that call each other.

    In postorder a callee stands before its callers, except in a cycle.
    """
    calls = {
        id(g): list({id(c): c for op in _walk(g) for c in op.called_graphs()}.values()) for g in model.graphs
    }
    ordered = postorder(model.graphs, lambda graph: reversed(calls.get(id(graph), [])))
    position = {id(graph): index for index, graph in enumerate(ordered)}
    for index, graph in enumerate(ordered):
        for callee in calls.get(id(graph), ()):
            if position[id(callee)] >= index:
                yield graph, callee


def shared_names(graph: Graph) -> dict[Value, Value]:
    """Return {value: an earlier one of the same name} for the inputs and outputs of ``graph``.

    Values without a name are left out.
    """
    names: dict[str, Value] = {}
    interface = [value for value in (*graph.inputs, *graph.outputs) if value.name]
    pairs = [(value, names.setdefault(value.name, value)) for value in interface]
    return {value: first for value, first in pairs if first is not value}


def _interface_faults(graph: Graph) -> Iterator[str]:
    """Yield what is wrong with the inputs and outputs of a graph."""
    for side, values in (("input", graph.inputs), ("output", graph.outputs)):
        yield from (f"{side} {index} has no name" for index, value in enumerate(values) if not value.name)
    for value in shared_names(graph):
        yield f"two different inputs or outputs are named %{value.name}"
    for value, count in Counter(graph.inputs).items():
        if count > 1:
            yield f"%{value.name} is listed {count} times as input"
        if value.is_const:
            yield f"input %{value.name} is a constant"
        if value.producer is not None:
            yield f"input %{value.name} is the result of an operator"


def _link_faults(op: Op, graph: Graph, position: Mapping[int, int]) -> Iterator[str]:
    """Yield what is wrong with the links between an operator and its graph, operands and results.

    ``position``: the index of each operator of ``graph``, by ``id``.
    """
    if op.graph is not graph:
        yield "its graph is not set to this one"
    for number, value in enumerate(op.inputs):
        if value is not None and (op, number) not in value._uses:
            yield f"%{value.name} does not list this use"
        if value is not None and (message := _undefined(value, graph, position, position[id(op)])):
            yield message
    for number, value in enumerate(op.results):
        if value.producer is not op or value.result_index != number:
            yield f"result {number} %{value.name} names another producer or index"
        if value.is_const:
            yield f"its result %{value.name} is a constant"


def _undefined(value: Value, graph: Graph, position: Mapping[int, int], index: int) -> str | None:
    """Return why ``value`` is undefined when operator ``index`` runs; None if it is defined.

    ``position``: the index of each operator of ``graph``, by ``id``.
    """
    if value.producer is None:
        is_given = graph.is_input(value) or value.is_const or value.is_variable
        return None if is_given else f"nothing produces %{value.name}"
    if id(value.producer) not in position:
        return f"%{value.name} is the result of an operator that is not in this graph"
    return _early(value, position, index)


def _early(value: Value, position: Mapping[int, int], index: int) -> str | None:
    """Return why operator ``index`` runs too early to use ``value``; None if it does not."""
    producer = position.get(id(value.producer), -1)  # -1: no operator of this graph
    return f"%{value.name} is used before operator {producer} produces it" if producer >= index else None


def _walk(graph: Graph) -> Iterator[Op]:
    """Yield the operators in order, each once, even if the list is circular."""
    seen: set[int] = set()
    for op in graph:
        if id(op) in seen:
            return
        seen.add(id(op))
        yield op


# -- values ------------------------------------------------------------------------------------


def value_faults(value: Value) -> Iterator[str]:
    """Yield what is wrong with a value: its shape, its data, its quantization, its uses."""
    if any(d is not None and not 0 <= d <= LARGEST_DIMENSION for d in value.shape or ()):
        shape = format_shape(value.shape)
        yield f"its shape is {shape}, expected dimensions from 0 to {LARGEST_DIMENSION}"
    if value.data is not None:
        yield from _data_faults(value, value.data)
    if value.quantization is not None:
        yield from _quantization_faults(value, value.quantization)
    for op, index in value.uses:
        if index >= len(op.inputs) or op.inputs[index] is not value:
            yield f"it lists a use by {op!r}, which does not use it"
        elif op.graph is None:
            yield f"it is used by {op!r}, which is in no graph"


def _data_faults(value: Value, data: Array) -> Iterator[str]:
    """Yield what is wrong with ``data``, which is ``value.data``: an array of its type, or bytes."""
    if value.is_variable:
        yield "it is a variable and a constant"
    is_bytes = data.dtype == np.uint8 and data.ndim == 1
    # a compressed constant whose data are not bytes is checked like any other constant
    is_compressed = is_bytes and value.extra.get("compression_type", "NONE") != "NONE"
    if value.dtype.numpy is None or "sparsity" in value.extra or is_compressed:
        if not is_bytes:
            yield f"its data is {data.dtype}{list(data.shape)}, expected bytes (uint8, rank 1)"
        return
    if data.dtype != value.dtype.numpy:
        yield f"it is {value.dtype.short}, its data is {data.dtype}"
    if data.shape != value.shape:
        yield f"it has shape {format_shape(value.shape)}, its data has {list(data.shape)}"


def _quantization_faults(value: Value, quantization: Quantization) -> Iterator[str]:
    scale, zero_point = quantization.scale, quantization.zero_point
    for name, array, dtype in (("scale", scale, np.float32), ("zero_point", zero_point, np.int64)):
        if array.ndim != 1 or array.dtype != dtype:
            actual = f"{array.dtype}{list(array.shape)}"
            yield f"{name} of its quantization is {actual}, expected rank 1 of {dtype.__name__}"
    if zero_point.size not in (0, 1, scale.size):
        zero_points = counted(zero_point.size, "zero point")
        yield f"its quantization has {counted(scale.size, 'scale')} and {zero_points}"
    if (misfit := quantization.misfit(value.shape)) is not None:
        yield misfit


# -- operators ---------------------------------------------------------------------------------


def op_faults(op: Op, graphs: Set[int]) -> Iterator[str]:
    """Yield how an operator differs from its declaration, and which of its graphs are not in the model.

    An opaque operator is not compared with a declaration; only its graphs are examined.

    ``graphs``: the ids of the model's graphs.
    """
    if isinstance(op, OpaqueOp):
        for graph in op.called_graphs():
            if id(graph) not in graphs:
                yield f"its options name {graph.name}, which is not a graph of the model"
        return
    yield from operand_faults(op)
    for spec in op.attributes:
        value = op.attribute_values.get(spec.name, spec.default)
        if (fault := spec.misfit(value)) is not None:
            yield fault
        if spec.is_graph and id(value) not in graphs:
            name = value.name if isinstance(value, Graph) else value
            yield f"{spec.name} is {name}, which is not a graph of the model"


def operand_faults(op: Op) -> Iterator[str]:
    """Yield how the operands (their number and dtypes) and the number of results differ from the declaration.

    An integer or float of another width than the declared ones is not a fault: such a model may not run, but
    it can be loaded and saved.
    """
    for _, message in arity_faults(type(op), op.inputs, len(op.results)):
        yield message
    for index, value in enumerate(op.inputs):
        if value is None or (spec := op.operand_spec(index)) is None:
            continue
        if not any(_is_same_kind(value.dtype, d) for d in spec.dtypes or [value.dtype]):
            expected = " or ".join(d.short for d in spec.dtypes)
            yield f"{spec.name} %{value.name} is {value.dtype.short}, expected {expected}"


def _is_same_kind(a: DType, b: DType) -> bool:
    """Return whether two dtypes are equal, both integers, or both floats."""
    return a is b or (a.is_integer and b.is_integer) or (a.is_float and b.is_float)
