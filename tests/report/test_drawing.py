# SPDX-License-Identifier: Apache-2.0
"""Folding and layout: every operator is drawn once, edges go down, boxes do not overlap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

import circlekit
from circlekit.ir.graph import Graph
from circlekit.report.drawing import graph_drawing
from circlekit.report.folding import MAX_UNDIVIDED_OPERATORS, Group, crossing_values, fold
from circlekit.report.layered_layout import GAP, draw
from circlekit.testing import random_model


def layers_of(count: int, scope: str = "layer_{}/") -> Graph:
    """A chain of residual layers of four operators, with one operator after them."""
    lines, last = [], "x"
    for number in range(count):
        at = scope.format(number) + str(number)
        lines += [
            f'%"{at}_a" = Abs(%"{last}")',
            f'%"{at}_b" = Logistic(%"{at}_a")',
            f'%"{at}_c" = Neg(%"{at}_b")',
            f'%"{at}_d" = Add(%"{at}_c", %"{last}")',
        ]
        last = f"{at}_d"
    body = "\n".join([*lines, f'%y = Relu(%"{last}")'])
    return circlekit.parse(f"graph main(%x: f32[4]) -> %y {{\n{body}\n}}").main


def operators(group: Group) -> list[int]:
    return [
        index
        for child in group.children
        for index in (operators(child) if isinstance(child, Group) else [child])
    ]


def groups_in(group: Group) -> list[Group]:
    inner = [child for child in group.children if isinstance(child, Group)]
    return [group, *(each for child in inner for each in groups_in(child))]


@pytest.mark.parametrize("graph", [layers_of(3), layers_of(50), layers_of(50, ""), layers_of(300, "a/b")])
def test_folding_keeps_operators_and_order(graph: Graph) -> None:
    root = fold(graph)
    assert operators(root) == list(range(len(graph)))
    for group in groups_in(root):
        assert operators(group) == list(range(group.first, group.stop))
    assert any(isinstance(child, Group) for child in root.children) == (len(graph) > MAX_UNDIVIDED_OPERATORS)


def test_scopes_of_names_are_groups() -> None:
    labels = [child.label for child in fold(layers_of(12)).children if isinstance(child, Group)]
    assert labels == [f"layer_{number}" for number in range(12)]


def test_repeated_blocks_are_groups() -> None:
    """The names have no scopes.  The operator after the blocks is in no group."""
    *blocks, last = fold(layers_of(12, "")).children
    assert [b.label for b in blocks if isinstance(b, Group)] == [f"block {i + 1}" for i in range(12)]
    assert last == 48


@pytest.mark.parametrize("graph", [layers_of(6), layers_of(50), *(random_model(s)[0].main for s in range(6))])
def test_layout(graph: Graph) -> None:
    for group in groups_in(fold(graph)):
        drawing = draw(graph, group)
        assert [box.child for box in drawing.boxes if box.child is not None] == list(group.children)
        rows = defaultdict(list)
        for box in drawing.boxes:
            rows[box.layer].append(box)
        for row in rows.values():
            for left, right in pairwise(sorted(row, key=lambda box: box.x)):
                assert right.x - left.x >= (left.width + right.width) / 2 + GAP - 1e-6
        for path, values in drawing.edges:
            assert values
            assert all(drawing.boxes[b].layer == drawing.boxes[a].layer + 1 for a, b in pairwise(path))


@pytest.mark.parametrize("seed", range(4))
def test_boxes_stand_as_near_to_their_readers_as_the_others_allow(seed: int) -> None:
    """Each box is pulled to the mean position of its readers.  The pulls of boxes that touch add up to 0.

    The pulls of the first few of these boxes, counted from the left, never add up to a negative number.  If
    they did, these few boxes could move left, nearer to their readers.
    """
    graph = random_model(seed)[0].main
    drawing = draw(graph, fold(graph))
    readers, rows = defaultdict(list), defaultdict(list)
    for path, _ in drawing.edges:
        for start, end in pairwise(path):
            readers[start].append(drawing.boxes[end].x)
    for number, box in sorted(enumerate(drawing.boxes), key=lambda item: item[1].x):
        rows[box.layer].append(number)
    for row in rows.values():
        pulls: list[float] = []
        for number, following in zip(row, [*row[1:], None], strict=True):
            box = drawing.boxes[number]
            pulls.append(float(np.mean(readers[number])) - box.x if readers[number] else np.nan)
            other = None if following is None else drawing.boxes[following]
            if other is None or other.x - box.x > (box.width + other.width) / 2 + GAP + 1e-6:
                sums = np.cumsum(pulls)  # NaN after a box without readers
                assert np.isnan(sums[-1]) or (abs(sums[-1]) < 1e-6 and sums.min() > -1e-6)
                pulls = []


def test_many_blocks_are_packed() -> None:
    """300 blocks and the operator after them form groups of 18, the square root of 301, rounded up."""
    children = fold(layers_of(300, "")).children
    assert [child.label for child in children[:2] if isinstance(child, Group)] == [
        "block 1 to block 18",
        "block 19 to block 36",
    ]
    assert len(children) < 20


def chain(kinds: Sequence[str], names: Sequence[str] = (), skips: Sequence[int] = ()) -> Graph:
    """Return operators one after the other; operator i in ``skips`` adds the result of operator i - 3."""
    names = names or [f"v{i}" for i in range(len(kinds))]
    lines = []
    for i, kind in enumerate(kinds):
        last = f'%"{names[i - 1]}"' if i else "%x"
        call = f'Add({last}, %"{names[i - 3]}")' if i in skips else f"{kind}({last})"
        lines.append(f'%"{names[i]}" = {call}')
    body = "\n".join(lines)
    return circlekit.parse(f'graph main(%x: f32[4]) -> %"{names[-1]}" {{\n{body}\n}}').main


IRREGULAR = [["Abs", "Neg", "Relu", "Exp"][int(d)] for d in "0120310233211003201331022312001323021103"]
"""Names of operators without a repeated block."""


def test_values_that_cross_are_counted() -> None:
    """Operators 1 and 3 read %v0, so two values cross the place before operator 2: %v0 and %v1.

    Two values also cross the place before operator 3: %v0 and %v2.
    """
    graph = chain(["Abs", "Neg", "Exp", "", "Relu"], skips=[3])
    assert crossing_values(graph.ops)[:5] == [0, 1, 2, 2, 1]


def test_a_graph_without_structure_is_cut_into_equal_stretches() -> None:
    """A stretch has a tenth of the 40 operators; the last may have twice as many."""
    ranges = [(c.first, c.stop) for c in fold(chain(IRREGULAR)).children if isinstance(c, Group)]
    assert ranges == [*((i, i + 4) for i in range(0, 32, 4)), (32, 40)]


def test_cuts_are_where_the_fewest_values_cross() -> None:
    """Operator 4 reads the result of operator 1, too: the first cut is after operator 4, not before it."""
    first = fold(chain(IRREGULAR, skips=[4])).children[0]
    assert isinstance(first, Group)
    assert (first.first, first.stop) == (0, 5)


def test_labels_of_stretches_name_computation_before_movement() -> None:
    kinds = ["Squeeze", "Abs", "Squeeze", "Neg", "Squeeze", "Abs", "Squeeze", "Exp"]
    graph = chain([*IRREGULAR[:32], *kinds])
    last = fold(graph).children[-1]
    assert isinstance(last, Group)
    assert last.label == "ABS, NEG"


def test_a_scope_with_nearly_all_operators_is_replaced_by_its_own_groups() -> None:
    names = [f"net/part_{i // 7}/v{i}" for i in range(35)] + [f"head/v{i}" for i in range(35, 40)]
    labels = [child.label for child in fold(chain(IRREGULAR, names)).children if isinstance(child, Group)]
    assert labels == ["part_0", "part_1", "part_2", "part_3", "part_4", "head"]


def test_a_scope_in_two_places_is_no_group() -> None:
    names = [f"{'ab'[i // 10 % 2]}/v{i}" for i in range(40)]
    labels = [child.label for child in fold(chain(IRREGULAR, names)).children if isinstance(child, Group)]
    assert labels[0] == "ABS, NEG"


def test_boxes_and_edges_of_a_small_graph() -> None:
    graph = chain(["Abs", "Neg", "Exp", ""], skips=[3])
    (group,) = graph_drawing(graph)["groups"]
    assert (group["range"], group["kinds"]) == ([0, 4], "1 ABS, 1 NEG, 1 EXP, 1 ADD")
    ops = [["op", i, 1 + i] for i in range(4)]
    ports = [["in", "%x: f32[4]", 0], ["out", "%v3: f32[4]", 5]]
    assert [box[:3] for box in group["boxes"]] == [*ops, *ports, ["bend", 0, 2], ["bend", 0, 3]]
    edges = {tuple(path): text for path, text in group["edges"]}
    assert edges == {
        (4, 0): "%x: f32[4]", (0, 1): "%v0: f32[4]", (1, 2): "%v1: f32[4]", (2, 3): "%v2: f32[4]",
        (0, 6, 7, 3): "%v0: f32[4]", (3, 5): "%v3: f32[4]",
    }  # fmt: skip


def test_equal_chains_stand_on_both_sides_of_0() -> None:
    # a box is 160 wide
    graph = circlekit.parse("graph main(%x: f32[4], %u: f32[4]) -> %p, %q { %p = Abs(%x) %q = Neg(%u) }").main
    layers = defaultdict(list)
    for box in draw(graph, fold(graph)).boxes:
        layers[box.layer].append(box.x)
    assert {tuple(sorted(row)) for row in layers.values()} == {(-(160 + GAP) / 2, (160 + GAP) / 2)}


def test_every_read_value_has_an_edge() -> None:
    graph = layers_of(3)
    drawing = draw(graph, fold(graph))
    drawn = {
        (value.name, child)
        for path, values in drawing.edges
        for value in values
        if isinstance(child := drawing.boxes[path[-1]].child, int)
    }
    assert drawn == {(v.name, i) for i, op in enumerate(graph) for v in op.inputs if v is not None}


def test_drawing_is_deterministic() -> None:
    assert graph_drawing(layers_of(40)) == graph_drawing(layers_of(40))
