# SPDX-License-Identifier: Apache-2.0
"""The graphs of a model that a caller can begin with."""

from __future__ import annotations

from copy import copy

from circlekit.ir.graph import Graph, Model


def entry_views(model: Model) -> list[Model]:
    """``model`` once for each graph, besides the main one, that a signature names, as its main graph.

    A view has the graphs that can be run from there, and nothing else: of a thousand graphs, each is looked
    at once.  They are those of ``model``, in the order of the signatures: what changes there changes here.
    """
    entries = dict.fromkeys(s.graph for s in model.signatures if s.graph is not model.main)
    views = []
    for entry in entries:
        view = copy(model)
        view.graphs = _run_from(entry)
        view.signatures, view.metadata, view.extra = [], [], {}
        views.append(view)
    return views


def _run_from(entry: Graph) -> list[Graph]:
    """``entry``, and what its operators run, and theirs."""
    found = {id(entry): entry}
    waiting = [entry]
    while waiting:
        for op in waiting.pop():
            for graph in op.called_graphs():
                if id(graph) not in found:
                    found[id(graph)] = graph
                    waiting.append(graph)
    return list(found.values())
