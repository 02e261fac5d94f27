# SPDX-License-Identifier: Apache-2.0
"""Compute a layered layout of one group of a folded graph.

A folded graph has its operators in nested groups, so that a drawing shows few boxes at a time.
Operators and groups are boxes in layers, which lie one below the other.  An edge goes from a layer to a later
layer; in each layer between them it has a bend, a small box.  The boxes of a layer are ordered so that few
edges cross (barycenter method).  Then every box moves sideways, towards the boxes to which it is connected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.report.folding import Group

BOX_WIDTH, PORT_WIDTH, BEND_WIDTH = 160, 120, 12
"""The widths in pixels of an operator or group, of a value that enters or leaves the group, and of a bend."""

GAP = 22
"""The least distance between two boxes of a layer, in pixels."""

SWEEPS = 6
"""How often all layers are visited, from the first to the last and back, to improve the order of their boxes.

After that, the layers are visited the same number of times to improve the places of the boxes.
"""


@dataclass
class Box:
    """A node of the drawing.

    The box stands for a ``child`` of the group (a group or the index of an operator), or for a ``value`` that
    enters the group or leaves it (``is_output``).  If ``child`` and ``value`` are None, it is a bend.
    ``layer``: the index of its layer, 0 at the top.  ``x``: the horizontal center, in pixels.
    """

    child: Group | int | None = None
    value: Value | None = None
    is_output: bool = False
    width: int = BEND_WIDTH
    layer: int = 0
    x: float = 0.0


@dataclass
class Drawing:
    """The boxes and edges of one group.

    An edge is a pair: the indices of its boxes (the first, the bends, the last), and the values that it
    stands for.
    """

    group: Group
    boxes: list[Box] = field(default_factory=list)
    edges: list[tuple[list[int], list[Value]]] = field(default_factory=list)


def draw(graph: Graph, group: Group) -> Drawing:
    """Return the layout of ``group``; a group among its children is a single box."""
    drawing = Drawing(group, [Box(child, width=BOX_WIDTH) for child in group.children])
    links = _links(graph, group, drawing.boxes)
    _assign_layers(drawing.boxes, links)
    for (start, end), values in links.items():
        path = [start]
        for layer in range(drawing.boxes[start].layer + 1, drawing.boxes[end].layer):
            drawing.boxes.append(Box(layer=layer))
            path.append(len(drawing.boxes) - 1)
        drawing.edges.append(([*path, end], values))
    _place(drawing)
    return drawing


def _links(graph: Graph, group: Group, boxes: list[Box]) -> dict[tuple[int, int], list[Value]]:
    """Return {(index of a box, index of another box): the values that the second reads from the first}.

    ``boxes``: those of the children of ``group``, in order.  Add a box for each value that enters or leaves
    the group.  Constants, and values that are neither computed nor inputs of the graph, are not drawn.
    """
    ops = graph.ops
    owner: dict[int, int] = {}  # index of an operator of the group: its box
    for number, child in enumerate(group.children):
        members = [child] if isinstance(child, int) else range(child.first, child.stop)
        owner.update(dict.fromkeys(members, number))
    source: dict[Value, int] = {v: owner[i] for i in owner for v in ops[i].results}  # box that gives a value
    inside = {ops[index] for index in owner}
    links: dict[tuple[int, int], dict[Value, None]] = defaultdict(dict)  # the inner dict: an ordered set
    for index, number in owner.items():
        for value in ops[index].inputs:
            if value is None or value.is_const or (value.producer is None and not graph.is_input(value)):
                continue
            if value not in source:
                boxes.append(Box(value=value, width=PORT_WIDTH))
                source[value] = len(boxes) - 1
            if source[value] != number:
                links[source[value], number][value] = None
    for value in [v for index in owner for v in ops[index].results]:
        if graph.is_output(value) or value.other_user(inside) is not None:
            boxes.append(Box(value=value, is_output=True, width=PORT_WIDTH))
            links[source[value], len(boxes) - 1][value] = None
    return {ends: list(values) for ends, values in links.items()}


def _assign_layers(boxes: Sequence[Box], links: Iterable[tuple[int, int]]) -> None:
    """Set the layer of each box: below all boxes that it reads.

    A value that enters the group is in the layer directly above the highest box that reads the value.
    """
    below: dict[int, list[int]] = defaultdict(list)
    above: dict[int, list[int]] = defaultdict(list)
    for start, end in links:
        below[start].append(end)
        above[end].append(start)
    inputs = [i for i, box in enumerate(boxes) if box.value is not None and not box.is_output]
    order = [i for i, box in enumerate(boxes) if box.child is not None]  # children are in execution order
    outputs = [i for i, box in enumerate(boxes) if box.is_output]
    for number in [*order, *outputs]:
        boxes[number].layer = max((boxes[i].layer + 1 for i in above[number]), default=0)
    for number in inputs:
        boxes[number].layer = min(boxes[i].layer for i in below[number]) - 1  # it has a reader
    lowest = min((box.layer for box in boxes), default=0)
    for box in boxes:
        box.layer -= lowest


def _place(drawing: Drawing) -> None:
    """Order the boxes of each layer, and set their places (``Box.x``)."""
    boxes = drawing.boxes
    layers: list[list[int]] = [[] for _ in range(max((box.layer for box in boxes), default=-1) + 1)]
    for number, box in enumerate(boxes):
        layers[box.layer].append(number)
    above: dict[int, list[int]] = defaultdict(list)
    below: dict[int, list[int]] = defaultdict(list)
    for path, _ in drawing.edges:
        for start, end in pairwise(path):
            below[start].append(end)
            above[end].append(start)
    for layer in layers:
        _pack(boxes, layer)
    for _ in range(SWEEPS):  # order: by the mean place of the neighbors in the layer visited before
        for neighbors, sequence in ((above, layers), (below, layers[::-1])):
            for layer in sequence:
                wanted = {n: _mean([boxes[i].x for i in neighbors[n]], boxes[n].x) for n in layer}
                layer.sort(key=wanted.__getitem__)  # stable: boxes that want the same place keep their order
                _pack(boxes, layer)
    for _ in range(SWEEPS):  # places: towards the same mean; the order stays
        for neighbors, sequence in ((above, layers), (below, layers[::-1])):
            for layer in sequence:
                _settle(boxes, layer, [_mean([boxes[i].x for i in neighbors[n]], boxes[n].x) for n in layer])


def _mean(numbers: Sequence[float], default: float) -> float:
    """Return the mean of ``numbers``, or ``default`` if there are none."""
    return sum(numbers) / len(numbers) if numbers else default


def _pack(boxes: Sequence[Box], layer: Sequence[int]) -> None:
    """Put the boxes of a layer side by side, so that the middle of the row is at 0."""
    total = sum(boxes[n].width for n in layer) + GAP * (len(layer) - 1)
    x = -total / 2
    for number in layer:
        boxes[number].x = x + boxes[number].width / 2
        x += boxes[number].width + GAP


def _settle(boxes: Sequence[Box], layer: Sequence[int], wanted: Sequence[float]) -> None:
    """Move each box of a layer as near to its place in ``wanted`` as its neighbors allow.

    Boxes that would overlap form a block around the mean of their wanted places (pool adjacent violators).
    """
    offsets = [0.0]  # the center of each box if all stood side by side
    for left, right in pairwise(layer):
        offsets.append(offsets[-1] + (boxes[left].width + boxes[right].width) / 2 + GAP)
    blocks: list[tuple[float, int]] = []  # (mean of wanted place - offset, number of boxes)
    for place, offset in zip(wanted, offsets, strict=True):
        mean, count = place - offset, 1
        while blocks and blocks[-1][0] > mean:
            earlier, size = blocks.pop()
            mean, count = (mean * count + earlier * size) / (count + size), count + size
        blocks.append((mean, count))
    places = [mean for mean, count in blocks for _ in range(count)]
    for number, place, offset in zip(layer, places, offsets, strict=True):
        boxes[number].x = place + offset
