# SPDX-License-Identifier: Apache-2.0
"""The choice of layouts as an energy over labels 0 and 1, and its exact minimum.

A *variable* is an operator that can work in either order; its label says in which.  A *tensor* is made in
one order and wanted in some; a copy is paid for once if anyone wants it in the order that it is not made
in.  With P the label of the producer, C the labels of the consumers, the energy of a tensor of cost w is

    w [P = 0 and max C = 1]  +  w [P = 1 and min C = 0]

which is submodular: an auxiliary node for max C, and one for min C, make it a cut.

Over 120 lines because the energy, its network and the reading of the cut are one argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from circlekit.passes.layout.mincut import SINK, SOURCE, Network

FIXED = (-1, -2)
"""In the place of a variable: label 0, label 1."""


class Cost(NamedTuple):
    """What moving data costs: bytes first, then the number of operators that move them.

    ``early``: how much of the graph is behind the moves.  Between equals it decides: what follows a
    convolution can be fused into it only if no transpose is in between.
    """

    bytes: int = 0
    moves: int = 0
    early: int = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(self.bytes + other.bytes, self.moves + other.moves, self.early + other.early)

    def improves_on(self, other: Cost) -> bool:
        """Whether this is fewer bytes or moves and no more of either; where both are equal, less early."""
        if self[:2] == other[:2]:
            return self.early < other.early
        return self.bytes <= other.bytes and self.moves <= other.moves


@dataclass(eq=False, repr=False)
class Demand:
    """A tensor: who makes it, who reads it (variables, or FIXED), and what a copy of it costs."""

    producer: int
    consumers: Sequence[int]
    cost: Cost


@dataclass(eq=False, repr=False)
class Problem:
    """``today``: the label that every variable has now.  Equal costs are told apart by how many stay."""

    today: list[int] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)

    def cost(self, labels: Sequence[int]) -> Cost:
        """What all copies cost under ``labels``."""
        values = [*labels, 1, 0]  # so that FIXED, taken as an index, is its own label
        total = Cost()
        for demand in self.demands:
            made = values[demand.producer]
            if any(values[c] != made for c in demand.consumers):
                total = total.plus(demand.cost)
        return total

    def solve(self, moves_first: bool = False) -> list[int]:
        """The labels of least (bytes, moves, early, changes), or of least (moves, bytes, early, changes)."""
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
        endless = sum(weights) * 2 + len(nodes) + 1
        for demand, weight in zip(self.demands, weights, strict=True):
            consumers = list(dict.fromkeys(ends[c] for c in demand.consumers))
            for up in (True, False):
                _add_demand(Wiring(network, up), ends[demand.producer], consumers, weight, endless)
        cut = network.minimum_cut()
        return [int(cut[node]) for node in nodes]

    def _weights(self, moves_first: bool) -> list[int]:
        """One number for each demand that orders sums as ``solve`` says, with room for the changes."""
        costs = [d.cost for d in self.demands]
        ranked = [(c.moves, c.bytes, c.early) if moves_first else tuple(c) for c in costs]
        room = len(self.today) + 1
        totals = [sum(numbers) + 1 for numbers in zip(*ranked, strict=True)]
        return [((a * totals[1] + b) * totals[2] + c) * room for a, b, c in ranked]


@dataclass(eq=False, repr=False)
class Wiring:
    """Edges for the copies from label 0 to 1 (``up``), or, all of them turned round, from 1 to 0."""

    network: Network
    up: bool

    @property
    def far(self) -> int:
        """The end that has the label of the copy."""
        return SINK if self.up else SOURCE

    def connect(self, near: int, far: int, cost: int) -> None:
        """Let it cost ``cost`` if ``near`` has the label of the original and ``far`` that of the copy."""
        tail, head = (near, far) if self.up else (far, near)
        self.network.add_edge(tail, head, cost)


def _add_demand(wiring: Wiring, producer: int, consumers: Sequence[int], weight: int, endless: int) -> None:
    """One term of one tensor."""
    if producer == wiring.far:
        return
    if wiring.far in consumers:  # a copy is wanted whatever the others choose
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
            wiring.connect(hub, consumer, endless)
