# SPDX-License-Identifier: Apache-2.0
"""The choice between two layouts, labelled 0 and 1: a sum of costs, minimized exactly by a minimum cut.

A *variable* is an operator that can work in either layout; its label says in which.  A *tensor* is produced
in one layout and used in one or both; a copy in the other layout costs its size once.  With P the label of
the producer and C the labels of the consumers, the energy of a tensor whose copy costs w is

    w [P = 0 and max C = 1]  +  w [P = 1 and min C = 0]

where [...] is 1 if the condition holds, else 0.  This energy is submodular: with an auxiliary node for max C
and one for min C, it is the cost of a cut that puts label 0 on the source's side, and 1 on the sink's.
Source: Kolmogorov and Zabih, What Energy Functions Can Be Minimized via Graph Cuts, 2004.

The minimum cut is found by the push-relabel algorithm of Goldberg and Tarjan, A New Approach to the
Maximum-Flow Problem, 1988, with the highest-label rule and the gap and global relabelling heuristics of
Cherkassky and Goldberg, 1997.  Only the maximum preflow is computed, which determines the cut: nodes that
cannot reach the sink are on the source's side.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

SOURCE = 0
SINK = 1


class Network:
    """A flow network; nodes are integers, and SOURCE and SINK exist from the start.

    Arcs are integers, and ``a ^ 1`` is the reverse of arc ``a``.  ``arcs``: the arcs that leave each node;
    ``heads``, ``capacity``: the end and the residual capacity of each arc.
    """

    def __init__(self) -> None:
        self.arcs: list[list[int]] = [[], []]
        self.heads: list[int] = []
        self.capacity: list[int] = []

    def add_node(self) -> int:
        """Add a node and return its number."""
        self.arcs.append([])
        return len(self.arcs) - 1

    def add_edge(self, tail: int, head: int, capacity: int) -> None:
        """Add an edge that costs ``capacity`` if ``tail`` is on the source's side and ``head`` is not."""
        self.arcs[tail].append(len(self.heads))
        self.arcs[head].append(len(self.heads) + 1)
        self.heads += head, tail
        self.capacity += capacity, 0

    def minimum_cut(self) -> list[bool]:
        """Return for every node whether it is on the sink's side; of all minimum cuts, this side is smallest.

        Call this method only once, because it changes the capacities.
        """
        heads, capacity, count = self.heads, self.capacity, len(self.arcs)
        excess = [0] * count

        def push(arc: int, amount: int) -> None:
            capacity[arc] -= amount
            capacity[arc ^ 1] += amount
            excess[heads[arc ^ 1]] -= amount
            excess[heads[arc]] += amount

        for arc in self.arcs[SOURCE]:
            push(arc, capacity[arc])
        work = limit = count + len(heads)  # arcs seen since the last global relabelling
        height: list[int] = []  # lower bounds of the distance to the sink; count if there is no path
        population: Counter[int] = Counter()  # number of nodes by height
        active: list[tuple[int, int]] = []  # heap of (-height, node) of nodes with excess
        while active or work >= limit:
            if work >= limit:
                height, work = self.distances(), 0
                population = Counter(height)
                active = [(-height[n], n) for n in range(2, count) if excess[n]]  # all but SOURCE and SINK
                heapq.heapify(active)
                continue
            level, node = heapq.heappop(active)
            arcs = self.arcs[node]
            work += len(arcs)
            for arc in arcs:
                head = heads[arc]
                if capacity[arc] and excess[node] and height[head] == -level - 1:
                    if head != SINK and not excess[head]:
                        heapq.heappush(active, (-height[head], head))
                    push(arc, min(excess[node], capacity[arc]))
            if excess[node]:
                population[-level] -= 1
                lowest = min(height[heads[arc]] for arc in arcs if capacity[arc])
                # a height without nodes is a gap that no excess can cross
                height[node] = min(lowest + 1, count) if population[-level] else count
                population[height[node]] += 1
                if height[node] < count:
                    heapq.heappush(active, (-height[node], node))
        return [distance < count for distance in self.distances()]

    def distances(self) -> list[int]:
        """Return the distance of each node to the sink in residual arcs; the number of nodes without a path.

        The source gets the number of nodes, too, as push-relabel requires.
        """
        distance = [len(self.arcs)] * len(self.arcs)
        distance[SINK] = 0
        for node in (queue := [SINK]):
            for arc in self.arcs[node]:
                tail = self.heads[arc]
                if distance[tail] == len(self.arcs) and self.capacity[arc ^ 1] and tail != SOURCE:
                    distance[tail] = distance[node] + 1
                    queue.append(tail)
        return distance


FIXED = (-1, -2)
"""``FIXED[label]`` stands for a constant label where the number of a variable is expected."""


class Cost(NamedTuple):
    """The cost of moving data: the bytes moved, the number of operators that move them, and their positions.

    ``ops_after``: the sum, over these moves, of the number of operators behind each.  Among solutions with
    equal bytes and moves, later moves are better: a transpose between a convolution and an operator behind it
    prevents their fusion.
    """

    bytes: int = 0
    moves: int = 0
    ops_after: int = 0

    def plus(self, other: Cost) -> Cost:
        """Return the sum, field by field."""
        return Cost(self.bytes + other.bytes, self.moves + other.moves, self.ops_after + other.ops_after)

    def improves_on(self, other: Cost) -> bool:
        """Return whether bytes or moves decrease and neither increases, or only the moves are later."""
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
    """The labels to choose; ``current``: the labels now; ``demands``: one for each tensor.

    ``charges``: for each variable its own cost with label 0 and with label 1.
    """

    current: list[int] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)
    charges: Sequence[tuple[Cost, Cost]] = ()

    def cost(self, labels: Sequence[int]) -> Cost:
        """Return the cost of all copies, and the charges, for these labels."""
        all_labels = [*labels, 1, 0]  # indices -1 and -2 are FIXED
        total = Cost()
        for charge, label in zip(self.charges, labels, strict=False):
            total = total.plus(charge[label])
        for demand in self.demands:
            if any(all_labels[c] != all_labels[demand.producer] for c in demand.consumers):
                total = total.plus(demand.cost)
        return total

    def solve(self, moves_first: bool = False) -> list[int]:
        """Return the labels for which the tuple (bytes, moves, ops_after, changes) is the lowest.

        ``changes``: the number of labels that differ from ``current``.  ``moves_first``: compare
        (moves, bytes, ops_after, changes) instead.
        """
        if not self.current:
            return []
        network = Network()
        nodes = [network.add_node() for _ in self.current]
        ends = [*nodes, SINK, SOURCE]
        for node, label in zip(nodes, self.current, strict=True):
            network.add_edge(*((node, SINK) if label else (SOURCE, node)), 1)
        costs = [d.cost for d in self.demands] + [cost for pair in self.charges for cost in pair]
        weights = self._weights(costs, moves_first)
        charged = weights[len(self.demands) :]
        for node, zero, one in zip(nodes, charged[::2], charged[1::2], strict=False):
            network.add_edge(node, SINK, zero)
            network.add_edge(SOURCE, node, one)
        for demand, weight in zip(self.demands, weights, strict=False):
            consumers = list(dict.fromkeys(ends[c] for c in demand.consumers))
            for up in (True, False):
                _add_demand(network, up, ends[demand.producer], consumers, weight)
        cut = network.minimum_cut()
        return [int(cut[node]) for node in nodes]

    def _weights(self, costs: Sequence[Cost], moves_first: bool) -> list[int]:
        """Return an integer weight for each cost; sums of these compare like the tuples of ``solve``."""
        ranked = [(c.moves, c.bytes, c.ops_after) if moves_first else tuple(c) for c in costs]
        tie_break_range = len(self.current) + 1
        totals = [sum(numbers) + 1 for numbers in zip(*ranked, strict=True)]
        return [((a * totals[1] + b) * totals[2] + c) * tie_break_range for a, b, c in ranked]


def _add_demand(network: Network, up: bool, producer: int, consumers: Sequence[int], weight: int) -> None:
    """Add one term of the energy of a tensor: for a copy from label 0 to label 1 if ``up``, else from 1 to 0.

    The edges for a copy from 1 to 0 are reversed.
    """
    copy_terminal = SINK if up else SOURCE  # the terminal that has the label of the copy

    def connect(original: int, copy: int, cost: int) -> None:
        """Charge ``cost`` if node ``original`` has the original's label and node ``copy`` the copy's."""
        network.add_edge(*((original, copy) if up else (copy, original)), cost)

    free = [c for c in consumers if c not in (SOURCE, SINK, producer)]
    if producer == copy_terminal:
        return
    if copy_terminal in consumers:  # there is always a copy
        if producer not in (SOURCE, SINK):
            connect(producer, copy_terminal, weight)
    elif len(free) == 1:
        connect(producer, free[0], weight)
    elif free:
        hub = network.add_node()
        connect(producer, hub, weight)
        for consumer in free:
            connect(hub, consumer, weight)
