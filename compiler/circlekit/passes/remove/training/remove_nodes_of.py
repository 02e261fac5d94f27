# SPDX-License-Identifier: Apache-2.0
"""Operators that the user knows to do nothing that matters."""

from __future__ import annotations

from collections.abc import Iterable

from circlekit.errors import RewriteError
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value
from circlekit.rewrite.base import Context, Option, Pass

TRAINING_CHECKS = frozenset(
    prefix + name for prefix in ("", "Flex") for name in ("Assert", "Print", "PrintV2")
)
"""TensorFlow's operators that stop the run or print; they have no result, or hand on their operand."""


def _words(text: str) -> list[str]:
    words = [word.strip().removeprefix("%") for word in text.split(",")]
    if not all(words):
        raise ValueError(f"names with commas in between are wanted, not {text!r}")
    return words


class RemoveNodesOf(Pass):
    """Operators of these kinds, custom codes or result names go, and their first operand takes their place.

    Values change, unless they hand it on.  One with results of another type than that operand stays; one
    without results only goes.
    """

    name = "remove_nodes_of"
    changes_values = True
    options = (
        Option(
            "remove_nodes_of",
            "remove the operators of these kinds (FAKE_QUANT), custom codes (FlexAssert) or results",
            "NAME,NAME",
            _words,
        ),
    )

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        for op in model.ops():
            if isinstance(op, OpaqueOp) and op.custom_code in TRAINING_CHECKS:
                yield (
                    f"the custom operator {op.custom_code} is for training, and few runtimes have it: "
                    f"--remove_nodes_of {op.custom_code} removes it"
                )

    def __init__(self) -> None:
        self.found: set[str] = set()

    def run(self, model: Model, context: Context) -> int:
        wanted: list[str] = self.setting(context, "remove_nodes_of") or []
        count = 0
        for graph in model.graphs:
            for op in graph.ops:
                named = [name for name in wanted if name in _names(op)]
                self.found.update(named)
                if named:
                    count += self._remove(graph, op, context)
        missing = [name for name in wanted if name not in self.found]
        if missing and context.refusals is None:
            raise RewriteError(f"remove_nodes_of: no operator is a {missing[0]}, or makes it")
        return count

    def _remove(self, graph: Graph, op: Op, context: Context) -> bool:
        """Whether ``op`` was taken out."""
        operand = op.inputs[0] if op.inputs else None
        why = _obstacle(graph, op, operand)
        if why is not None:
            context.refuse(self.name, op, why, 3)
        if why is not None or not context.may_rewrite:
            return False
        context.rewrites(op)
        for value in tuple(op.results):
            if operand is not None:
                graph.replace(value, operand)
        graph.remove(op)
        return True


def _names(op: Op) -> set[str]:
    custom = {op.custom_code} if isinstance(op, OpaqueOp) and op.custom_code is not None else set()
    return {op.code, *custom, *(value.name for value in op.results)}


def _obstacle(graph: Graph, op: Op, operand: Value | None) -> str | None:
    """Why the first operand cannot take the place of every result."""
    if not op.results:
        return None
    result = op.results[0]
    if operand is None or len(op.results) > 1:
        return f"%{result.name}: one result and an operand are wanted, there are {len(op.results)}"
    if operand.dtype is not result.dtype or operand.shape != result.shape:
        return f"%{result.name}: is {result.type}, %{operand.name} is {operand.type}"
    if not graph.can_stand_for(result, operand):
        return f"%{result.name}: is an output of the graph, and so is, or is an input, %{operand.name}"
    return None
