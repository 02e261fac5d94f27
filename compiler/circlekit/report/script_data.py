# SPDX-License-Identifier: Apache-2.0
"""Collect the data for the script of the HTML report: graphs, operators, live bytes.

Live bytes of an operator: the size of all activations and scratch buffers that are needed while it runs.
"""

from __future__ import annotations

from typing import Any

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.text.lines import print_op
from circlekit.report.content import Content, Side
from circlekit.report.drawing import graph_drawing
from circlekit.report.model_changes import OpName, op_name
from circlekit.report.operator_texts import result_name, result_type, shortened
from circlekit.targets.cost import OperatorCost

LARGEST_ERROR = 1e300
"""Relative differences above this number, also infinite ones, become this number: JSON has no infinity."""


def script_data(content: Content) -> dict[str, Any]:
    """Return the data of the script as JSON values.

    For each model these are its title, the live bytes of each operator of the main graph, and its graphs.
    """
    found = content.values.layer_errors if content.values is not None else {}
    errors = {name: min(error, LARGEST_ERROR) for name, error in found.items()}
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
    """Return the name, the operators and the drawing of ``graph``.

    ``errors``: {name of a result in the main graph: relative difference}.

    An operator is a dict.  Some of its keys:

    - ``class``: see ``category``.
    - ``shape``: the type of the first result.
    - ``read``, ``constants``, ``written``: the bytes of the computed operands, constant operands and results.
    - ``error``: the relative difference; None outside of the main graph, or if it is not known.
    - ``state``: see ``Structure``; None for one model.
    - ``author``: a pass, or None.  In the first model it is the one that first removed or changed the
      operator, in the second model the one that made or last changed it.
    """
    is_main = graph is side.source.model.main
    authors: dict[OpName, str] = {}
    if content.trace is not None:
        authors = content.trace.removers if side is content.sides[0] else content.trace.makers
    ops = []
    for op in graph:
        cost = side.costs[op]
        ops.append(
            {
                "kind": op.code, "class": category(op, cost),
                "name": result_name(op), "shape": result_type(op), "text": shortened(print_op(op)),
                "macs": cost.macs, "read": cost.activation_bytes,
                "constants": cost.constant_bytes, "written": cost.written_bytes,
                "error": errors.get(op.results[0].name) if is_main and op.results else None,
                "state": content.structure.state.get(op) if content.structure is not None else None,
                "author": authors.get(op_name(op)),
            }
        )  # fmt: skip
    return {"name": graph.name or "graph", "ops": ops, **graph_drawing(graph)}


def category(op: Op, cost: OperatorCost) -> str:
    """Return the class by which ``op`` is colored: compute (it has MACs), movement, elementwise or other."""
    if cost.macs:
        return "compute"
    return "movement" if op.data_movement else "elementwise" if op.elementwise else "other"
