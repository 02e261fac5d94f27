# SPDX-License-Identifier: Apache-2.0
"""The choice of layouts as an energy minimization over labels 0 and 1, solved exactly by a minimum cut.

A *variable* is an operator that can work in either layout; its label says in which.  A *tensor* is produced
in one layout and used in one or both; a copy in the other layout costs its size once.  With P the label of
the producer and C the labels of the consumers, the energy of a tensor of cost w is

    w [P = 0 and max C = 1]  +  w [P = 1 and min C = 0]

which is submodular: with an auxiliary node for max C and one for min C it is a cut.
Source: Kolmogorov and Zabih, What Energy Functions Can Be Minimized via Graph Cuts, 2004.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from circlekit.passes.layout.mincut import SINK, SOURCE, Network

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
                _add_demand(Wiring(network, up), ends[demand.producer], consumers, weight, infinite)
        cut = network.minimum_cut()
        return [int(cut[node]) for node in nodes]

    def _weights(self, moves_first: bool) -> list[int]:
        """Return a number for each tensor, such that sums compare in the order of ``solve``."""
        costs = [d.cost for d in self.demands]
        ranked = [(c.moves, c.bytes, c.ops_after) if moves_first else tuple(c) for c in costs]
        room = len(self.today) + 1
        totals = [sum(numbers) + 1 for numbers in zip(*ranked, strict=True)]
        return [((a * totals[1] + b) * totals[2] + c) * room for a, b, c in ranked]


@dataclass(eq=False, repr=False)
class Wiring:
    """Adds the edges for copies from label 0 to 1 (``up``), or reversed edges for copies from 1 to 0."""

    network: Network
    up: bool

    @property
    def far(self) -> int:
        """The terminal that has the label of the copy."""
        return SINK if self.up else SOURCE

    def connect(self, near: int, far: int, cost: int) -> None:
        """Add ``cost`` if ``near`` has the label of the original and ``far`` that of the copy."""
        tail, head = (near, far) if self.up else (far, near)
        self.network.add_edge(tail, head, cost)


def _add_demand(wiring: Wiring, producer: int, consumers: Sequence[int], weight: int, infinite: int) -> None:
    """Add one of the two terms of the energy of a tensor."""
    if producer == wiring.far:
        return
    if wiring.far in consumers:  # there is always a copy
        if producer not in (SOURCE, SINK):
            wiring.connect(producer, wiring.far, weight)
        return
    free = [c for c in consumers if c not in (SOURCE, SINK, producer)]
    if len(free) == 1:
        wiring.connect(producer, free[0], weight)
    elif free:
        hub = wiring.network.add_node()
        wiring.connect(producer, hub, weight)
        for consumer in free:
            wiring.connect(hub, consumer, infinite)
