# SPDX-License-Identifier: Apache-2.0
"""Models to text.  What ``ir.parser`` makes of it is equal to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir import literals
from circlekit.ir.attributes import format_attribute, same_attribute
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.lexer import quote, quoted
from circlekit.ir.literals import (
    format_base64,
    format_flat,
    format_items,
    format_key,
    format_tree,
    plain_items,
)
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array, Quantization, Value, format_shape

Locate = Callable[[Value], "tuple[str, int] | None"]
"""Where a constant's bytes lie: (file, offset), or None where they are in no file."""

LIST_LIMIT = 32
"""Constants up to this many elements are printed as lists, larger ones as bytes or by reference."""

INLINE_LIMIT = 8
"""``print_op`` shows constants up to this many elements in the place of their names."""

ALIGN_LIMIT = 78
"""The types of a graph's operators stand in one column, unless that is beyond this one."""


def print_model(model: Model, locate: Locate | None = None) -> str:
    """The whole model.  ``locate``: where large constants lie, to be printed by reference, not in base64."""
    labels = Labels(model)
    lines = [_header(model)]
    lines += [f"metadata {quote(name)} {_metadata(data)}" for name, data in model.metadata]
    lines += [_signature(s, labels) for s in model.signatures]
    if extra := plain_items(model.extra):
        lines.append(f"extra {format_tree(extra)}")
    blocks = ["\n".join(lines), *(print_graph(g, labels, locate) for g in model.graphs)]
    return "\n\n".join(blocks) + "\n"


def _header(model: Model) -> str:
    options = [f"version: {model.version}"] if model.version != Model.version else []
    if model.description is not None:
        options.append(f"description: {quote(model.description)}")
    return f"model {model.format}" + (f" {{{', '.join(options)}}}" if options else "")


def _metadata(data: bytes) -> str:
    """As text where it is some (zeros at its end are usual), else base64."""
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
        return "(" + ", ".join(f"{format_key(k)}: {names.value(v)}" for k, v in values.items()) + ")"

    head = f"signature {quote(signature.key)} {labels.graph(signature.graph)}"
    return f"{head} {ports(signature.inputs)} -> {ports(signature.outputs)}"


# -- names -------------------------------------------------------------------------------------


class Names:
    """What the values of one graph are called in the text: their names, made unique and not empty."""

    def __init__(self, graph: Graph) -> None:
        values = list(graph.values())
        self.labels = _unique([(id(v), v.name) for v in values], "value")
        self.values = values

    def label(self, value: Value) -> str:
        return self.labels.get(id(value), value.name)

    def value(self, value: Value | None) -> str:
        return "none" if value is None else quoted("%", self.label(value))


class Labels:
    """What the graphs of a model are called in the text, and the names of their values."""

    def __init__(self, model: Model | None = None, graphs: Sequence[Graph] = ()) -> None:
        graphs = model.graphs if model is not None else graphs
        self.graphs = _unique([(id(g), g.name) for g in graphs], "graph")
        self._names: dict[int, Names] = {}

    def of(self, graph: Graph) -> Names:
        names = self._names.get(id(graph))
        if names is None:
            names = self._names[id(graph)] = Names(graph)
        return names

    def label(self, graph: Graph) -> str:
        return self.graphs.get(id(graph), graph.name)

    def graph(self, graph: Graph) -> str:
        return quoted("@", self.label(graph))


def _unique(named: list[tuple[int, str]], nameless: str) -> dict[int, str]:
    """A label for each id: its name if no other has it before, else the name and a number."""
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


# -- graphs ------------------------------------------------------------------------------------


def print_graph(graph: Graph, labels: Labels | None = None, locate: Locate | None = None) -> str:
    """One graph: its head, what nothing produces (constants, variables), then the operators."""
    labels = labels or Labels(graphs=[graph])
    names = labels.of(graph)
    lines = [_head(graph, labels, names)]
    defined = [*dict.fromkeys(graph.inputs)]
    inputs = set(defined)
    loose = [v for v in names.values if v not in inputs and not _is_produced(v, graph)]
    lines += [f"  {_declaration(v, names, locate)}" for v in loose]
    defined += loose
    calls = []
    for op in graph:
        call = _call(op, names.value, names.value, labels.graph)
        calls.append((call, ", ".join(_typed(v, names) for v in op.results)))
        defined += op.results
    lines += [f"  {line}" for line in _aligned(calls)]
    if extra := plain_items(graph.extra):
        lines.append(f"  extra {format_tree(extra, names.value)}")
    if graph.table:
        ordered = len(graph.table) == len(defined) and all(map(_same, graph.table, defined))
        listed = format_flat(names.value(v) for v in graph.table)
        lines.append("  table" if ordered else f"  table {listed}")
    return "\n".join([*lines, "}"])


def _same(a: Value, b: Value) -> bool:
    return a is b


def _is_produced(value: Value, graph: Graph) -> bool:
    return value.producer is not None and value.producer.graph is graph


def _head(graph: Graph, labels: Labels, names: Names) -> str:
    label = labels.label(graph)
    seen: set[int] = set()
    inputs = []
    for value in graph.inputs:
        again = id(value) in seen
        seen.add(id(value))
        inputs.append(names.value(value) if again else f"{names.value(value)}: {_typed(value, names)}")
    outputs = ", ".join(names.value(v) for v in graph.outputs)
    word = label if label.isidentifier() and label.isascii() else quote(label)
    head = f"graph {word}({', '.join(inputs)})" + (f" -> {outputs}" if outputs else "")
    return head + ("" if label == graph.name else f" named({quote(graph.name)})") + " {"


def _declaration(value: Value, names: Names, locate: Locate | None) -> str:
    if value.data is None:
        return f"{names.value(value)}: {_typed(value, names)}"
    return f"{names.value(value)} = const {_typed(value, names)} {_payload(value, value.data, locate)}"


def _aligned(lines: list[tuple[str, str]]) -> Iterator[str]:
    """The types behind the calls, in one column where it is not too far to the right."""
    width = max((len(call) for call, types in lines if types and len(call) <= ALIGN_LIMIT), default=0)
    for call, types in lines:
        yield f"{call:{width}}  : {types}" if types else call


# -- operators ---------------------------------------------------------------------------------


def print_op(op: Op) -> str:
    """One line for a person: small constants are shown in the place of their names."""
    call, types = op_parts(op)
    return f"{call} : {types}" if types else call


def op_parts(op: Op) -> tuple[str, str]:
    """The call, and the types of its results, as ``print_op`` shows them."""
    call = _call(op, _inlined, lambda value: quoted("%", value.name), lambda graph: quoted("@", graph.name))
    return call, ", ".join(_typed(v, None) for v in op.results)


def _inlined(value: Value | None) -> str:
    """A small constant as a literal, else the name."""
    if value is None:
        return "none"
    data = value.data
    if data is not None and data.size <= INLINE_LIMIT and not _is_raw(value, data):
        texts = literals.elements(data)
        if texts is not None:
            return literals.format_nested(texts, data.shape)
    return quoted("%", value.name)


def _call(
    op: Op,
    operand: Callable[[Value | None], str],
    result: Callable[[Value], str],
    graph: Callable[[Graph], str],
) -> str:
    operands = ", ".join(map(operand, op.inputs))
    results = ", ".join(map(result, op.results))
    items = _attributes(op, result, graph)
    attributes = f" {{{', '.join(items)}}}" if items else ""
    kind = "Opaque" if isinstance(op, OpaqueOp) else type(op).__name__
    return f"{results}{' = ' if results else ''}{kind}({operands}){attributes}"


def _attributes(op: Op, result: Callable[[Value], str], graph: Callable[[Graph], str]) -> list[str]:
    items = []
    if isinstance(op, OpaqueOp):
        items.append(f"code: {format_tree(op.code)}")
        if op.custom_code is not None:
            items.append(f"custom_code: {quote(op.custom_code)}")
        if op.option_tree is not None:
            items.append(f"options: {format_tree(op.option_tree)}")
    for spec in op.attributes:
        value = op.attribute_values.get(spec.name, spec.default)
        if not same_attribute(value, spec.default):
            items.append(f"{spec.name}: {format_attribute(spec, value, graph)}")
    if op.version is not None and op.version != _required_version(op):
        items.append(f"version: {op.version}")
    if extra := plain_items(op.extra):
        items.append(f"extra: {format_tree(extra, result)}")
    return items


def _required_version(op: Op) -> int | None:
    """None where the operator is too broken to tell."""
    try:
        return op.required_version()
    except CirclekitError:
        return None


def _typed(value: Value, names: Names | None) -> str:
    """The type of ``value`` and, where ``names`` are given, all else that is to be kept."""
    parts = [f"{value.dtype.short}{format_shape(value.shape)}"]
    if value.quantization is not None:
        parts.append(_quantization(value.quantization))
    if names is not None:
        if extra := plain_items(value.extra):
            parts.append(f"extra({format_items(extra, names.value)})")
        if names.label(value) != value.name:
            parts.append(f"named({quote(value.name)})")
        if value.is_variable:
            parts.append("variable")
    return " ".join(parts)


def _quantization(quantization: Quantization) -> str:
    items = []
    scale, zero_point = quantization.scale, quantization.zero_point
    if scale.size:
        items.append(f"scale: {_vector(scale)}")
    if zero_point.size != scale.size or zero_point.any():
        items.append(f"zero_point: {_vector(zero_point)}")
    if quantization.quantized_dimension:
        items.append(f"axis: {quantization.quantized_dimension}")
    for name in ("min", "max"):
        bound: Array | None = getattr(quantization, name)
        if bound is not None:
            items.append(f"{name}: {_vector(bound)}")
    if quantization.details is not None:
        items.append(f"details: {format_tree(quantization.details)}")
    return f"quant({', '.join(items)})"


def _vector(array: Array) -> str:
    texts = literals.elements(array)
    if texts is None:  # a NaN with a payload
        return format_tree(array)
    return texts[0] if len(texts) == 1 else format_flat(texts)


# -- constants ---------------------------------------------------------------------------------


def _is_raw(value: Value, data: Array) -> bool:
    """Whether the data is no array of the value's own dtype and shape but the bytes of the file."""
    return value.dtype.numpy is None or data.dtype != value.dtype.numpy or data.shape != value.shape


def _is_zero(data: Array) -> bool:
    """Whether no bit is set."""
    return data.dtype.kind in "fiub" and not np.ascontiguousarray(data).reshape(-1).view(np.uint8).any()


def _payload(value: Value, data: Array, locate: Locate | None) -> str:
    raw = _is_raw(value, data)
    if not raw and INLINE_LIMIT < data.size <= LIST_LIMIT and _is_zero(data):
        return "zeros"
    texts = literals.elements(data) if data.size <= LIST_LIMIT and not raw else None
    if texts is not None:
        return texts[0] if not data.shape else format_flat(texts)
    place = locate(value) if locate is not None and data.nbytes else None
    if place is not None:
        path, offset = place
        return f"file({quote(path)}, {offset}, {data.nbytes}{', raw: true' if raw else ''})"
    if not raw and _is_zero(data):
        return "zeros"
    return f"{'raw' if raw else 'base64'}({format_base64(data.tobytes())})"
