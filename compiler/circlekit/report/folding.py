# SPDX-License-Identifier: Apache-2.0
"""Fold a large graph into groups for its drawing: named scopes, repeated blocks, or stretches of operators.

A scope is a part of a value's name: ``layer_1`` in ``model/layer_1/Relu``.  Every group is a range in the
execution order of the operators.  So the dependencies between groups form no cycle.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op

MAX_UNDIVIDED_OPERATORS = 32
"""A graph or group with more operators than this is divided into groups."""

MAX_CHILDREN = 40
"""If a group has more children than this, neighboring children are joined.

Scopes become groups only if the scopes and the operators outside of them are together at most this many.
"""

USUAL_GROUPS = 10
"""A group with neither useful scopes nor repeated blocks is cut into about this many groups."""

MAX_CHILD_SHARE = 0.8
"""A child with more than this share of the operators of its group is replaced by its own children."""

MIN_REPEATS = 3
"""A sequence of operators is a repeated block if it occurs at least this many times in a row."""

MIN_BLOCK_OPERATORS, MAX_BLOCK_OPERATORS = 3, 256
"""The smallest and the largest number of operators of a repeated block."""


@dataclass(frozen=True)
class Group:
    """The operators of a graph with the indices from ``first`` to ``stop`` - 1.

    ``children``: the parts of this group in order: groups, and the indices of single operators.
    """

    label: str
    first: int
    stop: int
    children: tuple[Group | int, ...]


def fold(graph: Graph) -> Group:
    """Return the whole graph as a group; a small graph has only single operators as children."""
    return _Folder(graph).group(graph.name, 0, len(graph))


class _Folder:
    """Folds one graph.

    ``scopes``: for each operator, its scopes, the outermost first.  ``kinds``: a number for the kind of each
    operator.  ``crossing``: for each place between operators, how many values cross it.
    """

    def __init__(self, graph: Graph) -> None:
        self.ops = graph.ops
        self.scopes = [scope_of(op) for op in self.ops]
        kinds = {kind: number for number, kind in enumerate(sorted({op.code for op in self.ops}))}
        self.kinds = np.array([kinds[op.code] for op in self.ops], np.int32)
        self.crossing = crossing_values(self.ops)

    def group(self, label: str, first: int, stop: int) -> Group:
        """Return a group of the operators from ``first`` to ``stop`` - 1; divide a large group further."""
        if stop - first <= MAX_UNDIVIDED_OPERATORS:
            return Group(label, first, stop, tuple(range(first, stop)))
        # a part is (label, first, stop); a method that does not suit these operators returns []
        parts = self._by_name(first, stop) or self._by_repetition(first, stop) or self._by_cuts(first, stop)
        children: list[Group | int] = []
        for name, start, end in parts:
            if end - start == 1:
                children.append(start)
                continue
            child = self.group(name, start, end)
            children += child.children if end - start > MAX_CHILD_SHARE * (stop - first) else [child]
        return Group(label, first, stop, self._packed(children))

    def _packed(self, children: list[Group | int]) -> tuple[Group | int, ...]:
        """Return ``children``; if there are over MAX_CHILDREN, join neighbors to groups of similar size."""
        if len(children) <= MAX_CHILDREN:
            return tuple(children)
        size = math.ceil(math.sqrt(len(children)))
        chunks = [tuple(children[i : i + size]) for i in range(0, len(children), size)]
        return tuple(self._joined(chunk) if len(chunk) > 1 else chunk[0] for chunk in chunks)

    def _joined(self, children: tuple[Group | int, ...]) -> Group:
        """Return a group of neighboring children."""
        head, tail = children[0], children[-1]
        labels = [self.ops[child].code if isinstance(child, int) else child.label for child in (head, tail)]
        first = head if isinstance(head, int) else head.first
        stop = tail + 1 if isinstance(tail, int) else tail.stop
        return Group(" to ".join(labels), first, stop, children)

    def _by_name(self, first: int, stop: int) -> list[tuple[str, int, int]]:
        """Return (label, first, stop) of each scope directly below the scopes that all operators share.

        An operator in none of these scopes is returned alone, with the label "".  Example: operators with the
        scopes m/a, m/a, m/a, m, m/b, m/b, m/b, m/b give ("a", 0, 3), ("", 3, 4), ("b", 4, 8).
        Return [] if these parts are not useful:

        - there is only one part, or there are more than MAX_CHILDREN,
        - the parts have fewer than 2 operators on average, or
        - a scope occurs in several places, for example because it is named after a class.
        """
        scopes = self.scopes[first:stop]
        depth = 0  # number of scopes that all operators share
        while all(len(scope) > depth and scope[depth] == scopes[0][depth] for scope in scopes):
            depth += 1
        names = [scope[depth] if len(scope) > depth else "" for scope in scopes]
        starts = [0, *(i for i in range(1, len(names)) if names[i] != names[i - 1] or not names[i])]
        labels = [names[i] for i in starts if names[i]]
        if not 1 < len(starts) <= min(MAX_CHILDREN, len(names) // 2) or len(set(labels)) < len(labels):
            return []
        return [(names[a], first + a, first + b) for a, b in pairwise([*starts, len(names)])]

    def _by_repetition(self, first: int, stop: int) -> list[tuple[str, int, int]]:
        """Return (label, first, stop) of each repeat of a block, and of the operators around the repeats.

        A block is a sequence of kinds of operators that repeats without a gap.  Of all blocks, take the one
        whose repeats cover the most operators; return [] if they cover less than half.
        """
        kinds, size = self.kinds[first:stop], stop - first
        best = (0, 0, 0)  # operators covered, start, operators of the block
        for period in range(MIN_BLOCK_OPERATORS, min(size // MIN_REPEATS, MAX_BLOCK_OPERATORS) + 1):
            # the first ``length`` kinds of a run equal the kinds ``period`` operators later: in ABCABCABCD,
            # period 3 gives length 6, and 6 + 3 operators are covered
            start, length = _longest_run(kinds[period:] == kinds[:-period])
            covered = (length + period) // period * period
            if covered >= MIN_REPEATS * period and covered > best[0]:
                best = (covered, start, period)
        covered, start, period = best
        if 2 * covered < size:
            return []
        begin, count = first + start, covered // period
        blocks = [(f"block {i + 1}", begin + i * period, begin + (i + 1) * period) for i in range(count)]
        before = ("before the blocks", first, begin)
        after = ("after the blocks", begin + covered, stop)
        return [(label, a, b) for label, a, b in (before, *blocks, after) if a < b]

    def _by_cuts(self, first: int, stop: int) -> list[tuple[str, int, int]]:
        """Return (label, first, stop) of stretches of operators, cut where the fewest values cross.

        There are about USUAL_GROUPS stretches.  The usual ``size`` of a stretch is the number of operators
        divided by USUAL_GROUPS, but at least 3; a stretch has at most 2 * ``size`` operators.
        """
        size = max((stop - first) // USUAL_GROUPS, 3)
        cuts = [first]
        while stop - cuts[-1] > 2 * size:
            near = range(cuts[-1] + size // 2 + 1, cuts[-1] + 2 * size)
            cuts.append(min(near, key=lambda i: (self.crossing[i], abs(i - cuts[-1] - size))))
        return [(self._summary(a, b), a, b) for a, b in pairwise([*cuts, stop])]

    def _summary(self, first: int, stop: int) -> str:
        """Return the two most frequent kinds of operators as text; kinds that only move data come last."""
        ops = self.ops[first:stop]
        counts = Counter(op.code for op in ops)
        moves = {op.code for op in ops if op.data_movement}
        kinds = sorted(counts, key=lambda kind: (kind in moves, -counts[kind]))
        return ", ".join(kinds[:2])


def scope_of(op: Op) -> list[str]:
    """Return the scopes in the name of the first result: [model, layer_1] for ``model/layer_1/Relu;Add``."""
    name = op.results[0].name.partition(";")[0] if op.results else ""
    return [part for part in re.split(r"/|::|\.", name) if part][:-1]


def crossing_values(ops: Sequence[Op]) -> list[int]:
    """Return for each place between operators how many results from before it are read after it.

    The first place is before the first operator, the last place is after the last operator: both have 0.
    """
    position = {op: index for index, op in enumerate(ops)}
    changes = [0] * (len(ops) + 1)
    for index, op in enumerate(ops):
        for value in op.results:
            last = max((position[user] for user in value.users if user in position), default=index)
            changes[index + 1] += 1  # the value crosses the places from here
            changes[last + 1] -= 1  # to the place before its last user
    return [int(count) for count in np.cumsum(changes)]


def _longest_run(equal: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[int, int]:
    """Return (start, length) of the longest run of True in ``equal``; (0, 0) if there is none."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False])).astype(np.int8)))
    if not edges.size:
        return 0, 0
    starts, ends = edges[::2], edges[1::2]
    index = int(np.argmax(ends - starts))
    return int(starts[index]), int(ends[index] - starts[index])
