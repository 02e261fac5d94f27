# SPDX-License-Identifier: Apache-2.0
"""Which operators the delegate of a target runs, and in how many partitions of the graph.

Between two partitions the runtime's own kernels run, so that fewer partitions are better.  Source:
``PartitionGraphIntoIndependentNodeSubsets`` in TFLite's graph_info.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Set
from dataclasses import dataclass, field
from typing import Any

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.targets.findings import Refusal
from circlekit.targets.target import Target


@dataclass(frozen=True)
class Delegation:
    """A delegate runs all but ``refused`` of ``operators``, in ``partitions`` parts of the graph.

    ``refused``: number of operators, by code.
    """

    partitions: int
    operators: int
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def delegated(self) -> int:
        """The number of operators that the delegate runs."""
        return self.operators - self.refused.total()

    def document(self) -> dict[str, Any]:
        """Return the numbers as JSON types."""
        return {
            "partitions": self.partitions,
            "delegated": self.delegated,
            "operators": self.operators,
            "refused": dict(sorted(self.refused.items())),
        }

    def __str__(self) -> str:
        noun = "partition" if self.partitions == 1 else "partitions"
        text = f"{self.delegated} of {self.operators} operators in {self.partitions} {noun}"
        kinds = ", ".join(f"{count} {code}" for code, count in sorted(self.refused.items()))
        return f"{text}, not {kinds}" if kinds else text


def find_delegation(graph: Graph, target: Target) -> Delegation | None:
    """Return what the delegate of ``target`` runs of ``graph``; None if there is no delegate."""
    if not target.delegated:
        return None
    refused = {op for op in graph.ops if target.delegate_refusal(op) is not None}
    return Delegation(len(partitions(graph, refused)), len(graph), Counter(op.code for op in refused))


class CutFinder:
    """Finds operators that cut partitions of a delegate, which takes those for which ``refusal`` is None."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        self._state: tuple[Graph, int] | None = None  # to which the following fields belong
        self._refused: frozenset[Op] = frozenset()
        self._count = 0

    def is_cut(self, ops: Collection[Op]) -> bool:
        """Return whether the delegate refuses one of ``ops``, and has no more partitions if it does not."""
        graph = next(iter(ops)).graph
        if graph is None or all(self.refusal(op) is None for op in ops):
            return False
        if self._state != (graph, graph.epoch):
            self._state = graph, graph.epoch
            self._refused = frozenset(other for other in graph.ops if self.refusal(other) is not None)
            self._count = len(partitions(graph, self._refused))
        return len(partitions(graph, self._refused.difference(ops))) <= self._count


def partitions(graph: Graph, refused: Set[Op]) -> list[list[Op]]:
    """Return the operators of each partition that a delegate runs, if it takes all operators but ``refused``.

    A part is of one kind, delegated or not: that of the first operator whose operands are known.  It holds
    all operators of this kind that need no result of the other kind that is not known yet.
    """
    parts: list[list[Op]] = []
    left = list(graph.ops)
    unknown = {value for op in left for value in op.results}
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
        if part[0] not in refused:
            parts.append(part)
        left = later
    return parts
