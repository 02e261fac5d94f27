# SPDX-License-Identifier: Apache-2.0
"""The summary that circle-inspect prints about a model: interface, operators, size, cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from circlekit.api.models import read
from circlekit.api.structure_checks import check_structure
from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.op import OpaqueOp
from circlekit.ir.text.columns import format_definitions
from circlekit.ir.text.lines import Names, type_text
from circlekit.ir.value import Value
from circlekit.passes.engine.model_summary import summarize
from circlekit.targets.planners import find_planner

SUMMARY_SCHEMA = 1
"""The version of the summary as JSON (docs/guide/inspect.md); a change that breaks readers increases it."""

NO_BREAK_SPACE = "\xa0"
"""A space at which no line is broken: it keeps a count and its name, such as "3 CONV_2D", on one line."""


def summary_of(path: str) -> dict[str, Any]:
    """Return the summary of a model as JSON types; ``path``: the model file, or a text file with a model.

    If the model is invalid, ``fault`` says why, and parameters, MACs and arena are None.  Raise the errors of
    ``load``.
    """
    model, content = read(path)
    size = None if content is None else len(content)
    fault = None
    try:
        check_structure(model, path)
        counts = summarize(model, size).document()
    except CirclekitError as error:  # the costs of an invalid model may be unknown
        fault = error.message
        counts = {"format": model.format, "file_bytes": size}
        counts |= dict.fromkeys(("parameters", "macs", "peak_arena_bytes", "arena_planner"))
    # by id, so that a constant with several readers counts once
    constants = {id(v): v.data for g in model.graphs for v in _values(g.ops) if v.data is not None}
    operators = Counter(op.code for op in model.ops())
    return {
        "schema": SUMMARY_SCHEMA,
        "file": path,
        **counts,
        "fault": fault,
        "description": model.description,
        "inputs": [_port(value) for value in model.main.inputs],
        "outputs": [_port(value) for value in model.main.outputs],
        "signatures": [
            {"key": s.key, "graph": s.graph.name, "inputs": [*s.inputs], "outputs": [*s.outputs]}
            for s in model.signatures
        ],
        "graphs": [{"name": graph.name, "operator_count": len(graph)} for graph in model.graphs],
        "operator_count": operators.total(),
        "operators": dict(operators.most_common()),
        "custom": _opaque_counts(model, custom=True),
        "opaque": _opaque_counts(model, custom=False),
        "constants": len(constants),
        "constant_bytes": sum(data.nbytes for data in constants.values()),
        "metadata": {name: len(content) for name, content in model.metadata},
    }


def _values(ops: Any) -> Iterator[Value]:
    """Yield the operands of ``ops``, without absent ones."""
    return (value for op in ops for value in op.inputs if value is not None)


def _opaque_counts(model: Model, custom: bool) -> dict[str, int]:
    """Return the number of opaque operators of each kind, the most frequent kind first.

    An opaque operator is one that has no declaration in circlekit or does not fit it.
    ``custom``: True: count custom operators, by custom code.  False: count the others, by code.
    """
    opaque = (op for op in model.ops() if isinstance(op, OpaqueOp) and (op.code == "CUSTOM") is custom)
    return dict(Counter(str(op.custom_code) if custom else op.code for op in opaque).most_common())


def _port(value: Value) -> dict[str, Any]:
    """Return name, dtype, shape and quantization of an input or output; "type" has the last three as text."""
    quantization = value.quantization
    return {
        "name": value.name,
        "type": type_text(value, Names()),
        "dtype": value.dtype.short,
        "shape": None if value.shape is None else list(value.shape),
        "quantization": None
        if quantization is None
        else {
            "scale": quantization.scale.tolist(),
            "zero_point": quantization.zero_point.tolist(),
            "quantized_dimension": quantization.quantized_dimension,
        },
    }


def summary_text(summary: dict[str, Any], width: int) -> str:
    """Return ``summary``, a result of ``summary_of``, as text of ``width`` columns.

    The first line is the name of the file.  Labels with descriptions follow; a description may be broken into
    several lines.
    """
    lines = format_definitions(list(_rows(summary)), width, "  ").replace(NO_BREAK_SPACE, " ")
    return f"{summary['file']}\n{lines}"


def _rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (label, description); the label "" continues the label above."""
    size = summary["file_bytes"]
    yield "format", f"{summary['format']}, {'as text' if size is None else f'{size:,} bytes'}"
    if summary["description"]:
        yield "description", summary["description"]
    for ports in ("inputs", "outputs"):
        for index, port in enumerate(summary[ports]):
            yield "" if index else ports, f"%{port['name']}: {port['type']}"
    for signature in summary["signatures"]:
        inputs, outputs = ", ".join(signature["inputs"]), ", ".join(signature["outputs"])
        yield "signature", f"{signature['key']}({inputs}) -> {outputs}"
    graphs = summary["graphs"]
    if len(graphs) > 1:
        yield "graphs", ", ".join(f"{graph['name']} ({graph['operator_count']})" for graph in graphs)
    listed = f": {_listed(summary['operators'])}" if summary["operators"] else ""
    yield "operators", f"{summary['operator_count']}{listed}"
    if summary["custom"]:
        yield "custom", _listed(summary["custom"])
    if summary["opaque"]:
        yield "opaque", f"{_listed(summary['opaque'])} (not supported by circlekit, kept unchanged)"
    for name, label in (("parameters", "parameters"), ("macs", "MACs")):
        if summary[name] is not None:
            yield label, f"{summary[name]:,}"
    if summary["peak_arena_bytes"] is not None:
        title = find_planner(summary["arena_planner"]).title
        yield "peak arena", f"{summary['peak_arena_bytes']:,} bytes ({title})"
    yield "constants", f"{summary['constants']} ({summary['constant_bytes']:,} bytes)"
    if summary["metadata"]:
        yield "metadata", ", ".join(f"{name} ({size:,} bytes)" for name, size in summary["metadata"].items())
    if summary["fault"] is not None:
        hint = "" if size is None else " (circlekit verify lists all violated rules)"  # it reads no text
        yield "fault", summary["fault"] + hint


def _listed(counts: dict[str, int]) -> str:
    """Return {name: count} as text, such as "3 CONV_2D, 1 ADD"."""
    return ", ".join(f"{count}{NO_BREAK_SPACE}{name}" for name, count in counts.items())
