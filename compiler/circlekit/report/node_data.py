# SPDX-License-Identifier: Apache-2.0
"""Make node data for Model Explorer: numbers of operators, their costs or the errors of their results.

Model Explorer, a viewer of models, colors operators by these numbers.  The format
(https://github.com/google-ai-edge/model-explorer) is a JSON object with a key for each graph::

    {"main": {"name": "MACs", "results": {"0": {"value": 1024}}, "gradient": [...]}}

The keys of ``results`` are the indices of operators in their graph.  The key of a graph is its name, or
``main`` if it has none.  If several graphs have the same key, only the first of them has data; the main graph
is the first of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.targets.cost import operator_cost

MEASURES: dict[str, tuple[str, Callable[[Op], float]]] = {
    "macs": ("MACs", lambda op: operator_cost(op).macs),
    "bytes": ("bytes moved", lambda op: operator_cost(op).moved_bytes),
}
"""{name: (title, function of an operator)} for measures that need no run of the model."""

GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#ff8a3d"}]
"""The colors of the smallest and of the largest number."""


def cost_data(model: Model, measure: str) -> dict[str, Any]:
    """Return the node data of ``measure``, a key of MEASURES."""
    title, function = MEASURES[measure]
    return _node_data(model, title, function)


def error_data(model: Model, errors: Mapping[str, float]) -> dict[str, Any]:
    """Return the node data of ``errors``: {name of a result in the main graph: relative difference}.

    The number of an operator is the error of its first result.  Operators without an entry are left out,
    and so are operators of other graphs and operators whose error is not finite.
    """

    def error_of(op: Op) -> float | None:
        return errors.get(op.results[0].name) if op.results and op.graph is model.main else None

    return _node_data(model, "relative difference", error_of)


def _node_data(model: Model, title: str, measure: Callable[[Op], float | None]) -> dict[str, Any]:
    """Return the node data: the numbers that ``measure`` returns, without None, NaN and infinite ones."""
    data: dict[str, Any] = {}
    for graph in model.graphs:
        values = {str(index): measure(op) for index, op in enumerate(graph)}
        results = {i: {"value": x} for i, x in values.items() if x is not None and math.isfinite(x)}
        data.setdefault(graph.name or "main", {"name": title, "results": results, "gradient": GRADIENT})
    return data
