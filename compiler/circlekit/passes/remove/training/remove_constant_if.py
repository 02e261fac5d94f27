# SPDX-License-Identifier: Apache-2.0
"""Replace an IF with a constant condition, such as "is this training?", by its branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from circlekit.ir.clone import inline
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value
from circlekit.ops.program.control import If
from circlekit.passes.support.conditions import same_quantization
from circlekit.passes.support.constant_branches import Branches, branch_of, is_constant
from circlekit.rewrite.base import Context, Pass


class RemoveConstantIf(Pass):
    """Replace an IF with a constant condition by the operators of the branch that it would run.

    Graphs that nothing calls any more are removed.  A large graph that is called in several places stays.
    """

    name = "remove_constant_if"

    def run(self, model: Model, context: Context) -> int:
        count, graphs = 0, []
        branches = Branches(model)
        for graph in branches.order:
            for op in graph.ops:
                if not is_constant(op):
                    continue
                why = _obstacle(graph, op) or branches.too_many(op)
                if why is not None:
                    context.refuse(self.name, op, why, 3)
                elif context.may_rewrite:
                    context.rewrites(op)
                    graphs += op.called_graphs()
                    _inline(graph, op)
                    count += 1
        _drop(model, graphs)
        return count


def _operands(op: If) -> list[Value]:
    """The operands that the branches receive."""
    return [v for v in op.inputs[1:] if v is not None]


def _obstacle(graph: Graph, op: If) -> str | None:
    branch = branch_of(op)
    for value in branch.values():
        if value.is_variable:
            return f"%{value.name}: is a variable of {branch.name}"
    given = dict(zip(branch.inputs, _operands(op), strict=True))
    for result, output in zip(op.results, branch.outputs, strict=True):
        made = given.get(output, output)
        if result.dtype is not made.dtype or result.shape != made.shape:
            return f"%{result.name}: is {result.type}, %{made.name} of {branch.name} is {made.type}"
        if same_quantization(result, made) is not None:
            return f"%{result.name}: has other quantization parameters than %{made.name} of {branch.name}"
        passed_through = output.producer is None or list(branch.outputs).count(output) > 1
        if graph.is_output(result) and passed_through:
            source = f"%{made.name} of {branch.name}"
            return f"%{result.name}: is an output of the graph, and {source} cannot take its name"
    return None


def _inline(graph: Graph, op: If) -> None:
    made = inline(branch_of(op), op, _operands(op))
    for old, new in zip(tuple(op.results), made, strict=True):
        graph.replace(old, new)
    graph.remove(op)


def _drop(model: Model, candidates: Sequence[Graph]) -> None:
    """Remove those of ``candidates`` that no operator and no signature refers to, and what only they call."""
    if not candidates:
        return
    calls = Counter(g for op in model.ops() for g in op.called_graphs())
    calls.update([model.main, *(s.graph for s in model.signatures)])
    dropped: set[Graph] = set()
    todo = list(candidates)
    while todo:
        graph = todo.pop()
        if calls[graph] or graph in dropped:
            continue
        dropped.add(graph)
        inner = [g for op in graph for g in op.called_graphs()]
        calls.subtract(inner)
        todo += inner
    model.graphs = [graph for graph in model.graphs if graph not in dropped]
