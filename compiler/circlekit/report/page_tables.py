# SPDX-License-Identifier: Apache-2.0
"""Make the tables of a report's page as plain data: strings, numbers, lists and dicts.

The template of the page reads them.  The report is about one model, or about two, before and after a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from circlekit.equivalence.judgement.judgement_tables import Rows, layer_rows, output_rows
from circlekit.ir.text.lines import Names, print_op, type_text
from circlekit.ir.value import Value
from circlekit.passes.engine.describe import summary as pass_summary
from circlekit.passes.engine.registry import find_pass
from circlekit.report.content import Content, Side
from circlekit.report.operator_texts import result_name, result_type, shortened

MAX_LISTED = 200
"""Longer lists of operators, or of buffers at the peak, are cut to this length."""

MAX_ROWS = 1000
"""Tables of costs and of errors show at most this many operators: those with the highest cost or error."""

_NAMES = Names()
"""Makes the texts of values; each value appears under the name that it has in the model."""


def summary_rows(content: Content) -> list[tuple[str, list[list[str]]]]:
    """Return the rows of the summary: (name, one cell for each model); a cell is a list of lines."""

    def row(name: str, cell: Callable[[Side], list[str] | str]) -> tuple[str, list[list[str]]]:
        """Return one row; ``cell``: returns the lines, or the only line, of the cell for a model."""
        cells = [cell(side) for side in content.sides]
        return name, [[text] if isinstance(text, str) else text for text in cells]

    def count(number: int | None) -> str:
        """Return a number with commas; None stands for a model without a file."""
        return "no file" if number is None else f"{number:,}"

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
        # the arena holds activations and scratch buffers of the main graph, with gaps
        row("peak arena, bytes", lambda side: f"{side.arena.size:,} ({side.arena.planner.title})"),
        row("peak of live activations, bytes", lambda side: count(side.arena.peak_bytes)),
    ]


def described(values: Sequence[Value]) -> list[str]:
    """Return a line with name and type for each value."""
    return [shortened(f"{_NAMES.refer(v)}: {type_text(v, _NAMES)}") for v in values] or ["none"]


def kind_rows(content: Content) -> list[dict[str, Any]]:
    """Return a row for each kind of operator, the most frequent first.

    The keys: ``kind``; ``counts``, one for each model; ``widths`` of the bars, in percent of the longest bar.
    """
    counts = [side.summary.ops for side in content.sides]
    largest = max((n for each in counts for n in each.values()), default=1)
    kinds = {kind for each in counts for kind in each}
    rows = []
    for kind in sorted(kinds, key=lambda k: (-max(each.get(k, 0) for each in counts), k)):
        numbers = [each.get(kind, 0) for each in counts]
        rows.append({"kind": kind, "counts": numbers, "widths": [100 * n / largest for n in numbers]})
    return rows


def pass_rows(content: Content) -> list[dict[str, Any]]:
    """Return a row for each pass that changed something; [] if no passes were run."""
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
    """Return four rows, for removed, added, changed and kept operators; [] if there is only one model."""
    structure = content.structure
    if structure is None:
        return []
    changed = [line for pair in structure.changed for line in (f"- {pair[0]}", f"+ {pair[1]}")]
    return [
        {"state": "removed", "count": len(structure.removed), "lines": listed(structure.removed)},
        {"state": "added", "count": len(structure.added), "lines": listed(structure.added)},
        {"state": "changed", "count": len(structure.changed), "lines": listed(changed)},
        {"state": "kept", "count": len(structure.kept), "lines": listed(structure.kept)},
    ]


def listed(lines: Sequence[str]) -> list[str]:
    """Return ``lines``, each shortened; if they are too many, the last line says how many are left out."""
    shown = [shortened(line) for line in lines[:MAX_LISTED]]
    return shown if len(lines) <= MAX_LISTED else [*shown, f"... and {len(lines) - MAX_LISTED} more"]


def cost_tables(content: Content) -> list[dict[str, Any]]:
    """Return for each model the table of its operators, with their costs and shares of the MACs.

    If a model has more than MAX_ROWS operators, its table has those with the most MACs; if MACs are equal,
    moved bytes decide.  ``total``: the number of all operators.  ``activations``, ``constants``, ``written``
    are in bytes.
    """
    tables = []
    for number, side in enumerate(content.sides):
        total_macs = side.summary.macs or 1
        rows = [
            {
                "index": index, "graph": graph_index,
                "kind": op.code, "name": result_name(op), "shape": result_type(op),
                "macs": side.costs[op].macs, "share": 100 * side.costs[op].macs / total_macs,
                "activations": side.costs[op].activation_bytes,
                "constants": side.costs[op].constant_bytes, "written": side.costs[op].written_bytes,
            }
            for graph_index, graph in enumerate(side.source.model.graphs)
            for index, op in enumerate(graph)
        ]  # fmt: skip
        cost = [(side.costs[op].macs, side.costs[op].moved_bytes) for op in side.source.model.ops()]
        costliest = sorted(range(len(rows)), key=cost.__getitem__, reverse=True)[:MAX_ROWS]
        shown = [rows[position] for position in sorted(costliest)]
        tables.append({"side": number, "title": side.title, "rows": shown, "total": len(rows)})
    return tables


def quantization_tables(content: Content) -> list[tuple[str, Rows]]:
    """Return (title, rows) of each table of quantization errors; the first row is the header.

    Return [] if values were not compared, or if the second model is not a quantized form of the first.
    """
    judgement = content.values.judgement if content.values is not None else None
    if judgement is None:
        return []
    layers = layer_rows(judgement, MAX_ROWS)
    return [
        ("Quantization error of the outputs", output_rows(judgement)),
        ("Operators, by the error that each adds to its result", layers),
    ]


def arena_tables(content: Content) -> list[dict[str, Any]]:
    """Return for each model with operators the size of its arena, and the buffers at the peak.

    The peak is the first operator for which the most bytes are needed.  ``held``: the buffers that are needed
    then (activations, scratch), with the indices of the first and the last operator that need them.
    """
    tables = []
    for side in content.sides:
        arena, ops = side.arena, side.source.model.main.ops
        if not ops:
            continue
        held = [
            {
                "name": shortened(life.buffer.name),
                "type": repr(life.buffer.values[0].type) if life.buffer.values else "",
                # ``life.last`` is the number of operators for a buffer that is kept to the end
                "size": life.size, "first": life.first, "last": min(life.last, len(ops) - 1),
            }
            for life in arena.live_at_peak[:MAX_LISTED]
        ]  # fmt: skip
        tables.append(
            {
                "title": side.title,
                "peak": arena.peak_bytes,
                "size": arena.size,
                "planner": arena.planner.title,
                "index": arena.peak_index,
                "operator": shortened(print_op(ops[arena.peak_index])),
                "held": held,
            }
        )
    return tables
