# SPDX-License-Identifier: Apache-2.0
"""Find minimum cuts of flow networks.

The algorithm is push-relabel (Goldberg and Tarjan, A New Approach to the Maximum-Flow Problem, 1988), with
the highest-label rule and the gap and global relabelling heuristics of Cherkassky and Goldberg, 1997.

A preflow is a flow in which more may enter a node than leaves it; the difference is the excess of the node.
Only the maximum preflow is computed, because it determines the cut: a node from which no residual path leads
to the sink is on the source's side.
"""

from __future__ import annotations

import heapq
from collections import Counter

SOURCE = 0
SINK = 1


class Network:
    """A flow network; nodes are integers, and SOURCE and SINK exist from the start.

    Arcs are integers, and ``a ^ 1`` is the reverse of arc ``a``.  ``arcs``: for each node, the arcs that
    leave it.  ``heads``: for each arc, the node to which it leads.  ``capacity``: for each arc, the capacity
    that is left (its residual capacity).
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
        """Return, for every node, whether it is on the sink's side of a minimum cut.

        Of all minimum cuts, this is the one with the fewest nodes on the sink's side.  Call this method only
        once, because it changes the capacities.
        """
        heads, capacity, count = self.heads, self.capacity, len(self.arcs)
        excess = [0] * count

        def push(arc: int, amount: int) -> None:  # move ``amount`` of flow along ``arc``
            capacity[arc] -= amount
            capacity[arc ^ 1] += amount
            excess[heads[arc ^ 1]] -= amount
            excess[heads[arc]] += amount

        for arc in self.arcs[SOURCE]:
            push(arc, capacity[arc])
        # ``work`` counts the arcs seen since the last global relabelling; at ``limit`` comes the next one
        work = limit = count + len(heads)
        height: list[int] = []  # by node: a lower bound of its distance to the sink; ``count``: no path
        population: Counter[int] = Counter()  # number of nodes by height
        active: list[tuple[int, int]] = []  # heap of (-height, node) of nodes with excess
        while active or work >= limit:
            if work >= limit:
                height, work = self.distances(), 0
                population = Counter(height)
                active = [(-height[n], n) for n in range(2, count) if excess[n]]  # all but SOURCE and SINK
                heapq.heapify(active)
                continue
            negative_height, node = heapq.heappop(active)  # the highest active node
            arcs = self.arcs[node]
            work += len(arcs)
            for arc in arcs:
                head = heads[arc]
                if capacity[arc] and excess[node] and height[head] == -negative_height - 1:
                    if head != SINK and not excess[head]:
                        heapq.heappush(active, (-height[head], head))
                    push(arc, min(excess[node], capacity[arc]))
            if excess[node]:
                population[-negative_height] -= 1
                lowest = min(height[heads[arc]] for arc in arcs if capacity[arc])
                # a height without nodes is a gap that no excess can cross
                height[node] = min(lowest + 1, count) if population[-negative_height] else count
                population[height[node]] += 1
                if height[node] < count:
                    heapq.heappush(active, (-height[node], node))
        return [distance < count for distance in self.distances()]

    def distances(self) -> list[int]:
        """Return, for each node, the number of residual arcs on the shortest path to the sink.

        For a node without a path it is the number of nodes.  The source also gets this number, whatever its
        distance, because push-relabel requires it.
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
