# SPDX-License-Identifier: Apache-2.0
"""Branches whose condition is known, and how many operators they come to where they are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ops.program.control import If

MOST_COPIED = 1000
"""Operators that a branch may become in all the places that run it, where that is more than one."""

BEYOND = 1 << 40
"""Places are counted up to this: of branches that run branches twice there are powers of two."""


def is_constant(op: Op) -> TypeGuard[If]:
    """Whether ``op`` is an IF that runs the same branch each time, which takes what it gets."""
    if not isinstance(op, If) or op.condition.data is None or op.condition.is_variable:
        return False
    return op.condition.data.size == 1 and fits(op)


def branch_of(op: If) -> Graph:
    """What an IF with a constant condition runs."""
    return op.then_graph if op.condition.array().reshape(-1)[0] else op.else_graph


class Branches:
    """The graphs of a model, and how often each would stand in it without constant conditions.

    ``order``: those that are run come before those that run them, so that a branch is what it comes to
    when it is asked whether it may be copied.
    """

    def __init__(self, model: Model) -> None:
        taken = {graph: [branch_of(op) for op in graph if is_constant(op)] for graph in model.graphs}
        self.order = _called_first(model, taken)
        known = {id(g) for op in model.ops() if not is_constant(op) for g in op.called_graphs()}
        known |= {id(s.graph) for s in model.signatures} | {id(model.main)}
        self.places = {graph: int(id(graph) in known) for graph in model.graphs}
        for graph in reversed(self.order):
            for branch in taken[graph]:
                self.places[branch] = min(self.places[branch] + max(self.places[graph], 1), BEYOND)

    def too_many(self, op: If) -> str | None:
        """Why the branch of ``op`` had better stay a graph."""
        branch = branch_of(op)
        size, places = len(branch), self.places[branch]
        if places == 1 or size * places <= MOST_COPIED:
            return None
        where = f"{places} places" if places < BEYOND else "countless places"
        return (
            f"%{op.results[0].name}: {branch.name} comes to {size} operators, and is wanted in {where}; "
            f"{MOST_COPIED} operators in all may be made of it"
        )


def _called_first(model: Model, taken: Mapping[Graph, Sequence[Graph]]) -> list[Graph]:
    """The graphs of ``model``, each behind those that it takes (unless they take it, too)."""
    order: list[Graph] = []
    opened: set[Graph] = set()
    for start in model.graphs:
        path = [] if start in opened else [(start, iter(taken[start]))]
        opened.add(start)
        while path:
            graph, rest = path[-1]
            branch = next((g for g in rest if g not in opened), None)
            if branch is None:
                order.append(graph)
                path.pop()
            else:
                opened.add(branch)
                path.append((branch, iter(taken[branch])))
    return order
