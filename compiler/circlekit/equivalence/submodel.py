# SPDX-License-Identifier: Apache-2.0
"""Smaller models made of one: some of its operators, other sizes, simpler constants.

Each function returns a new model, and leaves the given one alone.  A result may be unsound, or refuse its
operands: whoever reduces a model looks at it before use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.clone import clone, inline
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import callees_first
from circlekit.ir.value import Array, Quantization, Value


def bare(model: Model) -> Model:
    """Without signatures, metadata, and what the file listed and no operator reads."""
    copy = clone(model)
    copy.signatures, copy.metadata, copy.description = [], [], None
    for graph in copy.graphs:
        graph.table = []
        graph.extra.pop("unused", None)
    return _without_unused_graphs(copy)


def with_main(model: Model, graph: int) -> Model:
    """Graph number ``graph`` as the main one, with those that it runs."""
    copy = clone(model)
    copy.graphs.insert(0, copy.graphs.pop(graph))
    copy.signatures = []
    return _without_unused_graphs(copy)


def inlined(model: Model, graph: int, op: int, callee: int) -> Model:
    """Operator ``op`` of a graph replaced by the operators of graph number ``callee`` of those it runs.

    The last operands are what that graph gets.
    """
    copy = clone(model)
    home = copy.graphs[graph]
    caller = home.ops[op]
    source = caller.called_graphs()[callee]
    arguments = [v for v in caller.inputs if v is not None]
    made = inline(source, caller, arguments[len(arguments) - len(source.inputs) :])
    for old, new in zip(tuple(caller.results), made, strict=False):
        home.replace(old, new)
    home.remove(caller)
    return _without_unused_graphs(copy)


def without_op(model: Model, graph: int, op: int) -> Model:
    """Without operator ``op`` of a graph: an operand, an input or zeros of the same type take its place."""
    copy = clone(model)
    home = copy.graphs[graph]
    gone = home.ops[op]
    for value in tuple(gone.results):
        candidates = [v for v in (*gone.inputs, *home.inputs) if v is not None and not v.is_variable]
        alike = (v for v in candidates if v.dtype is value.dtype and v.shape == value.shape)
        twin = next((v for v in alike if home.can_stand_for(value, v)), None)
        if twin is None and value.dtype.numpy is not None and not home.is_output(value):
            zeros = np.zeros(value.static_shape, value.dtype.numpy)
            twin = Value.constant(home.unique_name(value.name), zeros, value.quantization)
        if twin is not None:
            home.replace(value, twin)
    home.remove(gone)
    return _without_unused_graphs(copy)


def with_ops(model: Model, keep: Sequence[int]) -> Model:
    """The operators of the main graph with these numbers, and no others.

    What they read of the others becomes an input; what nobody reads then is an output, as is each of
    their results that was one.
    """
    copy = clone(model)
    graph = copy.main
    was_output = {id(v) for v in graph.outputs}
    graph.outputs = ()
    kept = set(keep)
    gone = [op for index, op in enumerate(graph.ops) if index not in kept]
    for op in gone:
        op.drop_inputs()
    made: list[Value] = []
    for op in gone:
        graph.unlink(op)
        for value in op.results:
            value.producer = None
            made.append(value)
    graph.inputs = [v for v in (*graph.inputs, *made) if v.use_count and not v.is_variable]
    results = [v for op in graph for v in op.results]
    graph.outputs = [v for v in results if id(v) in was_output or not v.use_count]
    return _without_unused_graphs(copy)


def with_outputs(model: Model, keep: Sequence[int]) -> Model:
    """Only the outputs of the main graph with these numbers; operators may be left without readers."""
    copy = clone(model)
    copy.main.outputs = [v for index, v in enumerate(copy.main.outputs) if index in keep]
    return copy


def with_default(model: Model, graph: int, op: int, attribute: str) -> Model:
    """Attribute ``attribute`` of operator number ``op`` of a graph as its declaration has it."""
    copy = clone(model)
    changed = copy.graphs[graph].ops[op]
    changed.attribute_values.pop(attribute, None)
    changed.touch()
    _infer_anew(copy)
    return copy


def with_constant(model: Model, graph: int, name: str, array: Array) -> Model:
    """Constants of a graph called ``name`` with other elements, of the same dtype and shape."""
    copy = clone(model)
    for value in constants(copy.graphs[graph]):
        if value.name == name:
            value.data = array
    return copy


def with_size(model: Model, old: int, new: int, numbers: bool) -> Model:
    """Every dimension of ``old`` in inputs and constants becomes ``new``, which is smaller.

    ``numbers``: as well the numbers ``old`` in vectors of integers (shapes, sizes) and in attributes.
    """
    copy = clone(model)
    for graph in copy.graphs:
        for value in graph.inputs:
            if value.shape is not None:
                value.shape = tuple(new if d == old else d for d in value.shape)
                value.quantization = _cut_scales(value.quantization, old, new)
        for value in constants(graph):
            _cut_constant(value, old, new, numbers)
        if numbers:
            _cut_attributes(graph, old, new)
    _infer_anew(copy)
    return copy


def _cut_attributes(graph: Graph, old: int, new: int) -> None:
    for op in graph:
        for key, content in op.attribute_values.items():
            if isinstance(content, list | tuple) and old in content:
                op.attribute_values[key] = [new if x == old else x for x in content]


def constants(graph: Graph) -> list[Value]:
    """The constants that operators read and whose elements are at hand, each once."""
    found = {id(v): v for op in graph for v in op.inputs if v is not None and v.is_plain}
    return list(found.values())


def sizes(model: Model) -> list[int]:
    """Every dimension above 1 of inputs and constants, the largest first."""
    shapes = [v.shape or () for graph in model.graphs for v in (*graph.inputs, *constants(graph))]
    return sorted({d for shape in shapes for d in shape if d is not None and d > 1}, reverse=True)


def _cut_constant(value: Value, old: int, new: int, numbers: bool) -> None:
    data = value.array()
    if data.dtype.kind in "iu" and data.ndim <= 1 and value.quantization is None:
        if numbers:
            value.data = np.where(data == old, np.array(new, data.dtype), data)
        return
    value.data = np.ascontiguousarray(data[tuple(slice(new if d == old else None) for d in data.shape)])
    value.shape = value.data.shape
    value.quantization = _cut_scales(value.quantization, old, new)


def _cut_scales(quantization: Quantization | None, old: int, new: int) -> Quantization | None:
    if quantization is None or quantization.scale.size != old:
        return quantization
    return dataclasses.replace(
        quantization, scale=quantization.scale[:new], zero_point=quantization.zero_point[:new]
    )


def _infer_anew(model: Model) -> None:
    """Give every result the shape that its operator infers; one without a rule keeps what it had."""
    for op in (op for graph in callees_first(model) for op in graph):
        try:
            types = op.inferred()
        except UnsupportedError:
            continue
        _check_count(op, types)
        for value, inferred in zip(op.results, types, strict=True):
            value.shape = inferred.shape


def _check_count(op: Op, types: Sequence[object]) -> None:
    if len(types) != len(op.results):
        raise ShapeError(f"{op.code} gives {len(types)} results, the model has {len(op.results)}")


def _without_unused_graphs(model: Model) -> Model:
    """Only the main graph and those that it runs, through others too; in place."""
    used = {id(model.main)}
    todo = [model.main]
    while todo:
        for op in todo.pop():
            for graph in op.called_graphs():
                if id(graph) not in used:
                    used.add(id(graph))
                    todo.append(graph)
    model.graphs = [g for g in model.graphs if id(g) in used]
    return model
