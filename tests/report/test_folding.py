# SPDX-License-Identifier: Apache-2.0
"""Groups of the drawing: sizes, scopes, and the values that cross a cut."""

from __future__ import annotations

import random

import pytest

import circlekit
from circlekit.ir.graph import Graph
from circlekit.report.folding import (
    MAX_BLOCK_OPERATORS,
    MAX_CHILDREN,
    MAX_UNDIVIDED_OPERATORS,
    MIN_BLOCK_OPERATORS,
    MIN_REPEATS,
    Group,
    crossing_values,
    fold,
    scope_of,
)


def chain(length: int) -> Graph:
    kinds = ["Abs", "Neg", "Exp", "Square", "Tanh"]
    lines = "".join(f"  %v{i + 1} = {kinds[i % 5]}(%v{i})\n" for i in range(length))
    return circlekit.parse(f"graph main(%v0: f32[4]) -> %v{length} {{\n{lines}}}").main


def test_a_graph_that_fits_one_drawing_has_single_operators() -> None:
    group = fold(chain(MAX_UNDIVIDED_OPERATORS))
    assert group.children == tuple(range(MAX_UNDIVIDED_OPERATORS))
    larger = fold(chain(MAX_UNDIVIDED_OPERATORS + 1))
    assert len(larger.children) <= MAX_UNDIVIDED_OPERATORS
    assert any(not isinstance(child, int) for child in larger.children)
    assert (larger.first, larger.stop) == (0, MAX_UNDIVIDED_OPERATORS + 1)


KINDS = ["Abs", "Neg", "Exp", "Square", "Tanh", "Logistic", "Relu", "Relu6", "Sqrt", "Rsqrt", "Sin", "Cos"]
KINDS += ["Ceil", "Floor", "Round", "Log"]


def graph_of(kinds: list[str]) -> Graph:
    names = ["%x", *(f"%v{i}" for i in range(len(kinds)))]
    lines = "".join(f"{names[i + 1]} = {kind}({names[i]})\n" for i, kind in enumerate(kinds))
    return circlekit.parse(f"graph main(%x: f32[4]) -> {names[-1]} {{\n{lines}}}").main


@pytest.mark.parametrize(("before", "after", "is_found"), [(3, 4, True), (20, 12, True), (20, 13, False)])
def test_repeated_blocks_are_groups_if_they_cover_half(before: int, after: int, is_found: bool) -> None:
    """A block of four operators occurs eight times; the other operators are of random other kinds."""
    draw = random.Random(5)
    others = [draw.choice(KINDS[4:]) for _ in range(before + after)]
    kinds = [*others[:before], *KINDS[:4] * 8, *others[before:]]
    groups = [child for child in fold(graph_of(kinds)).children if isinstance(child, Group)]
    blocks = [group for group in groups if group.label.startswith("block ")]
    expected = [(f"block {i + 1}", before + 4 * i, before + 4 * (i + 1)) for i in range(8)] * is_found
    assert [(group.label, group.first, group.stop) for group in blocks] == expected
    if is_found:
        assert [(g.label, g.first, g.stop) for g in groups if g not in blocks] == [
            ("before the blocks", 0, before), ("after the blocks", before + 32, len(kinds))
        ]  # fmt: skip


def test_scopes_are_groups_with_their_names() -> None:
    draw = random.Random(6)
    lines, last = "", "%x"
    for index in range(60):
        name = f'%"net/{"abc"[index // 20]}/v{index}"'
        lines, last = lines + f"{name} = {draw.choice(KINDS)}({last})\n", name
    group = fold(circlekit.parse(f"graph main(%x: f32[4]) -> {last} {{\n{lines}}}").main)
    parts = [child for child in group.children if isinstance(child, Group)]
    assert [(part.label, part.first, part.stop) for part in parts] == [
        ("a", 0, 20),
        ("b", 20, 40),
        ("c", 40, 60),
    ]
    assert parts[0].children == tuple(range(20))


@pytest.mark.parametrize(("count", "is_found"), [(MAX_CHILDREN, True), (MAX_CHILDREN + 1, False)])
def test_many_scopes_are_no_groups(count: int, is_found: bool) -> None:
    """Each scope has two operators."""
    draw, lines, last = random.Random(9), "", "%x"
    for index in range(2 * count):
        name = f'%"s{index // 2}/v{index}"'
        lines, last = lines + f"{name} = {draw.choice(KINDS)}({last})\n", name
    group = fold(circlekit.parse(f"graph main(%x: f32[4]) -> {last} {{\n{lines}}}").main)
    labels = [child.label for child in group.children if isinstance(child, Group)]
    assert (labels == [f"s{index}" for index in range(count)]) is is_found


@pytest.mark.parametrize("count", [MAX_CHILDREN, MAX_CHILDREN + 1, MAX_CHILDREN + 3])
def test_many_neighbors_are_joined(count: int) -> None:
    """There are about as many groups as children in a group; a single child that is left stays alone."""
    group = fold(graph_of(KINDS[:MIN_BLOCK_OPERATORS] * count))
    labels = [child.label for child in group.children if isinstance(child, Group)]
    if count == MAX_CHILDREN:
        assert labels == [f"block {i + 1}" for i in range(count)]
        return
    size = 7  # the square root of 41, or of 43, rounded up
    expected = [(start, min(start + size, count)) for start in range(0, count, size)]
    assert labels == [f"block {a + 1} to block {b}" if b - a > 1 else f"block {b}" for a, b in expected]
    assert [(g.first, g.stop) for g in group.children if isinstance(g, Group)] == [
        (MIN_BLOCK_OPERATORS * a, MIN_BLOCK_OPERATORS * b) for a, b in expected
    ]


def test_values_that_cross_a_cut_are_counted() -> None:
    """A cut before each operator and one after the last; inputs of the graph do not count.

    %a is read twice, %u by nobody.
    """
    graph = circlekit.parse("""graph main(%x: f32[4]) -> %y {
      %a = Abs(%x)
      %u = Neg(%a)
      %b = Exp(%x)
      %y = Add(%a, %b)
    }""").main
    assert crossing_values(graph.ops) == [0, 1, 1, 2, 0]


def test_scopes_are_the_parts_of_a_name() -> None:
    graph = circlekit.parse('graph main(%x: f32[4]) -> %"m/l.1::a;q/z" {\n %"m/l.1::a;q/z" = Abs(%x)\n}').main
    assert scope_of(graph.ops[0]) == ["m", "l", "1"]


@pytest.mark.parametrize(("repeats", "is_found"), [(MIN_REPEATS - 1, False), (MIN_REPEATS, True)])
def test_a_block_needs_at_least_min_repeats(repeats: int, is_found: bool) -> None:
    kinds = KINDS * repeats
    assert len(set(KINDS)) == len(KINDS) > MAX_UNDIVIDED_OPERATORS / MIN_REPEATS
    labels = [child.label for child in fold(graph_of(kinds + KINDS[:4])).children if isinstance(child, Group)]
    assert [label for label in labels if label.startswith("block ")] == [
        f"block {i + 1}" for i in range(repeats * is_found)
    ]


@pytest.mark.parametrize(
    ("size", "is_found"),
    [(MIN_BLOCK_OPERATORS - 1, False), (MIN_BLOCK_OPERATORS, True), (4, True)],
)
def test_the_smallest_block_is_the_one_that_is_shown(size: int, is_found: bool) -> None:
    """Twenty repeats of a block are not shown as ten repeats of two blocks, unless the block is too small."""
    groups = [child for child in fold(graph_of(KINDS[:size] * 20)).children if isinstance(child, Group)]
    shown = [size] * 20 if is_found else [2 * size] * 10
    assert [group.stop - group.first for group in groups] == shown


@pytest.mark.parametrize(
    ("size", "is_found"), [(MAX_BLOCK_OPERATORS, True), (MAX_BLOCK_OPERATORS + 1, False)]
)
def test_a_block_has_at_most_max_block_operators(size: int, is_found: bool) -> None:
    draw = random.Random(7)
    block = [draw.choice(KINDS) for _ in range(size)]
    groups = [child for child in fold(graph_of(block * 3)).children if isinstance(child, Group)]
    assert any(group.label.startswith("block ") for group in groups) is is_found


def test_blocks_are_found_inside_a_scope_that_is_not_the_first() -> None:
    """The blocks cover more than half of the scope b, but less than half of the graph."""
    draw = random.Random(10)
    kinds = [draw.choice(KINDS[4:]) for _ in range(20)] + KINDS[:4] * 6
    kinds += [draw.choice(KINDS[4:]) for _ in range(12)]
    lines, last = "", "%x"
    for index, kind in enumerate(kinds):
        name = f'%"{"a" if index < 20 else "b"}/v{index}"'
        lines, last = lines + f"{name} = {kind}({last})\n", name
    first, second = fold(circlekit.parse(f"graph main(%x: f32[4]) -> {last} {{\n{lines}}}").main).children
    assert isinstance(first, Group)
    assert isinstance(second, Group)
    assert [child.label for child in second.children if isinstance(child, Group)] == [
        *(f"block {i + 1}" for i in range(6)), "after the blocks"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "reader", "cut"),
    [(0, 3, 4), (0, 4, 5), (0, 5, 6), (0, 6, 7), (0, 7, 4), (0, 8, 4), (2, 20, 3), (1, 20, 4)],
)
def test_a_stretch_has_half_to_twice_the_usual_length(source: int, reader: int, cut: int) -> None:
    """The usual length is 40 / 10.  The cut is the place from 3 to 7, nearest to 4, that one value crosses.

    The operator ``reader`` reads the result of the operator ``source``, so two values cross between these two
    operators.  If two values cross all places from 3 to 7, the cut is at 4.
    """
    draw, lines = random.Random(11), ""
    for index in range(40):
        last = f"%v{index - 1}" if index else "%x"
        call = f"Add({last}, %v{source})" if index == reader else f"{draw.choice(KINDS)}({last})"
        lines += f"%v{index} = {call}\n"
    first = fold(circlekit.parse(f"graph main(%x: f32[4]) -> %v39 {{\n{lines}}}").main).children[0]
    assert isinstance(first, Group)
    assert (first.first, first.stop) == (0, cut)


SEGMENTS = (3, 9, 6, 9, 3, 9, 5, 6)
"""Lengths between half and twice a tenth of their sum."""


def test_without_scopes_and_blocks_a_graph_is_cut_where_one_value_crosses() -> None:
    """The last operator of a segment reads the input of the segment again, so two values cross inside."""
    draw, lines, last, number = random.Random(8), "", "%x", 0
    for length in SEGMENTS:
        again = last
        for index in range(length):
            number += 1
            is_end = index == length - 1
            call = f"Add({last}, {again})" if is_end else f"{draw.choice(KINDS)}({last})"
            last = f"%v{number}"
            again = last if number == 1 else again  # inputs of the graph do not count
            lines += f"{last} = {call}\n"
    groups = fold(circlekit.parse(f"graph main(%x: f32[4]) -> {last} {{\n{lines}}}").main).children
    assert [g.stop - g.first for g in groups if isinstance(g, Group)] == [*SEGMENTS]
