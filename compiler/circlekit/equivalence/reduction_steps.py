# SPDX-License-Identifier: Apache-2.0
"""Copy a model with fewer operators, smaller sizes or simpler constants: the steps of ``circlekit reduce``.

A function that reduces a model returns a new model and does not change its argument.  The arguments name
graphs, operators and outputs by their indices.  The new model may be invalid; the caller verifies it.  A
function that infers shapes again raises ShapeError if operands do not fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from copy import copy

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.clone import clone, inline
from circlekit.ir.graph import Graph, Model, postorder
from circlekit.ir.shape_inference import callees_first, result_types
from circlekit.ir.value import Array, Quantization, Value


def entry_views(model: Model) -> list[Model]:
    """Return a model for each graph of a signature of ``model``, except the main graph.

    Such a model is a view: its main graph is the graph of the signature, and its other graphs are those that
    the main graph calls, directly or not.  The graphs are not copies, so a view shows later changes of
    ``model``.
    """
    entries = dict.fromkeys(s.graph for s in model.signatures if s.graph is not model.main)
    views = []
    for entry in entries:
        view = copy(model)
        view.graphs = reachable_graphs(entry)
        view.signatures, view.metadata, view.extra = [], [], {}
        views.append(view)
    return views


def reachable_graphs(start: Graph) -> list[Graph]:
    """Return ``start``, then all graphs that it calls, directly or not."""
    return postorder([start], lambda graph: [g for op in graph for g in op.called_graphs()])[::-1]


# -- operators and outputs ---------------------------------------------------------------------


def bare(model: Model) -> Model:
    """Return a copy with only what a run of the main graph needs.

    It has no signatures, metadata, description, unused values or graphs, and no stored order of values.
    """
    copy = clone(model)
    copy.signatures, copy.metadata, copy.description = [], [], None
    for graph in copy.graphs:
        graph.table = []
        graph.extra.pop("unused", None)
    return _without_unused_graphs(copy)


def with_main(model: Model, graph: int) -> Model:
    """Return a copy whose main graph is ``graph``, with the graphs that it calls, and without signatures."""
    copy = clone(model)
    copy.graphs.insert(0, copy.graphs.pop(graph))
    copy.signatures = []
    return _without_unused_graphs(copy)


def inlined(model: Model, graph: int, op: int, callee: int) -> Model:
    """Return a copy in which the operators of a called graph replace ``op``, the operator that calls it.

    ``callee``: the index of the called graph among the graphs that ``op`` calls.  The last operands of ``op``
    take the place of the inputs of the called graph; the first operand of IF is its condition.
    """
    copy = clone(model)
    home = copy.graphs[graph]
    caller = home.ops[op]
    source = caller.called_graphs()[callee]
    arguments = [v for v in caller.inputs if v is not None]
    results = inline(source, caller, arguments[len(arguments) - len(source.inputs) :])
    for old, new in zip(tuple(caller.results), results, strict=False):
        home.replace(old, new)
    home.remove(caller)
    return _without_unused_graphs(copy)


def without_op(model: Model, graph: int, op: int) -> Model:
    """Return a copy without one operator.

    A result that is used or is an output of the graph is replaced by a value of the same dtype and shape: an
    operand of the operator or an input of the graph, else zeros.  Zeros do not replace an output.  Raise
    ModelError if there is no such value, for example because the shape is unknown.
    """
    copy = clone(model)
    home = copy.graphs[graph]
    removed = home.ops[op]
    for value in tuple(removed.results):
        if not value.use_count and not home.is_output(value):
            continue
        candidates = [v for v in (*removed.inputs, *home.inputs) if v is not None and not v.is_variable]
        same_type = (v for v in candidates if v.dtype is value.dtype and v.shape == value.shape)
        replacement = next((v for v in same_type if home.can_stand_for(value, v)), None)
        if replacement is None and value.dtype.numpy is not None and not home.is_output(value):
            zeros = np.zeros(value.static_shape, value.dtype.numpy)
            replacement = Value.constant(home.unique_name(value.name), zeros, value.quantization)
        if replacement is not None:
            home.replace(value, replacement)
    home.remove(removed)
    return _without_unused_graphs(copy)


def with_ops(model: Model, keep: Sequence[int]) -> Model:
    """Return a copy with only the operators ``keep`` of the main graph.

    The inputs of the copy are the values, other than constants and variables, that these operators use but do
    not produce.  Its outputs are the results of these operators that were outputs, or that now have no use.
    """
    copy = clone(model)
    graph = copy.main
    old_outputs = {id(v) for v in graph.outputs}
    graph.outputs = ()
    kept = set(keep)
    removed = [op for index, op in enumerate(graph.ops) if index not in kept]
    for op in removed:
        op.drop_inputs()
        graph.unlink(op)
    new_inputs = [v for op in removed for v in op.results]
    for value in new_inputs:
        value.producer = None
    graph.inputs = [v for v in (*graph.inputs, *new_inputs) if v.use_count and not v.is_variable]
    results = [v for op in graph for v in op.results]
    graph.outputs = [v for v in results if id(v) in old_outputs or not v.use_count]
    return _without_unused_graphs(copy)


def with_outputs(model: Model, keep: Sequence[int]) -> Model:
    """Return a copy with only the outputs ``keep`` of the main graph; all operators stay."""
    copy = clone(model)
    copy.main.outputs = [v for index, v in enumerate(copy.main.outputs) if index in keep]
    return copy


def _without_unused_graphs(model: Model) -> Model:
    """Return ``model`` itself, after removing the graphs that the main graph does not call."""
    used = {id(graph) for graph in reachable_graphs(model.main)}
    model.graphs = [g for g in model.graphs if id(g) in used]
    return model


# -- attributes, sizes and constants -----------------------------------------------------------


def constants(graph: Graph) -> list[Value]:
    """Return the plain constants that operators use, each once.

    Plain data are an array of the elements, not packed, sparse or compressed bytes.
    """
    found = {id(v): v for op in graph for v in op.inputs if v is not None and v.is_plain}
    return list(found.values())


def sizes(model: Model) -> list[int]:
    """Return every dimension above 1 of inputs and constants, the largest first."""
    shapes = [v.shape or () for graph in model.graphs for v in (*graph.inputs, *constants(graph))]
    return sorted({d for shape in shapes for d in shape if d is not None and d > 1}, reverse=True)


def with_default(model: Model, graph: int, op: int, attribute: str) -> Model:
    """Return a copy in which an attribute of an operator has its default."""
    copy = clone(model)
    changed = copy.graphs[graph].ops[op]
    changed.attribute_values = {k: v for k, v in changed.attribute_values.items() if k != attribute}
    changed.touch()
    _infer_again(copy)
    return copy


def with_constant(model: Model, graph: int, name: str, array: Array) -> Model:
    """Return a copy in which the constants named ``name`` have the elements of ``array``.

    ``array`` has their dtype and shape.
    """
    copy = clone(model)
    for value in constants(copy.graphs[graph]):
        if value.name == name:
            value.data = array
    return copy


def with_size(model: Model, old: int, new: int, numbers: bool) -> Model:
    """Return a copy in which each dimension ``old`` of inputs and constants is ``new``, which is smaller.

    Integer constants of rank 0 or 1 without quantization, such as shapes, keep their dimensions.
    ``numbers``: whether to replace the number ``old`` in these constants, and in attributes that are lists.
    """
    copy = clone(model)
    for graph in copy.graphs:
        for value in graph.inputs:
            if value.shape is not None:
                value.shape = tuple(new if d == old else d for d in value.shape)
                value.quantization = _cut_scales(value.quantization, old, new)
        for value in constants(graph):
            _cut_constant(value, old, new, numbers)
        for op in graph if numbers else ():
            changed = {
                key: [new if x == old else x for x in content]
                for key, content in op.attribute_values.items()
                if isinstance(content, list | tuple) and old in content
            }
            op.attribute_values = op.attribute_values | changed
    _infer_again(copy)
    return copy


def _cut_constant(value: Value, old: int, new: int, numbers: bool) -> None:
    """Change the constant ``value`` as ``with_size`` says."""
    data = value.array()
    if data.dtype.kind in "iu" and data.ndim <= 1 and value.quantization is None:
        if numbers:
            value.data = np.where(data == old, np.array(new, data.dtype), data)
        return
    value.data = np.ascontiguousarray(data[tuple(slice(new if d == old else None) for d in data.shape)])
    value.shape = value.data.shape
    value.quantization = _cut_scales(value.quantization, old, new)


def _cut_scales(quantization: Quantization | None, old: int, new: int) -> Quantization | None:
    """Return ``quantization`` with the first ``new`` scales and zero points if it has ``old`` scales."""
    if quantization is None or quantization.scale.size != old:
        return quantization
    scale, zero_point = quantization.scale[:new], quantization.zero_point[:new]
    return dataclasses.replace(quantization, scale=scale, zero_point=zero_point)


def _infer_again(model: Model) -> None:
    """Give each result the shape that its operator infers; without a shape rule, results keep their shapes.

    Raise ShapeError if the operands of an operator do not fit.
    """
    for op in (op for graph in callees_first(model) for op in graph):
        with suppress(UnsupportedError):
            for value, inferred in zip(op.results, result_types(op), strict=True):
                value.shape = inferred.shape
