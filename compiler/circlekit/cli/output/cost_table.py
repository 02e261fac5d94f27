# SPDX-License-Identifier: Apache-2.0
"""The tables of circlekit inspect --cost: the cost of each operator, and the buffers at the arena's peak.

The arena is the memory for all activations.  A buffer of the arena is live while operators need it.  The
peak is the operator during which the live buffers have the most bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from circlekit.api.models import read
from circlekit.api.structure_checks import check_structure
from circlekit.cli.output.terminal import printable
from circlekit.ir.graph import Graph
from circlekit.ir.text.columns import abridged, format_columns
from circlekit.targets.cost import operator_cost
from circlekit.targets.memory_plan import plan_memory
from circlekit.targets.planners import Planner, default_planner, find_planner

MAX_NAME_COLUMNS = 40
"""Longer names of results and buffers are shortened to this many characters."""

MAX_BUFFERS = 12
"""Of the buffers that are live at the peak, the text lists at most this many: the largest ones."""


def cost_of(path: str, target: str | None) -> dict[str, Any]:
    """Return the cost of every operator and the arena of every graph of the model at ``path``, as JSON types.

    An unknown dimension counts as 1.
    ``target``: the name of the target whose memory planner is used; None: the default target for the format
    of the model.
    Raise UnsupportedError for an unknown target, and the errors of ``load`` and ``check_structure``.
    """
    model = read(path)[0]
    check_structure(model, path)
    planner = default_planner(model.format) if target is None else find_planner(target)
    return {
        "file": path,
        "target": planner.name,
        "planner": planner.title,
        "graphs": [_graph(graph, planner) for graph in model.graphs],
    }


def _graph(graph: Graph, planner: Planner) -> dict[str, Any]:
    """Return the costs and the arena of ``graph`` as JSON types.

    ``read_bytes``: the bytes of the operands that are not constant.  ``peak_operator``: an index; -1 if there
    is no operator.  ``first``, ``last``: the indices of the first and the last operator during which a buffer
    is live.
    """
    plan = plan_memory(graph, planner)
    operators = []
    for op, live in zip(graph, plan.live_bytes, strict=True):
        cost = operator_cost(op)
        operators.append(
            {
                "kind": op.code,
                "result": op.results[0].name if op.results else "",
                "macs": cost.macs,
                "read_bytes": cost.activation_bytes,
                "constant_bytes": cost.constant_bytes,
                "written_bytes": cost.written_bytes,
                "live_bytes": live,
            }
        )
    last_index = len(graph) - 1  # the plan gives a larger ``last`` to buffers that are kept to the end
    peak_buffers = [
        {"name": x.buffer.name, "bytes": x.size, "first": x.first, "last": min(x.last, last_index)}
        for x in plan.live_at_peak
    ]
    return {
        "name": graph.name,
        "arena_bytes": plan.size,
        "peak_operator": plan.peak_index,
        "peak_bytes": plan.peak_bytes,
        "peak_buffers": peak_buffers,
        "operators": operators,
    }


def cost_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that show ``document``, a result of ``cost_of``."""
    yield f"{printable(document['file'])}: memory as planned by {document['planner']}"
    for graph in document["graphs"]:
        yield ""
        yield from _graph_lines(graph, len(document["graphs"]) > 1)


def _graph_lines(graph: dict[str, Any], is_named: bool) -> Iterator[str]:
    """Yield the lines on one graph; ``is_named``: whether to begin with its name."""
    head = ("operator", "kind", "result", "MACs", "read", "constants", "written", "live")
    keys = ("macs", "read_bytes", "constant_bytes", "written_bytes", "live_bytes")
    rows: list[tuple[str, ...]] = [head]
    for number, op in enumerate(graph["operators"]):
        mark = " *" if number == graph["peak_operator"] else ""
        result = op["result"] and f"%{_name(op['result'])}"  # "" if there is none
        shown = (result + mark, *(f"{op[key]:,}" for key in keys))
        rows.append((str(number), op["kind"], *shown))
    if is_named:
        yield f"graph {printable(graph['name'], '')}"
    yield from format_columns(rows, left=3).splitlines()
    yield ""
    where = f"; most live bytes (*): {graph['peak_bytes']:,}" if graph["operators"] else ""
    yield f"arena: {graph['arena_bytes']:,} bytes{where}"
    if graph["peak_buffers"]:
        buffers = graph["peak_buffers"][:MAX_BUFFERS]
        table = [("live at the peak", "bytes", "from operator", "to operator")]
        table += [(_name(b["name"]), f"{b['bytes']:,}", str(b["first"]), str(b["last"])) for b in buffers]
        yield from format_columns(table).splitlines()
        if len(graph["peak_buffers"]) > len(buffers):
            yield f"... and {len(graph['peak_buffers']) - len(buffers)} more"


def _name(name: str) -> str:
    """Return ``name`` with escapes for control characters, shortened to MAX_NAME_COLUMNS."""
    return abridged(printable(name, ""), MAX_NAME_COLUMNS)
