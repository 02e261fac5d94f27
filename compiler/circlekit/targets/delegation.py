# SPDX-License-Identifier: Apache-2.0
"""Find the operators that the delegate of a target runs, and the partitions that they form.

A delegate, such as XNNPACK, is a library to which a runtime hands operators.  A partition is a part of the
graph that the delegate runs at once.  Between two partitions the runtime calls its own kernels, so fewer
partitions are better.  Source: ``PartitionGraphIntoIndependentNodeSubsets`` in TFLite's graph_info.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Set
from dataclasses import dataclass, field
from typing import Any

from circlekit.errors import counted
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.targets.target import Target
from circlekit.targets.target_choice import OperatorCheck


@dataclass(frozen=True)
class Delegation:
    """How a delegate runs a graph.

    ``partitions``: the number of partitions.  ``operators``: the number of operators of the graph.
    ``refused``: how many operators the delegate does not run, by their name in the schema.
    """

    partitions: int
    operators: int
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def delegated(self) -> int:
        """The number of operators that the delegate runs."""
        return self.operators - self.refused.total()

    def document(self) -> dict[str, Any]:
        """Return the numbers as a dict of JSON types."""
        return {
            "partitions": self.partitions,
            "delegated": self.delegated,
            "operators": self.operators,
            "refused": dict(sorted(self.refused.items())),
        }

    def __str__(self) -> str:
        parts = counted(self.partitions, "partition")
        text = f"{self.delegated} of {self.operators} operators in {parts}"
        kinds = ", ".join(f"{count} {code}" for code, count in sorted(self.refused.items()))
        return f"{text}, not {kinds}" if kinds else text


def find_delegation(graph: Graph, target: Target) -> Delegation | None:
    """Return how the delegate of ``target`` runs ``graph``; None if the target has no delegate."""
    if not target.delegated:
        return None
    refused = {op for op in graph.ops if target.delegate_refusal(op) is not None}
    return Delegation(len(partitions(graph, refused)), len(graph), Counter(op.code for op in refused))


class CutFinder:
    """Finds operators that the delegate does not run and that may divide a partition into two.

    ``refusal``: a function that returns why the delegate does not run an operator; None if it does.
    """

    def __init__(self, refusal: OperatorCheck) -> None:
        self.refusal = refusal
        self._state: tuple[Graph, int] | None = None  # the graph and epoch of the next fields
        self._refused: frozenset[Op] = frozenset()
        self._count = 0

    def is_cut(self, ops: Collection[Op]) -> bool:
        """Return whether ``ops``, one or more operators of one graph, may divide a partition.

        Return False if the delegate runs all of ``ops``, or if it would have more partitions by running them.
        Otherwise return True.
        """
        graph = next(iter(ops)).graph
        if graph is None or all(self.refusal(op) is None for op in ops):
            return False
        if self._state != (graph, graph.epoch):
            self._state = graph, graph.epoch
            self._refused = frozenset(other for other in graph.ops if self.refusal(other) is not None)
            self._count = len(partitions(graph, self._refused))
        return len(partitions(graph, self._refused.difference(ops))) <= self._count


def partitions(graph: Graph, refused: Set[Op]) -> list[list[Op]]:
    """Return the operators of each partition of a delegate that runs all operators except ``refused``.

    The runtime divides the graph into parts, one after the other.  A part is run by the delegate (then it is
    a partition) or by the runtime itself.  The runtime goes through the operators that are in no part yet:

    - The first operator whose operands are all computed begins the next part.
    - A further operator joins this part under two conditions: its operands are computed in this part or
      before it, and the delegate runs both this operator and the first one, or neither of them.
    """
    parts: list[list[Op]] = []
    left = list(graph.ops)
    unknown = {value for op in left for value in op.results}  # the results that no part has computed yet
    while left:
        part: list[Op] = []
        later: list[Op] = []
        for op in left:
            is_ready = unknown.isdisjoint(op.inputs)
            if is_ready and (not part or (op in refused) == (part[0] in refused)):
                part.append(op)
                unknown.difference_update(op.results)
            else:
                later.append(op)
        if not part:  # in an invalid model, operators may read each other's results: no part has them
            break
        if part[0] not in refused:
            parts.append(part)
        left = later
    return parts
