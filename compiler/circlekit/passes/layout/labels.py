# SPDX-License-Identifier: Apache-2.0
"""Choose a layout for each operator, by minimum cuts, so that the sum of the costs is low.

A layout is a *label*, a number from 0 on (region.py calls it a side).  A *variable* is an operator that can
work in several layouts; its label says in which layout it works.  A *tensor* is produced in one layout and
used in one or more layouts.  It is copied once to each layout in which it is used but not produced; the cost
of a copy is given.

In one *step* each variable chooses between two labels, a low one (choice 0) and a high one (choice 1).  The
high label is the same for all variables, the low labels may differ.  Let P be the choice of the producer, and
C the choices of the consumers that read a copy, and let the copy cost w.  A copy for the high label costs
w [P = 0 and max C = 1]:  it is made if the producer chooses 0 and some consumer chooses 1.  A copy for a low
label costs  w [P = 1 and min C = 0].  Here [...] is 1 if the condition holds, else 0.  These costs (energies)
are submodular, so a minimum cut finds the best choices.  A node on the source's side stands for choice 0, a
node on the sink's side for choice 1.  A copy that several variables may read has an auxiliary node, which
stands for max C or min C.
Source: Kolmogorov and Zabih, What Energy Functions Can Be Minimized via Graph Cuts, 2004.

With two labels one step finds the lowest cost.  With more labels, steps repeat until none lowers the cost.
There are two kinds of steps.  In a *swap*, the variables that have one of two given labels choose again
between these two.  In an *expansion*, all variables choose between the label that they have and one given
label.  Source: Boykov, Veksler and Zabih, Fast Approximate Energy Minimization via Graph Cuts, 2001.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from circlekit.passes.layout.minimum_cut import SINK, SOURCE, Network

MAX_LABELS = 12
"""The largest number of labels in a problem: the number of swaps grows with the square of this number."""

MAX_ROUNDS = 8
"""The largest number of rounds, each of which tries every step once; the first rounds save the most."""


class Cost(NamedTuple):
    """The cost of moving data: the bytes moved, the number of operators that move them, and their positions.

    ``ops_after``: for each of these operators, the number of operators after it, summed up.  Of solutions
    with equal bytes and moves, the one with the lowest ``ops_after``, that is with the latest moves, is best:
    an early transpose may stand between a convolution and the operator after it, and prevent their fusion.
    """

    bytes: int = 0
    moves: int = 0
    ops_after: int = 0

    def plus(self, other: Cost) -> Cost:
        """Return the sum, field by field."""
        return Cost(self.bytes + other.bytes, self.moves + other.moves, self.ops_after + other.ops_after)

    def improves_on(self, other: Cost) -> bool:
        """Return whether this cost is lower than ``other``.

        It is lower if one of bytes and moves is lower, and the other is not higher.  If both are equal, it is
        lower if the moves are later.
        """
        if self[:2] == other[:2]:
            return self.ops_after < other.ops_after
        return self.bytes <= other.bytes and self.moves <= other.moves


@dataclass(eq=False, repr=False)
class Demand:
    """A tensor: its producer, its consumers, and the cost of one copy.

    Producer and consumers are numbers of variables, or ``~label`` (a negative number) where the label is
    fixed.  Example: producer 3, consumers [5, ~0]: variable 3 produces the tensor; variable 5 and an operator
    with the fixed label 0 read it.  If variables 3 and 5 have the label 1, one copy is needed, for label 0.
    ``classes``: for each label the number of its class; within a class no copy is needed.
    """

    producer: int
    consumers: Sequence[int]
    cost: Cost
    classes: Mapping[int, int] | Sequence[int] = range(MAX_LABELS)

    def copies(self, labels: Sequence[int]) -> int:
        """Return how many copies are needed if the variables have ``labels``."""
        origin, *others = (
            self.classes[labels[end] if end >= 0 else ~end] for end in (self.producer, *self.consumers)
        )
        return len({*others} - {origin})


@dataclass(eq=False, repr=False)
class Problem:
    """The problem of choosing a label for each variable.

    ``current``: the present label of each variable.
    ``demands``: the tensors; a tensor may have several demands, whose costs add up.
    ``charges``: for each variable, its own cost with each label that it can have.
    ``labels``: all labels that occur.
    """

    current: Sequence[int]
    demands: Sequence[Demand]
    charges: Sequence[Mapping[int, Cost]]
    labels: Sequence[int] = (0, 1)

    def cost(self, labels: Sequence[int]) -> Cost:
        """Return the cost of all copies, and the charges, for these labels."""
        total = Cost()
        for charges, label in zip(self.charges, labels, strict=True):
            total = total.plus(charges[label])
        for demand in self.demands:
            for _ in range(demand.copies(labels)):
                total = total.plus(demand.cost)
        return total

    def solve(self, moves_first: bool = False) -> list[int]:
        """Return labels for which the tuple (bytes, moves, ops_after, changes) is low.

        ``changes`` is the number of labels that differ from ``current``.  With two labels the tuple is the
        lowest possible one.  With more labels, steps repeat until none lowers the tuple, for at most
        MAX_ROUNDS rounds.  ``moves_first``: compare (moves, bytes, ops_after, changes) instead.
        """
        solver = _Solver(self, moves_first)
        best = list(self.current)
        lowest = solver.energy(best)
        for _ in range(MAX_ROUNDS):
            before = lowest
            for low, high, label in self._steps(best):
                found = solver.after_step(low, high, label)
                energy = lowest if found == best else solver.energy(found)
                if energy < lowest:
                    best[:], lowest = found, energy
            if lowest == before or len(self.labels) == 2:
                break
        return best

    def _steps(self, now: Sequence[int]) -> Iterator[tuple[list[int], list[int], int]]:
        """Yield the steps from the labels ``now``, as (low labels, high labels, high label).

        The two lists have a label for each variable; if the variable has no choice, the labels are equal.
        The last item is the high label of the variables with a choice.
        """
        able = [charges.keys() for charges in self.charges]  # for each variable, the labels that it can have
        for a, b in combinations(self.labels, 2):  # the swaps; then the expansions to each label
            free = [label in (a, b) and a in can and b in can for label, can in zip(now, able, strict=True)]
            low = [a if is_free else label for is_free, label in zip(free, now, strict=True)]
            high = [b if is_free else label for is_free, label in zip(free, now, strict=True)]
            yield low, high, b
        for b in self.labels if len(self.labels) > 2 else ():
            yield list(now), [b if b in can else label for can, label in zip(able, now, strict=True)], b


class _Solver:
    """Finds the best choices in a step of ``problem``.

    ``weights``: the cost of a copy for each demand.  ``charges``: the charges of the problem.  Both are
    integers, and sums of them compare like the tuples of ``Problem.solve``.
    """

    def __init__(self, problem: Problem, moves_first: bool) -> None:
        self.problem = problem
        costs = [d.cost for d in problem.demands] + [c for own in problem.charges for c in own.values()]
        pairs = [(c.moves, c.bytes) if moves_first else (c.bytes, c.moves) for c in costs]
        ranked = [(*pair, c.ops_after) for pair, c in zip(pairs, costs, strict=True)]
        # each cost becomes one number in mixed radix; the radix of a field is above its largest possible sum
        tie_break_range = len(problem.current) + 1  # the radix of the field ``changes``
        totals = [sum(numbers) * len(problem.labels) + 1 for numbers in zip(*ranked, strict=True)]
        weights = iter([((a * totals[1] + b) * totals[2] + c) * tie_break_range for a, b, c in ranked])
        self.weights: list[int] = [next(weights) for _ in problem.demands]
        self.charges: list[dict[int, int]] = [
            {label: next(weights) + (label != now) for label in own}
            for own, now in zip(problem.charges, problem.current, strict=True)
        ]

    def energy(self, labels: Sequence[int]) -> int:
        """Return the cost of ``labels``, with the number of changes, as one integer."""
        own = sum(charges[label] for charges, label in zip(self.charges, labels, strict=True))
        pairs = zip(self.weights, self.problem.demands, strict=True)
        return own + sum(weight * demand.copies(labels) for weight, demand in pairs if weight)

    def after_step(self, low: Sequence[int], high: Sequence[int], high_label: int) -> list[int]:
        """Return the labels, ``low`` or ``high`` for each variable, that together have the lowest cost."""
        network = Network()
        choices = list(zip(low, high, strict=True))
        nodes = [SOURCE if a == b else network.add_node() for a, b in choices]  # SOURCE, 0: has no choice
        if not any(nodes):
            return list(low)
        # a node on the sink's side stands for the high label
        for node, charges, (a, b) in zip(nodes, self.charges, choices, strict=True):
            if a != b:
                network.add_edge(node, SINK, charges[a])
                network.add_edge(SOURCE, node, charges[b])
        for weight, demand in zip(self.weights, self.problem.demands, strict=True):
            if weight:
                _add_demand(network, demand, weight, nodes, choices, high_label)
        cut = network.minimum_cut()
        return [b if node and cut[node] else a for node, (a, b) in zip(nodes, choices, strict=True)]


def _add_demand(
    network: Network,
    demand: Demand,
    weight: int,
    nodes: Sequence[int],
    choices: Sequence[tuple[int, int]],
    high_label: int,
) -> None:
    """Add the copies of a tensor to the network of a step: one for each class that consumers may need.

    ``nodes``: the node of each variable; SOURCE for a variable without a choice.
    ``choices``: the (low, high) labels of each variable.
    ``high_label``: the high label of the variables with a choice.
    """
    classes = demand.classes
    ends: list[tuple[int, int, int]] = []  # node, classes of the low and of the high label
    for end in (demand.producer, *demand.consumers):
        a, b = choices[end] if end >= 0 else (~end, ~end)
        ends.append((nodes[end] if end >= 0 else SOURCE, classes[a], classes[b]))
    # equal ends need one copy; a consumer that is equal to the producer needs none
    (producer, producer_low, producer_high), *consumers = dict.fromkeys(ends)
    for copied in dict.fromkeys(c for _, *both in consumers for c in both):
        if producer_low == producer_high == copied:
            continue
        is_high = copied == classes[high_label]
        # the terminals that stand for a fixed choice of another class, and of the class of the copy
        original, copy = (SOURCE, SINK) if is_high else (SINK, SOURCE)
        origin = producer if copied in (producer_low, producer_high) else original
        users = [copy if a == b else node for node, a, b in consumers if copied in (a, b)]
        # if a consumer always needs the copy, only the producer decides
        _add_copy(network, is_high, origin, [copy] if copy in users else users, weight)


def _add_copy(network: Network, is_high: bool, producer: int, consumers: Sequence[int], weight: int) -> None:
    """Add the cost ``weight`` of a copy, for the high label if ``is_high``, else for a low label.

    ``producer``, ``consumers``: the nodes of the producer and of the consumers that read the copy.  SOURCE or
    SINK in place of a node stands for a fixed choice.  For a low label, all edges are reversed.  Example: the
    producer p and the consumers c and d are free, and the copy is for the high label.  Then there are edges
    from p to a new node, and from this node to c and d.  A cut with p on the source's side, and c, d or both
    on the sink's side, costs ``weight`` once.
    """

    def connect(original: int, copy: int, cost: int) -> None:
        """Charge ``cost`` if node ``copy`` has the label of the copy, and ``original`` has another label."""
        network.add_edge(*((original, copy) if is_high else (copy, original)), cost)

    if len(consumers) > 1:
        hub = network.add_node()  # the auxiliary node: the copy is paid for once, however many consumers
        connect(producer, hub, weight)
        producer = hub
    for consumer in consumers:
        connect(producer, consumer, weight)
