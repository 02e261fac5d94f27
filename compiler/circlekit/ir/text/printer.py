# SPDX-License-Identifier: Apache-2.0
"""Print models as text; parsing the text gives the same model, bit for bit.

``lines`` prints one operator, type or constant; this module joins these parts to graphs and models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import is_

from circlekit.ir.core import to_text, unique_name, values_in
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.op import Op
from circlekit.ir.text.lexer import quote
from circlekit.ir.text.lines import Locate, Names, op_parts, payload, print_op, type_text
from circlekit.ir.text.literal_printing import (
    format_base64,
    format_flat,
    format_key,
    format_tree,
    plain_items,
)
from circlekit.ir.value import Value

__all__ = ["Locate", "print_graph", "print_model", "print_op"]

ALIGN_LIMIT = 78
"""A call with more characters than this does not move the column of types.

A call is the text of an operator before the types of its results: ``%y = Add(%a, %b)``.
"""


def print_model(model: Model, locate: Locate | None = None, shorten: bool = False) -> str:
    """Return the text form of a model.

    ``locate``: returns where the bytes of a constant are: a file and an offset, or None.  If they are in a
    file and are too many for a list, the text has ``file(name, offset, size)`` instead of base64.
    ``shorten``: show only the first elements of large constants; such a text cannot be parsed.
    """
    graph_labels = _unique(model.graphs, "graph")
    names = {id(g): _GraphNames(g, graph_labels) for g in model.graphs}
    lines = [_header(model)]
    lines += [f"metadata {quote(name)} {_metadata(data)}" for name, data in model.metadata]
    lines += [_signature(s, names.get(id(s.graph)) or _GraphNames(s.graph)) for s in model.signatures]
    if extra := plain_items(model.extra):
        lines.append(f"extra {format_tree(extra)}")
    graphs = (_graph_text(g, names[id(g)], locate, shorten) for g in model.graphs)
    return "\n\n".join(["\n".join(lines), *graphs]) + "\n"


def print_graph(graph: Graph, locate: Locate | None = None, shorten: bool = False) -> str:
    """Return the text form of one graph; for the arguments see ``print_model``."""
    return _graph_text(graph, _GraphNames(graph), locate, shorten)


def _header(model: Model) -> str:
    options = [f"version: {model.version}"] if model.version != Model.version else []
    if model.description is not None:
        options.append(f"description: {quote(model.description)}")
    return f"model {model.format}" + (f" {{{', '.join(options)}}}" if options else "")


def _metadata(data: bytes) -> str:
    """Return metadata as a string if it is printable text, else as base64."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    bare = text.rstrip("\0")  # converters pad the text of min_runtime_version with zeros to 16 bytes
    if bare.isprintable() and len(text) - len(bare) < 16 and len(bare) > 0:
        return quote(text)
    return f"base64({format_base64(data)})"


def _signature(signature: Signature, names: Names) -> str:
    def ports(values: Mapping[str, Value]) -> str:
        return "(" + ", ".join(f"{format_key(k)}: {names.refer(v)}" for k, v in values.items()) + ")"

    head = f"signature {quote(signature.key)} {names.refer(signature.graph)}"
    return f"{head} {ports(signature.inputs)} -> {ports(signature.outputs)}"


# -- names -------------------------------------------------------------------------------------


class _GraphNames(Names):
    """Unique, non-empty names, in the text, for the values of one graph.

    ``values``: all values that the text must define.  Some of them occur only in ``extra``, or hold the
    scales of a blockwise quantization.  ``graph_labels``: the names of all graphs, by ``id``.  The lines of
    operators are always lossless: ``shorten`` concerns only the data of constants.
    """

    def __init__(self, graph: Graph, graph_labels: Mapping[int, str] | None = None) -> None:
        extras = (values_in(thing.extra) for thing in (graph, *graph))
        values = dict.fromkeys((*graph.values(), *chain.from_iterable(extras)))
        scales = chain.from_iterable(value.scale_values for value in values)
        self.values = [*(values | dict.fromkeys(scales))]
        super().__init__({**_unique(self.values, "value"), **(graph_labels or {})}, lossless=True)


def _unique(things: Sequence[Value] | Sequence[Graph], nameless: str) -> dict[int, str]:
    """Return a unique name for each of ``things``, by ``id``.

    The first thing with a name keeps it; other things with that name get a number after it.  ``nameless``:
    the name that is used instead of an empty one.
    """
    labels: dict[int, str] = {}
    taken: dict[str, int] = {}
    for thing in things:
        if thing.name and thing.name not in taken:
            labels[id(thing)] = unique_name(thing.name, taken)
    for thing in things:
        if id(thing) not in labels:
            labels[id(thing)] = unique_name(thing.name or nameless, taken)
    return labels


# -- graphs ------------------------------------------------------------------------------------


def _graph_text(graph: Graph, names: _GraphNames, locate: Locate | None, shorten: bool) -> str:
    """Return the text of a graph: its head, values without a producer, operators, ``extra`` and ``table``."""
    lines = [_head(graph, names)]
    defined = [*dict.fromkeys(graph.inputs)]
    inputs = set(defined)
    others = (v for v in names.values if v not in inputs)
    # the producer of a value in ``table`` may have been removed from the graph
    unproduced = [v for v in others if v.producer is None or v.producer.graph is not graph]
    lines += [f"  {_declaration(v, names, locate, shorten)}" for v in unproduced]
    defined += unproduced
    calls = []
    for op in graph:
        calls.append(op_parts(op, names))
        defined += op.results
    lines += [f"  {line}" for line in _aligned(calls)]
    if extra := plain_items(graph.extra):
        lines.append(f"  extra {format_tree(extra, names.refer)}")
    if graph.table:  # the values in the order of the file; no list means the order of this text
        ordered = len(graph.table) == len(defined) and all(map(is_, graph.table, defined))
        listed = format_flat(map(names.refer, graph.table))
        lines.append("  table" if ordered else f"  table {listed}")
    return "\n".join([*lines, "}"])


def _head(graph: Graph, names: Names) -> str:
    """Return the first line of a graph: its name, inputs with their types, and outputs."""
    inputs: dict[int, str] = {}
    shown = []
    for value in graph.inputs:  # an input that occurs a second time is written without its type
        shown.append(inputs.get(id(value)) or f"{names.refer(value)}: {type_text(value, names)}")
        inputs[id(value)] = names.refer(value)
    outputs = f" -> {', '.join(map(names.refer, graph.outputs))}" if graph.outputs else ""
    label = names.label(graph)
    named = "" if label == graph.name else f" named({quote(graph.name)})"
    return f"graph {format_key(label)}({', '.join(shown)}){outputs}{named} {{"


def _declaration(value: Value, names: Names, locate: Locate | None, shorten: bool) -> str:
    """Return the line of a value without a producer: ``%v: TYPE``, or ``%w = const TYPE DATA``."""
    if value.data is None:
        return f"{names.refer(value)}: {type_text(value, names)}"
    elements = payload(value, value.data, locate, shorten)
    return f"{names.refer(value)} = const {type_text(value, names)} {elements}"


def _aligned(lines: list[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each call and its types; the types are in one column, except after very long calls."""
    width = max((len(call) for call, types in lines if types and len(call) <= ALIGN_LIMIT), default=0)
    for call, types in lines:
        yield f"{call:{width}}  : {types}" if types else call


to_text.register(Model, partial(print_model, shorten=True))
to_text.register(Graph, partial(print_graph, shorten=True))
to_text.register(Op, print_op)
