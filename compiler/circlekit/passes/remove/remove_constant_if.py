# SPDX-License-Identifier: Apache-2.0
"""Replace an IF with a constant condition, such as "is this training?", by the branch that it would run."""

from __future__ import annotations

from collections import Counter
from typing import TypeGuard

from circlekit.ir.clone import inline
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import callees_first, fits
from circlekit.ir.value import Value
from circlekit.ops.program.control import If
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.base import Context, Pass

MAX_COPIED_OPS = 1000
"""Largest total number of operators of all copies of a branch; a branch with one caller has no limit."""


def is_constant(op: Op) -> TypeGuard[If]:
    """Return whether ``op`` is an IF with a constant condition whose operands fit its branch."""
    if not isinstance(op, If) or op.condition.data is None or op.condition.is_variable:
        return False
    return op.condition.data.size == 1 and fits(op)


def branch_of(op: If) -> Graph:
    """Return the graph that an IF with a constant condition runs."""
    return op.then_graph if op.condition.array().reshape(-1)[0] else op.else_graph


class RemoveConstantIf(Pass):
    """Replace an IF with a constant condition by the operators of the branch that it would run.

    Graphs that nothing calls any more are removed.  A large graph that is called in several places stays.
    """

    name = "remove_constant_if"

    def run(self, model: Model, context: Context) -> int:
        count = 0
        callers = Counter(graph for op in model.ops() for graph in op.called_graphs())
        callers.update([model.main, *(signature.graph for signature in model.signatures)])
        called: list[Graph] = []
        for graph in callees_first(model):  # a branch has its final size when its callers are visited
            for op in graph.ops:
                if not is_constant(op):
                    continue
                branch = branch_of(op)
                why = _size_obstacle(op, callers[branch]) or _obstacle(graph, op)
                if not context.accepts(self.name, op, why, 3):
                    continue
                callers.update(inner for copied in branch for inner in copied.called_graphs())
                callers.subtract(op.called_graphs())
                called += op.called_graphs()
                copies = inline(branch, op, _operands(op))
                for old, new in zip(tuple(op.results), copies, strict=True):
                    graph.replace(old, new)
                graph.remove(op)
                count += 1
        for unused in called:  # the list grows in the loop
            if unused in model.graphs and not callers[unused]:
                model.graphs = [graph for graph in model.graphs if graph is not unused]
                inner = [g for op in unused for g in op.called_graphs()]
                callers.subtract(inner)
                called += inner
        return count


def _size_obstacle(op: If, callers: int) -> str | None:
    branch = branch_of(op)
    if callers == 1 or len(branch) * callers <= MAX_COPIED_OPS:
        return None
    return (
        f"%{op.results[0].name}: {branch.name} has {len(branch)} operators and is called in {callers} "
        f"places; expected at most {MAX_COPIED_OPS} operators in all"
    )


def _operands(op: If) -> list[Value]:
    """Return the operands that the branches receive: all but the condition."""
    return [v for v in op.inputs[1:] if v is not None]


def _obstacle(graph: Graph, op: If) -> str | None:
    branch = branch_of(op)
    for value in branch.values():
        if value.is_variable:
            return f"%{value.name}: is a variable of {branch.name}"
    operands = dict(zip(branch.inputs, _operands(op), strict=True))
    for result, output in zip(op.results, branch.outputs, strict=True):
        source = operands.get(output, output)
        if result.dtype is not source.dtype or result.shape != source.shape:
            return f"%{result.name}: is {result.type}, %{source.name} of {branch.name} is {source.type}"
        if same_quantization(result, source) is not None:
            return f"%{result.name}: has other quantization parameters than %{source.name} of {branch.name}"
        passed_through = output.producer is None or list(branch.outputs).count(output) > 1
        if graph.is_output(result) and passed_through:
            name = f"%{source.name} of {branch.name}"
            return f"%{result.name}: is an output of the graph, and {name} cannot take its name"
    return None
