# SPDX-License-Identifier: Apache-2.0
"""Minimum cut of a directed network with integer capacities, by the push-relabel algorithm.

Source: Goldberg and Tarjan, A New Approach to the Maximum-Flow Problem, 1988, with the highest-label rule and
the gap and global relabelling heuristics of Cherkassky and Goldberg, 1997.  Only the maximum preflow is
computed, which determines the cut: nodes that cannot reach the sink are on the source's side.
"""

from __future__ import annotations

SOURCE = 0
SINK = 1


class Network:
    """A network; nodes are numbers, and SOURCE and SINK exist from the start."""

    def __init__(self) -> None:
        self._arcs: list[list[int]] = [[], []]
        self._heads: list[int] = []
        self._capacity: list[int] = []

    def add_node(self) -> int:
        """Add a node and return its number."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def add_edge(self, tail: int, head: int, capacity: int, reverse: int = 0) -> None:
        """Add an edge that costs ``capacity`` if ``tail`` is on the source's side and ``head`` on the sink's.

        ``reverse``: the capacity of the opposite edge.
        """
        self._arcs[tail].append(len(self._heads))
        self._arcs[head].append(len(self._heads) + 1)
        self._heads += head, tail
        self._capacity += capacity, reverse

    def minimum_cut(self) -> list[bool]:
        """Return for every node whether it is on the sink's side, which is the smallest of all minimum cuts.

        Call it once: it changes the capacities.
        """
        return _Preflow(self._arcs, self._heads, self._capacity).run()


class _Preflow:
    """The state of the algorithm; arc a and its reverse are a and a ^ 1.

    ``height``: a lower bound of the distance to the sink in residual arcs; ``count`` if it is unreachable.
    ``at_height``, ``active``: the nodes, and those with excess, by height; entries may be out of date.
    ``top``: the greatest height with an active node.  ``current``: the arc at which each node continues.
    ``work``: operations since the last global relabelling.
    """

    def __init__(self, arcs: list[list[int]], heads: list[int], capacity: list[int]) -> None:
        self.arcs = arcs
        self.heads = heads
        self.capacity = capacity
        self.count = len(arcs)
        self.height: list[int] = []
        self.excess = [0] * self.count
        self.current = [0] * self.count
        self.at_height: list[list[int]] = []
        self.active: list[list[int]] = []
        self.top = 0
        self.work = 0

    def run(self) -> list[bool]:
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
            wanted = height[node] - 1
            position = self.current[node]
            while position < len(arcs):
                arc = arcs[position]
                head = heads[arc]
                if capacity[arc] and height[head] == wanted:
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
