# SPDX-License-Identifier: Apache-2.0
"""Make the drawing of a graph as plain data, for the script of the page that circlekit report writes.

The operators of a large graph are in nested groups, see ``folding``.  The page opens and closes groups.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from circlekit.ir.graph import Graph
from circlekit.ir.text.lines import Names
from circlekit.ir.value import Value
from circlekit.report.folding import Group, fold
from circlekit.report.layered_layout import Box, Drawing, draw

_NAMES = Names()
"""Makes the texts of values; each value appears under the name that it has in the model."""

MAX_LABEL_CHARACTERS = 120
"""Longer labels of groups, and longer texts of values, are cut to this length."""


def graph_drawing(graph: Graph) -> dict[str, Any]:
    """Return {"groups": list}; the first group is the whole graph.

    A group is a dict with the keys ``label``, ``range`` (its operators as [first, last + 1]), ``kinds`` (how
    many operators of each kind it has, as a text), ``boxes`` and ``edges``.

    A box is a list [kind, content, layer, horizontal center in pixels].  The kinds and their contents:

    - ``op``: the index of an operator in the graph;
    - ``group``: the index of a group in the list;
    - ``in``, ``out``: the text of a value that enters or leaves the group;
    - ``bend``: 0; the box is a point of an edge in a layer that the edge crosses.

    An edge is a list [indices of its boxes from start to end, text of its values].
    """
    groups: list[dict[str, Any]] = []
    _add(graph, fold(graph), groups)
    return {"groups": groups}


def _add(graph: Graph, group: Group, groups: list[dict[str, Any]]) -> int:
    """Append ``group`` and all groups in it to ``groups``; return the index of ``group``."""
    number = len(groups)
    groups.append({})  # its place in the list; the groups in it come behind it
    drawing = draw(graph, group)
    members = [box.child for box in drawing.boxes if isinstance(box.child, Group)]
    numbers = {id(child): _add(graph, child, groups) for child in members}
    kinds = Counter(op.code for op in graph.ops[group.first : group.stop])
    groups[number] = {
        "label": group.label[:MAX_LABEL_CHARACTERS],
        "range": [group.first, group.stop],
        "kinds": ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
        "boxes": [_box(box, numbers) for box in drawing.boxes],
        "edges": _edges(drawing),
    }
    return number


def _box(box: Box, numbers: dict[int, int]) -> list[Any]:
    """Return the list for a box; ``numbers``: {id of a group: its index in the list of groups}."""
    place = [box.layer, round(box.x)]
    if isinstance(box.child, Group):
        return ["group", numbers[id(box.child)], *place]
    if box.child is not None:
        return ["op", box.child, *place]
    if box.value is not None:
        return ["out" if box.is_output else "in", _text(box.value), *place]
    return ["bend", 0, *place]


def _edges(drawing: Drawing) -> list[list[Any]]:
    """Return the lists for the edges."""
    return [[path, "\n".join(_text(value) for value in values)] for path, values in drawing.edges]


def _text(value: Value) -> str:
    """Return name and type of ``value``: ``%x: f32[1,2]``."""
    return f"{_NAMES.refer(value)[:MAX_LABEL_CHARACTERS]}: {value.type!r}"
