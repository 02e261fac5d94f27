# SPDX-License-Identifier: Apache-2.0
"""The choice of layouts as an energy minimization over labels 0 and 1, solved exactly by a minimum cut.

A *variable* is an operator that can work in either layout; its label says in which.  A *tensor* is produced
in one layout and used in one or both; a copy in the other layout costs its size once.  With P the label of
the producer and C the labels of the consumers, the energy of a tensor of cost w is

    w [P = 0 and max C = 1]  +  w [P = 1 and min C = 0]

which is submodular: with an auxiliary node for max C and one for min C it is a cut.
Source: Kolmogorov and Zabih, What Energy Functions Can Be Minimized via Graph Cuts, 2004.

The minimum cut is found by the push-relabel algorithm of Goldberg and Tarjan, A New Approach to the
Maximum-Flow Problem, 1988, with the highest-label rule and the gap and global relabelling heuristics of
Cherkassky and Goldberg, 1997.  Only the maximum preflow is computed, which determines the cut: nodes that
cannot reach the sink are on the source's side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

SOURCE = 0
SINK = 1


class Network:
    """A network; nodes are numbers, and SOURCE and SINK exist from the start.

    Arc a and its reverse are ``a`` and ``a ^ 1``; ``arcs``: those of each node; ``heads``, ``capacity``: of
    each arc.
    ``height``: a lower bound of the distance to the sink in residual arcs; ``count`` if it is unreachable.
    ``at_height``, ``active``: the nodes, and those with excess, by height; entries may be out of date.
    ``top``: the greatest height with an active node.  ``current``: the arc at which each node continues.
    ``work``: operations since the last global relabelling.
    """

    def __init__(self) -> None:
        self.arcs: list[list[int]] = [[], []]
        self.heads: list[int] = []
        self.capacity: list[int] = []
        self.count = 2
        self.height: list[int] = []
        self.excess: list[int] = []
        self.current: list[int] = []
        self.at_height: list[list[int]] = []
        self.active: list[list[int]] = []
        self.top = 0
        self.work = 0

    def add_node(self) -> int:
        """Add a node and return its number."""
        self.arcs.append([])
        self.count += 1
        return self.count - 1

    def add_edge(self, tail: int, head: int, capacity: int) -> None:
        """Add an edge that costs ``capacity`` if the source's side has ``tail`` and not ``head``."""
        self.arcs[tail].append(len(self.heads))
        self.arcs[head].append(len(self.heads) + 1)
        self.heads += head, tail
        self.capacity += capacity, 0

    def minimum_cut(self) -> list[bool]:
        """Return for every node whether it is on the sink's side, which is the smallest of all minimum cuts.

        Call it once: it changes the capacities.
        """
        self.excess = [0] * self.count
        for arc in self.arcs[SOURCE]:
            amount, head = self.capacity[arc], self.heads[arc]
            self.capacity[arc] = 0
            self.capacity[arc ^ 1] += amount
            self.excess[head] += amount
        self.relabel_all()
        budget = self.count + len(self.heads)
        while (node := self.next_active()) is not None:
            self.discharge(node)
            if self.work > budget:
                self.relabel_all()
        self.relabel_all()
        return [height < self.count for height in self.height]

    def next_active(self) -> int | None:
        """Remove and return an active node of greatest height, None if there is none."""
        while self.top > 0:
            nodes = self.active[self.top]
            while nodes:
                node = nodes.pop()
                if self.height[node] == self.top and self.excess[node]:
                    return node
            self.top -= 1
        return None

    def relabel_all(self) -> None:
        """Set every height to the exact distance, by a breadth-first search from the sink."""
        heads, capacity, count = self.heads, self.capacity, self.count
        height = [count] * count
        height[SINK] = 0
        layers = [[SINK]]
        while layers[-1]:
            layer: list[int] = []
            for node in layers[-1]:
                for arc in self.arcs[node]:
                    tail = heads[arc]
                    if height[tail] == count and capacity[arc ^ 1] and tail != SOURCE:
                        height[tail] = len(layers)
                        layer.append(tail)
            layers.append(layer)
        self.height = height
        self.at_height = layers
        self.active = [[n for n in layer if self.excess[n]] for layer in layers]
        self.active[0] = []
        self.top = len(layers) - 1
        self.current = [0] * count
        self.work = 0

    def discharge(self, node: int) -> None:
        """Push the excess of ``node``, relabelling it as needed, until none is left or it is cut off."""
        heads, capacity, height = self.heads, self.capacity, self.height
        arcs = self.arcs[node]
        while self.excess[node] and height[node] < self.count:
            expected = height[node] - 1
            position = self.current[node]
            while position < len(arcs):
                arc = arcs[position]
                head = heads[arc]
                if capacity[arc] and height[head] == expected:
                    self.push(node, arc, head)
                    if not self.excess[node]:
                        break
                position += 1
            self.work += position - self.current[node] + 1
            self.current[node] = position
            if position == len(arcs):
                self.raise_node(node)

    def push(self, node: int, arc: int, head: int) -> None:
        amount = min(self.excess[node], self.capacity[arc])
        self.capacity[arc] -= amount
        self.capacity[arc ^ 1] += amount
        self.excess[node] -= amount
        if head != SINK and not self.excess[head]:
            self.active[self.height[head]].append(head)
        self.excess[head] += amount

    def raise_node(self, node: int) -> None:
        """Relabel ``node`` to one above its lowest residual neighbour."""
        heads, capacity, height = self.heads, self.capacity, self.height
        old = height[node]
        lowest = min((height[heads[a]] for a in self.arcs[node] if capacity[a]), default=self.count)
        self.work += len(self.arcs[node])
        self.current[node] = 0
        height[node] = min(lowest + 1, self.count)
        if height[node] < self.count:
            while len(self.at_height) <= height[node]:
                self.at_height.append([])
                self.active.append([])
            self.at_height[height[node]].append(node)
            self.top = max(self.top, height[node])
        self.close_gap(old)

    def close_gap(self, level: int) -> None:
        """If no node is left at height ``level``, mark those above it as unable to reach the sink."""
        nodes = self.at_height[level]
        while nodes and self.height[nodes[-1]] != level:
            nodes.pop()
        if nodes:
            return
        for above in range(level + 1, len(self.at_height)):
            for node in self.at_height[above]:
                if self.height[node] == above:
                    self.height[node] = self.count
        del self.at_height[level + 1 :], self.active[level + 1 :]
        self.top = min(self.top, level)


FIXED = (-1, -2)
"""Used instead of the number of a variable for the constant labels 0 and 1."""


class Cost(NamedTuple):
    """The cost of moving data: bytes, number of operators that move them, and their position.

    ``ops_after``: the number of operators after the moves, summed.  Among equal solutions, later moves are
    better, because operators can only be fused into a convolution if no transpose is between them.
    """

    bytes: int = 0
    moves: int = 0
    ops_after: int = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(self.bytes + other.bytes, self.moves + other.moves, self.ops_after + other.ops_after)

    def improves_on(self, other: Cost) -> bool:
        """Return whether bytes or moves are fewer and none is more, or both equal and the moves later."""
        if self[:2] == other[:2]:
            return self.ops_after < other.ops_after
        return self.bytes <= other.bytes and self.moves <= other.moves


@dataclass(eq=False, repr=False)
class Demand:
    """A tensor: its producer and consumers (numbers of variables, or FIXED), and the cost of a copy."""

    producer: int
    consumers: Sequence[int]
    cost: Cost


@dataclass(eq=False, repr=False)
class Problem:
    """The labels that variables have ``today``, and the tensors; among equal solutions fewer changes win."""

    today: list[int] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)

    def cost(self, labels: Sequence[int]) -> Cost:
        """Return the cost of all copies for these labels."""
        values = [*labels, 1, 0]  # indices -1 and -2 are FIXED
        total = Cost()
        for demand in self.demands:
            made = values[demand.producer]
            if any(values[c] != made for c in demand.consumers):
                total = total.plus(demand.cost)
        return total

    def solve(self, moves_first: bool = False) -> list[int]:
        """Return the labels with the lowest (bytes, moves, ops_after, changes), in lexicographic order.

        ``moves_first``: compare moves before bytes.
        """
        if not self.today:
            return []
        network = Network()
        nodes = [network.add_node() for _ in self.today]
        ends = [*nodes, SINK, SOURCE]
        for node, label in zip(nodes, self.today, strict=True):
            if label:
                network.add_edge(node, SINK, 1)
            else:
                network.add_edge(SOURCE, node, 1)
        weights = self._weights(moves_first)
        infinite = sum(weights) * 2 + len(nodes) + 1
        for demand, weight in zip(self.demands, weights, strict=True):
            consumers = list(dict.fromkeys(ends[c] for c in demand.consumers))
            for up in (True, False):
                _add_demand(network, up, ends[demand.producer], consumers, weight, infinite)
        cut = network.minimum_cut()
        return [int(cut[node]) for node in nodes]

    def _weights(self, moves_first: bool) -> list[int]:
        """Return a number for each tensor, such that sums compare in the order of ``solve``."""
        costs = [d.cost for d in self.demands]
        ranked = [(c.moves, c.bytes, c.ops_after) if moves_first else tuple(c) for c in costs]
        room = len(self.today) + 1
        totals = [sum(numbers) + 1 for numbers in zip(*ranked, strict=True)]
        return [((a * totals[1] + b) * totals[2] + c) * room for a, b, c in ranked]


def _add_demand(
    network: Network, up: bool, producer: int, consumers: Sequence[int], weight: int, infinite: int
) -> None:
    """Add one of the two terms of the energy of a tensor: for copies from label 0 to 1 (``up``), or back.

    The edges for copies from 1 to 0 are reversed.
    """
    far = SINK if up else SOURCE  # the terminal that has the label of the copy

    def connect(original: int, copy: int, cost: int) -> None:
        """Add ``cost`` if ``original`` has the label of the original and ``copy`` that of the copy."""
        network.add_edge(*((original, copy) if up else (copy, original)), cost)

    free = [c for c in consumers if c not in (SOURCE, SINK, producer)]
    if producer == far:
        return
    if far in consumers:  # there is always a copy
        if producer not in (SOURCE, SINK):
            connect(producer, far, weight)
    elif len(free) == 1:
        connect(producer, free[0], weight)
    elif free:
        hub = network.add_node()
        connect(producer, hub, weight)
        for consumer in free:
            connect(hub, consumer, infinite)
