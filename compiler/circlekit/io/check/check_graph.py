# SPDX-License-Identifier: Apache-2.0
"""Check one graph of a file that can be loaded: inputs and outputs, order of operators, options."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlekit.io.findings import Finding
from circlekit.io.operator_fields import GRAPH_FIELDS
from circlekit.io.schema import Tree, options_field
from circlekit.ir.arity import arity_faults
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Value
from circlekit.ir.verifier import shared_names


def interface_findings(graph: Graph, path: str) -> Iterator[Finding]:
    """Yield the findings about the inputs and outputs of a graph.  ``path``: the path of the graph."""
    label, shared = _labels(graph), shared_names(graph)
    seen: set[int] = set()
    for side, values in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        for index, value in enumerate(values):
            where = f"{path}.{side}[{index}]"
            if "stored_name" in value.extra:  # the tensor has no name in the file; ``load`` made one
                yield Finding("interface", where, f"{label[id(value)]} has no name")
            elif value in shared:
                message = f"{label[id(shared[value])]} and {label[id(value)]} have the same name"
                yield Finding("interface", where, message)
            if side == "inputs" and id(value) in seen:
                yield Finding("interface", where, f"{label[id(value)]} is listed twice")
            if side == "inputs" and _has_data(value) and id(value) not in seen:
                yield Finding("interface", f"{path}.inputs", f"{label[id(value)]} is a constant")
            seen.add(id(value))


def order_findings(graph: Graph, path: str) -> Iterator[Finding]:
    """Yield the findings about the order in which values are computed.

    The faults are: a value is used before it is computed; a value that is used is never computed; an operator
    computes an input of the graph or a constant.
    """
    label = _labels(graph)
    inputs = {id(value) for value in graph.inputs}
    position = {id(op): index for index, op in enumerate(graph)}
    for number, op in enumerate(graph):
        for index, result in enumerate(op.results):
            if id(result) in inputs or _has_data(result):
                role = "an input of the graph" if id(result) in inputs else "a constant"
                where = f"{path}.operators[{number}].outputs[{index}]"
                yield Finding("overwrite", where, f"{label[id(result)]} is {role}")
    # (path, value, number of the operator that uses the value); outputs are used after the last operator
    uses: list[tuple[str, Value | None, int]] = []
    for number, op in enumerate(graph):
        uses += [(f"operators[{number}].inputs[{i}]", value, number) for i, value in enumerate(op.inputs)]
    uses += [(f"outputs[{i}]", value, len(position)) for i, value in enumerate(graph.outputs)]
    for where, value, number in uses:
        if value is None or id(value) in inputs or value.is_variable or _has_data(value):
            continue
        if value.producer is None:
            yield Finding("no-producer", f"{path}.{where}", f"no operator computes {label[id(value)]}")
        elif (producer := position[id(value.producer)]) >= number:
            message = f"{label[id(value)]} is computed only by operator {producer}"
            yield Finding("order", f"{path}.{where}", message)


def _labels(graph: Graph) -> dict[int, str]:
    """Return for each tensor of ``graph``, by ``id(value)``, its number in the file and its name, if any."""
    labels = {}
    for index, value in enumerate(graph.table):
        name = "" if "stored_name" in value.extra else f" {value.name!r}"  # no name that ``load`` made
        labels[id(value)] = f"tensor {index}{name}"
    return labels


def _has_data(value: Value) -> bool:
    """Return whether ``value`` has constant data, in this file or in another file."""
    return value.is_const or bool(value.extra.get("external_buffer", 0))


def operator_findings(op: Op, tree: Tree, path: str, graphs: int) -> Iterator[Finding]:
    """Yield the findings about an operator's custom code, numbers of operands and results, and options.

    ``op``: the loaded operator.  ``tree``: its table in the file.  ``path``: the path of this table.
    ``graphs``: the number of graphs in the model.
    """
    kind = REGISTRY.get(op.code)  # the declared class, or None
    if isinstance(op, OpaqueOp):  # ``load`` makes an operator with a wrong number of operands opaque
        if op.code == "CUSTOM" and not op.custom_code:
            yield Finding("custom-code", path, "a custom operator without a name")
        for field_path, message in arity_faults(kind, op.inputs, len(op.results)) if kind is not None else ():
            rule = "results" if field_path == "outputs" else "operands"
            yield Finding(rule, f"{path}.{field_path}", message)
    for union in ("builtin_options", "builtin_options_2"):
        where = f"{path}.{union}"
        if f"{union}_type" in tree:  # the decoder keeps the type only if the union has no table
            yield Finding("options", where, f"expected a table of type {tree[f'{union}_type']}, got none")
        options = tree.get(union)
        if options is None:
            continue
        name = options[""]  # the name of the table
        if kind is not None and (kind.options != name or options_field(name) != union):
            message = f"expected {kind.options or 'no options'} for {kind.code}, got {name}"
            yield Finding("options", where, message)
    # ``load`` replaced the indices of a field by graphs if all were valid (``with_graphs``).  So an index
    # that is left may be invalid.  -1 stands for no graph
    option_tree = op.option_tree if isinstance(op, OpaqueOp) and op.option_tree else {}
    for name, value in option_tree.items():
        if name.endswith(GRAPH_FIELDS) and isinstance(value, int | np.ndarray):
            invalid = [i for i in np.ravel(value).tolist() if i != -1 and not 0 <= i < graphs]
            if invalid:
                where = f"{path}.{options_field(option_tree[''])}.{name}"
                yield Finding("kept-graph-index", where, f"index {invalid[0]}, there are {graphs} graphs")
