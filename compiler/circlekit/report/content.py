# SPDX-License-Identifier: Apache-2.0
"""Collect what the report shows, as plain data: strings, numbers, lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from circlekit.equivalence.verify import Records
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.progress import progress
from circlekit.ir.text.lexer import quoted
from circlekit.ir.text.lines import Names, print_op, type_text
from circlekit.ir.value import Value
from circlekit.passes.engine.describe import summary as pass_summary
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.optimization_report import Summary, summarize
from circlekit.passes.engine.registry import find_pass
from circlekit.report.drawing import graph_drawing
from circlekit.report.model_changes import (
    OpName,
    PassTrace,
    Structure,
    compare_structure,
    op_name,
    trace_passes,
)
from circlekit.report.operator_cost import Arena, OperatorCost, activation_arena, operator_cost
from circlekit.report.value_comparison import ValueComparison, compare_values

MAX_LISTED = 200
"""Lists of operators in the report end after this many, and say so."""

MAX_ROWS = 1000
"""The table of costs has the most expensive operators, up to this many."""

LARGEST_ERROR = 1e300
"""Stands for an infinite relative difference: JSON has no infinity."""

MAX_TEXT_CHARACTERS = 400
"""Longer lines of operators are cut."""

_NAMES = Names()


@dataclass
class Source:
    """A model of the report.  ``path``: as the user gave it, or what was made of it; ``file_size``: bytes."""

    path: str
    model: Model
    file_size: int | None = None


@dataclass
class Side:
    """One model with its figures; ``title``: before or after, "" if there is only one model."""

    title: str
    source: Source
    summary: Summary
    arena: Arena
    costs: dict[Op, OperatorCost] = field(default_factory=dict)

    @staticmethod
    def of(title: str, source: Source) -> Side:
        model = source.model
        costs = {op: operator_cost(op) for op in model.ops()}
        return Side(title, source, summarize(model, source.file_size), activation_arena(model.main), costs)


@dataclass
class Content:
    """Everything that is on the page.  ``findings``: what a target cannot run, as sentences."""

    sides: list[Side]
    trace: PassTrace | None = None
    structure: Structure | None = None
    values: ValueComparison | None = None
    findings: Sequence[str] = ()


def collect(
    before: Source,
    after: Source | None = None,
    passes: Sequence[str] = (),
    records: Records | None = None,
    with_values: bool = True,
) -> Content:
    """Compute the content of a report.

    Without ``after``, ``passes`` (names of passes and pipelines) make the second model; without both, the
    report describes one model.  ``records``: inputs to compare values on, by default seeded ones.
    ``with_values``: whether to run the models.  ``before`` is not changed.
    """
    trace = None
    if after is None and passes:
        model = clone(before.model)
        trace = trace_passes(model, passes)
        after = Source(f"{before.path} after {', '.join(passes)}", legalize(model, model.format))
    if after is None:
        return Content([Side.of("", before)])
    progress().begin("comparing the models")
    content = Content([Side.of("before", before), Side.of("after", after)], trace)
    content.structure = compare_structure(before.model, after.model)
    if with_values:
        content.values = compare_values(before.model, after.model, records)
    return content


# -- the tables of the page ------------------------------------------------------------------------


def summary_rows(content: Content) -> list[tuple[str, list[list[str]]]]:
    """Return (name, one cell for each model); a cell is a list of lines."""

    def row(name: str, cell: Callable[[Side], list[str] | str]) -> tuple[str, list[list[str]]]:
        cells = [cell(side) for side in content.sides]
        return name, [[text] if isinstance(text, str) else text for text in cells]

    def count(number: int | None) -> str:
        return "not written" if number is None else f"{number:,}"

    return [
        row("model", lambda side: side.source.path),
        row("format", lambda side: side.source.model.format),
        row("file size, bytes", lambda side: count(side.summary.file_size)),
        row("inputs", lambda side: described(side.source.model.main.inputs)),
        row("outputs", lambda side: described(side.source.model.main.outputs)),
        row("operators", lambda side: count(side.summary.op_count)),
        row("graphs", lambda side: count(len(side.source.model.graphs))),
        row("parameters", lambda side: count(side.summary.parameters)),
        row("multiply-accumulates (MACs)", lambda side: count(side.summary.macs)),
        row("peak of live activations, bytes", lambda side: count(side.arena.peak_bytes)),
    ]


def described(values: Sequence[Value]) -> list[str]:
    """Return names and types of values."""
    return [shortened(f"{_NAMES.refer(v)}: {type_text(v, _NAMES)}") for v in values] or ["none"]


def kind_rows(content: Content) -> list[dict[str, Any]]:
    """Return the counts of each kind of operator, the largest first; ``widths``: of the bars, in percent."""
    counts = [side.summary.ops for side in content.sides]
    largest = max((n for each in counts for n in each.values()), default=1)
    kinds = {kind for each in counts for kind in each}
    rows = []
    for kind in sorted(kinds, key=lambda k: (-max(each.get(k, 0) for each in counts), k)):
        numbers = [each.get(kind, 0) for each in counts]
        rows.append({"kind": kind, "counts": numbers, "widths": [100 * n / largest for n in numbers]})
    return rows


def pass_rows(content: Content) -> list[dict[str, Any]]:
    """Return what each pass changed."""
    return [
        {
            "name": each.name,
            "summary": pass_summary(find_pass(each.name)),
            "rewrites": each.rewrites,
            "removed": listed(each.removed),
            "added": listed(each.added),
        }
        for each in (content.trace.passes if content.trace is not None else ())
    ]


def structure_rows(content: Content) -> list[dict[str, Any]]:
    """Return removed, added, changed and kept operators."""
    found = content.structure
    if found is None:
        return []
    changed = [line for pair in found.changed for line in (f"- {pair[0]}", f"+ {pair[1]}")]
    return [
        {"state": "removed", "count": len(found.removed), "lines": listed(found.removed)},
        {"state": "added", "count": len(found.added), "lines": listed(found.added)},
        {"state": "changed", "count": len(found.changed), "lines": listed(changed)},
        {"state": "kept", "count": len(found.kept), "lines": listed(found.kept)},
    ]


def listed(lines: Sequence[str]) -> list[str]:
    """Shorten a list, and the lines in it."""
    shown = [shortened(line) for line in lines[:MAX_LISTED]]
    return shown if len(lines) <= MAX_LISTED else [*shown, f"... and {len(lines) - MAX_LISTED} more"]


def shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}..."


def cost_tables(content: Content) -> list[dict[str, Any]]:
    """Return the table of operators of each model: position, kind, result, shape, cost, share of the MACs."""
    tables = []
    for number, side in enumerate(content.sides):
        total = side.summary.macs or 1
        rows = [
            {
                "index": index,
                "graph": at,
                "kind": op.code,
                "name": result_name(op),
                "shape": result_shape(op),
                "macs": side.costs[op].macs,
                "share": 100 * side.costs[op].macs / total,
                "activations": side.costs[op].activation_bytes,
                "constants": side.costs[op].constant_bytes,
                "written": side.costs[op].written_bytes,
            }
            for at, graph in enumerate(side.source.model.graphs)
            for index, op in enumerate(graph)
        ]
        cost = [(side.costs[op].macs, side.costs[op].moved_bytes) for op in side.source.model.ops()]
        dearest = sorted(range(len(rows)), key=cost.__getitem__, reverse=True)[:MAX_ROWS]
        shown = [rows[position] for position in sorted(dearest)]
        tables.append({"side": number, "title": side.title, "rows": shown, "total": len(rows)})
    return tables


def result_name(op: Op) -> str:
    return value_name(op.results[0].name) if op.results else ""


def value_name(name: str) -> str:
    """Return ``%name``, quoted if it needs it, and shortened."""
    return shortened(quoted("%", name))


def result_shape(op: Op) -> str:
    """Return dtype and shape of the first result."""
    return repr(op.results[0].type) if op.results else ""


def arena_tables(content: Content) -> list[dict[str, Any]]:
    """Return the peak of live activations of each model, with the operator and the tensors that make it."""
    tables = []
    for side in content.sides:
        arena, ops = side.arena, side.source.model.main.ops
        if not ops:
            continue
        held = [
            {
                "name": value_name(life.value.name),
                "type": repr(life.value.type),
                "size": life.size,
                "first": life.first,
                "last": life.last,
            }
            for life in arena.held[:MAX_LISTED]
        ]
        tables.append(
            {
                "title": side.title,
                "peak": arena.peak_bytes,
                "index": arena.peak,
                "operator": shortened(print_op(ops[arena.peak])),
                "held": held,
            }
        )
    return tables


# -- the data of the script -------------------------------------------------------------------------


def script_data(content: Content) -> dict[str, Any]:
    """Return what the script of the page draws: graphs, operators, live bytes."""
    layers = content.values.layers if content.values is not None else ()
    errors = {layer.name: min(layer.relative, LARGEST_ERROR) for layer in layers}
    return {
        "sides": [
            {
                "title": side.title or "model",
                "live": side.arena.live_bytes,
                "graphs": [_graph(content, side, graph, errors) for graph in side.source.model.graphs],
            }
            for side in content.sides
        ]
    }


def _graph(content: Content, side: Side, graph: Graph, errors: dict[str, float]) -> dict[str, Any]:
    is_main = graph is side.source.model.main
    authors: dict[OpName, str] = {}
    if content.trace is not None:
        authors = content.trace.removers if side is content.sides[0] else content.trace.makers
    ops = []
    for op in graph:
        cost = side.costs[op]
        ops.append(
            {
                "kind": op.code,
                "class": category(op, cost),
                "name": result_name(op),
                "shape": result_shape(op),
                "text": shortened(print_op(op)),
                "macs": cost.macs,
                "read": cost.activation_bytes,
                "constants": cost.constant_bytes,
                "written": cost.written_bytes,
                "error": errors.get(op.results[0].name) if is_main and op.results else None,
                "state": content.structure.state.get(op) if content.structure is not None else None,
                "author": authors.get(op_name(op)),
            }
        )
    return {"name": graph.name or "graph", "ops": ops, **graph_drawing(graph)}


def category(op: Op, cost: OperatorCost) -> str:
    """Return the group of operators that a color of the drawing stands for."""
    if cost.macs:
        return "compute"
    return "movement" if op.data_movement else "elementwise" if op.elementwise else "other"
