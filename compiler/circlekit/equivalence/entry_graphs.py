# SPDX-License-Identifier: Apache-2.0
"""Entry points of a model other than its main graph."""

from __future__ import annotations

from copy import copy

from circlekit.ir.graph import Graph, Model


def entry_views(model: Model) -> list[Model]:
    """Return one view of ``model`` for each other graph that a signature names, as its main graph.

    A view has that graph and the graphs called from it, directly or not.  They are the graphs of ``model``,
    not copies, so that a view shows later changes.
    """
    entries = dict.fromkeys(s.graph for s in model.signatures if s.graph is not model.main)
    views = []
    for entry in entries:
        view = copy(model)
        view.graphs = reachable_graphs(entry)
        view.signatures, view.metadata, view.extra = [], [], {}
        views.append(view)
    return views


def reachable_graphs(start: Graph) -> list[Graph]:
    """Return ``start`` and all graphs called from it, directly or not."""
    found = {id(start): start}
    pending = [start]
    while pending:
        for op in pending.pop():
            for graph in op.called_graphs():
                if id(graph) not in found:
                    found[id(graph)] = graph
                    pending.append(graph)
    return list(found.values())
