# SPDX-License-Identifier: Apache-2.0
"""The graphs of a model that a caller can begin with."""

from __future__ import annotations

from copy import copy

from circlekit.ir.graph import Model


def entry_views(model: Model) -> list[Model]:
    """``model`` once for each graph, besides the main one, that a signature names, as its main graph.

    The graphs are those of ``model``, in the order of the signatures: what changes there changes here.
    """
    entries = dict.fromkeys(s.graph for s in model.signatures if s.graph is not model.main)
    views = []
    for entry in entries:
        view = copy(model)
        view.graphs = [entry, *(g for g in model.graphs if g is not entry)]
        view.signatures = []
        views.append(view)
    return views
