# SPDX-License-Identifier: Apache-2.0
"""Branches with a constant condition, and how many operators they would be in all places that call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ops.program.control import If

MAX_COPIED_OPS = 1000
"""Operators that a branch called in several places may become in all of them."""

MAX_COUNTED_CALLS = 1 << 40
"""Calls are counted up to this: branches that call branches twice give powers of two."""


def is_constant(op: Op) -> TypeGuard[If]:
    """Whether ``op`` is an IF with a constant condition whose operands fit its branch."""
    if not isinstance(op, If) or op.condition.data is None or op.condition.is_variable:
        return False
    return op.condition.data.size == 1 and fits(op)


def branch_of(op: If) -> Graph:
    """The graph that an IF with a constant condition runs."""
    return op.then_graph if op.condition.array().reshape(-1)[0] else op.else_graph


class Branches:
    """The graphs of a model, and how often each would occur in it if constant conditions were resolved.

    ``order``: all graphs, called ones before their callers, so that a branch has its final size when its
    callers are visited.
    """

    def __init__(self, model: Model) -> None:
        taken = {graph: [branch_of(op) for op in graph if is_constant(op)] for graph in model.graphs}
        self.order = _called_first(model, taken)
        known = {id(g) for op in model.ops() if not is_constant(op) for g in op.called_graphs()}
        known |= {id(s.graph) for s in model.signatures} | {id(model.main)}
        self.places = {graph: int(id(graph) in known) for graph in model.graphs}
        for graph in reversed(self.order):
            for branch in taken[graph]:
                self.places[branch] = min(self.places[branch] + max(self.places[graph], 1), MAX_COUNTED_CALLS)

    def too_many(self, op: If) -> str | None:
        """Why the branch of ``op`` should stay a graph: None, or the sentence of the refusal."""
        branch = branch_of(op)
        size, places = len(branch), self.places[branch]
        if places == 1 or size * places <= MAX_COPIED_OPS:
            return None
        where = f"{places} places" if places < MAX_COUNTED_CALLS else "very many places"
        return (
            f"%{op.results[0].name}: {branch.name} has {size} operators and is called in {where}; "
            f"expected at most {MAX_COPIED_OPS} operators in all"
        )


def _called_first(model: Model, taken: Mapping[Graph, Sequence[Graph]]) -> list[Graph]:
    """The graphs of ``model``, each after those that it calls by constant conditions (cycles aside)."""
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
