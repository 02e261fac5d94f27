# SPDX-License-Identifier: Apache-2.0
"""Remove operators that the user names."""

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
"""TensorFlow's operators that stop the run or print; they return nothing or their operand."""


def _words(text: str) -> list[str]:
    words = [word.strip().removeprefix("%") for word in text.split(",")]
    if not all(words):
        raise ValueError(f"expected names separated by commas, got {text!r}")
    return words


class RemoveNodesOf(Pass):
    """Remove operators of these kinds, custom codes or result names; their first operand replaces the result.

    Values change, unless the operators return that operand.  An operator stays if its result has another type
    than the operand.
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
            raise RewriteError(f"remove_nodes_of: no operator is a {missing[0]} or has a result of that name")
        return count

    def _remove(self, graph: Graph, op: Op, context: Context) -> bool:
        """Whether ``op`` was removed."""
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
    """Why the first operand of ``op`` cannot replace its result."""
    if not op.results:
        return None
    result = op.results[0]
    if operand is None or len(op.results) > 1:
        return f"%{result.name}: expected one result and an operand, got {len(op.results)} results"
    if operand.dtype is not result.dtype or operand.shape != result.shape:
        return f"%{result.name}: is {result.type}, %{operand.name} is {operand.type}"
    if not graph.can_stand_for(result, operand):
        return f"%{result.name}: and %{operand.name} are both inputs or outputs of the graph"
    return None
