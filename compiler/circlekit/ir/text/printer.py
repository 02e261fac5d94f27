# SPDX-License-Identifier: Apache-2.0
"""Print models; parsing the text gives the same model to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any

from circlekit.ir.display import to_text
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.op import Op
from circlekit.ir.text.lexer import quote, quoted
from circlekit.ir.text.lines import Locate, Style, op_parts, payload, print_op, type_text
from circlekit.ir.text.literal_printing import (
    format_base64,
    format_flat,
    format_key,
    format_tree,
    plain_items,
)
from circlekit.ir.value import Value

__all__ = ["Labels", "Locate", "print_graph", "print_model", "print_op"]

ALIGN_LIMIT = 78
"""Types are aligned in one column; this is the last column for it."""


def print_model(model: Model, locate: Locate | None = None, shorten: bool = False) -> str:
    """Return the text form of a model.

    ``locate``: where large constants lie, to be printed by reference instead of in base64.  ``shorten``: show
    the first elements of large constants only; such a text cannot be parsed.
    """
    labels = Labels(model.graphs)
    lines = [_header(model)]
    lines += [f"metadata {quote(name)} {_metadata(data)}" for name, data in model.metadata]
    lines += [_signature(s, labels) for s in model.signatures]
    if extra := plain_items(model.extra):
        lines.append(f"extra {format_tree(extra)}")
    blocks = ["\n".join(lines), *(print_graph(g, labels, locate, shorten) for g in model.graphs)]
    return "\n\n".join(blocks) + "\n"


def _header(model: Model) -> str:
    options = [f"version: {model.version}"] if model.version != Model.version else []
    if model.description is not None:
        options.append(f"description: {quote(model.description)}")
    return f"model {model.format}" + (f" {{{', '.join(options)}}}" if options else "")


def _metadata(data: bytes) -> str:
    """Return metadata as a string if it is text (zeros at its end are usual), else as base64."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    bare = text.rstrip("\0")
    if bare.isprintable() and len(text) - len(bare) < 16 and len(bare) > 0:
        return quote(text)
    return f"base64({format_base64(data)})"


def _signature(signature: Signature, labels: Labels) -> str:
    names = labels.of(signature.graph)

    def ports(values: Mapping[str, Value]) -> str:
        return "(" + ", ".join(f"{format_key(k)}: {names.result(v)}" for k, v in values.items()) + ")"

    head = f"signature {quote(signature.key)} {labels.graph(signature.graph)}"
    return f"{head} {ports(signature.inputs)} -> {ports(signature.outputs)}"


# -- names -------------------------------------------------------------------------------------


class Names(Style):
    """Labels of the values of one graph: their names, made unique and not empty."""

    lossless = True

    def __init__(self, graph: Graph, graph_labels: Mapping[int, str]) -> None:
        self.values = [*dict.fromkeys([*graph.values(), *_mentioned(graph)])]
        scales = [scale for value in self.values for scale in value.scale_values]
        self.values = [*dict.fromkeys([*self.values, *scales])]
        self.labels = _unique([(id(v), v.name) for v in self.values], "value")
        self.graph_labels = graph_labels

    def operand(self, value: Value | None) -> str:
        return "none" if value is None else self.result(value)

    def label(self, value: Value) -> str:
        return self.labels.get(id(value), value.name)

    def graph(self, graph: Graph) -> str:
        return quoted("@", self.graph_labels.get(id(graph), graph.name))


class Labels:
    """Labels of the graphs of a model, and of their values."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.graphs = _unique([(id(g), g.name) for g in graphs], "graph")
        self._names: dict[int, Names] = {}

    def of(self, graph: Graph) -> Names:
        names = self._names.get(id(graph))
        if names is None:
            names = self._names[id(graph)] = Names(graph, self.graphs)
        return names

    def label(self, graph: Graph) -> str:
        return self.graphs.get(id(graph), graph.name)

    def graph(self, graph: Graph) -> str:
        return quoted("@", self.label(graph))


def _unique(named: list[tuple[int, str]], nameless: str) -> dict[int, str]:
    """Return a label for each id: its name if none before has it, else the name and a number."""
    labels: dict[int, str] = {}
    taken: set[str] = set()
    for key, name in named:
        if name and name not in taken:
            taken.add(name)
            labels[key] = name
    counts: dict[str, int] = {}
    for key, name in named:
        if key not in labels:
            base = name or nameless
            count = counts.get(base, 0)
            label = base
            while label in taken:
                count += 1
                label = f"{base}_{count}"
            counts[base] = count
            taken.add(label)
            labels[key] = label
    return labels


def _mentioned(graph: Graph) -> Iterator[Value]:
    """Yield the values in fields that the IR does not interpret."""
    pending: list[Any] = [op.extra for op in graph if op.extra]
    pending += [graph.extra] if graph.extra else []
    pending.reverse()
    while pending:
        data = pending.pop()
        if isinstance(data, Value):
            yield data
        elif isinstance(data, Mapping):
            pending += reversed(list(data.values()))
        elif isinstance(data, list | tuple):
            pending += reversed(data)


# -- graphs ------------------------------------------------------------------------------------


def print_graph(
    graph: Graph, labels: Labels | None = None, locate: Locate | None = None, shorten: bool = False
) -> str:
    """Return a graph's text: its head, values without a producer (constants, variables), then operators."""
    labels = labels or Labels([graph])
    names = labels.of(graph)
    lines = [_head(graph, labels, names)]
    defined = [*dict.fromkeys(graph.inputs)]
    inputs = set(defined)
    loose = [
        v for v in names.values if v not in inputs and (v.producer is None or v.producer.graph is not graph)
    ]
    lines += [f"  {_declaration(v, names, locate, shorten)}" for v in loose]
    defined += loose
    calls = []
    for op in graph:
        calls.append(op_parts(op, names))
        defined += op.results
    lines += [f"  {line}" for line in _aligned(calls)]
    if extra := plain_items(graph.extra):
        lines.append(f"  extra {format_tree(extra, names.mentioned)}")
    if graph.table:
        ordered = len(graph.table) == len(defined) and all(map(is_, graph.table, defined))
        listed = format_flat(names.result(v) for v in graph.table)
        lines.append("  table" if ordered else f"  table {listed}")
    return "\n".join([*lines, "}"])


def _head(graph: Graph, labels: Labels, names: Names) -> str:
    label = labels.label(graph)
    seen: set[int] = set()
    inputs = []
    for value in graph.inputs:
        again = id(value) in seen
        seen.add(id(value))
        inputs.append(names.result(value) if again else f"{names.result(value)}: {type_text(value, names)}")
    outputs = ", ".join(names.result(v) for v in graph.outputs)
    head = f"graph {format_key(label)}({', '.join(inputs)})" + (f" -> {outputs}" if outputs else "")
    return head + ("" if label == graph.name else f" named({quote(graph.name)})") + " {"


def _declaration(value: Value, names: Names, locate: Locate | None, shorten: bool) -> str:
    if value.data is None:
        return f"{names.result(value)}: {type_text(value, names)}"
    elements = payload(value, value.data, locate, shorten)
    return f"{names.result(value)} = const {type_text(value, names)} {elements}"


def _aligned(lines: list[tuple[str, str]]) -> Iterator[str]:
    """Yield calls with their types, aligned where the calls are not too long."""
    width = max((len(call) for call, types in lines if types and len(call) <= ALIGN_LIMIT), default=0)
    for call, types in lines:
        yield f"{call:{width}}  : {types}" if types else call


to_text.register(Model, partial(print_model, shorten=True))
to_text.register(Graph, partial(print_graph, shorten=True))
to_text.register(Op, print_op)
