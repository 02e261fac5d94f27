# SPDX-License-Identifier: Apache-2.0
"""Replace an IF with a constant condition, such as "is this training?", by the branch that it would run."""

from __future__ import annotations

from collections import Counter
from typing import TypeGuard

from circlekit.errors import counted
from circlekit.ir.clone import inline
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import callees_first, fits
from circlekit.ir.value import Shape, Value
from circlekit.ops.program.control import If
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.base import Context, Pass

MAX_COPIED_OPS = 1000
"""Largest number of operators that all copies of a branch together may have; a single copy has no limit."""

MAX_COUNTED_PLACES = 1 << 40
"""The largest number in ``Branches.places``, because the count may double with each nested branch."""


def is_constant_if(op: Op) -> TypeGuard[If]:
    """Return whether ``op`` is an IF with a constant condition, and its operands fit its branches."""
    if not isinstance(op, If) or op.condition.data is None or op.condition.is_variable:
        return False
    return op.condition.data.size == 1 and fits(op)


def branch_of(op: If) -> Graph:
    """Return the graph that an IF with a constant condition runs."""
    return op.then_graph if op.condition.array().reshape(-1)[0] else op.else_graph


class Branches:
    """The graphs of a model, and how many copies of each there are if every constant IF is replaced.

    ``places``: for each graph, the number of copies of its operators in the resulting model.  The graph
    itself counts as one copy if it stays.  It stays if it is the main graph, or if a signature or an operator
    other than a constant IF refers to it.
    ``order``: all graphs, branches before their callers, so that a branch has its final size when it is
    copied.
    """

    def __init__(self, model: Model) -> None:
        # for each graph, the branches that its constant IFs run
        taken = {graph: [branch_of(op) for op in graph if is_constant_if(op)] for graph in model.graphs}
        self.order = callees_first(model)
        referred = {id(g) for op in model.ops() if not is_constant_if(op) for g in op.called_graphs()}
        referred |= {id(s.graph) for s in model.signatures} | {id(model.main)}
        self.places = {graph: int(id(graph) in referred) for graph in model.graphs}
        for graph in reversed(self.order):
            # a graph that nothing runs has 0 places; it may stay in the model, so it counts as one here
            copies = max(self.places[graph], 1)
            for branch in taken[graph]:
                self.places[branch] = min(self.places[branch] + copies, MAX_COUNTED_PLACES)

    def too_many(self, op: If) -> str | None:
        """Return a refusal if all copies of the branch of ``op`` would have too many operators, else None."""
        branch = branch_of(op)
        size, places = len(branch), self.places[branch]
        if places == 1 or size * places <= MAX_COPIED_OPS:
            return None
        where = f"{places} places" if places < MAX_COUNTED_PLACES else "very many places"
        return (
            f"{branch.name} has {counted(size, 'operator')} and is called in {where}; "
            f"expected at most {MAX_COPIED_OPS} operators in all"
        )


class RemoveConstantIf(Pass):
    """Replace an IF with a constant condition by the operators of the branch that it would run.

    Graphs that nothing calls any more are removed.  The IF stays if its branch would be copied to several
    places, and the copies would have more than 1000 operators in all.  It also stays if the branch has or
    reads a variable, or if a shape, the quantization or an output name does not fit.
    """

    name = "remove_constant_if"

    def run(self, model: Model, context: Context) -> int:
        count = 0
        called: list[Graph] = []  # both branches of each replaced IF
        branches = Branches(model)
        for graph in branches.order:
            for op in graph.ops:
                if not is_constant_if(op):
                    continue
                why = branches.too_many(op) or _obstacle(graph, op)
                if not context.accepts(self.name, op, why):
                    continue
                called += op.called_graphs()
                copies = inline(branch_of(op), op, _operands(op))
                for old, new in zip(tuple(op.results), copies, strict=True):
                    graph.replace(old, new)
                graph.remove(op)
                count += 1
        _remove_uncalled(model, called)
        return count


def _remove_uncalled(model: Model, candidates: list[Graph]) -> None:
    """Remove the candidates to which no operator or signature refers, and graphs that only those call."""
    callers = Counter(graph for op in model.ops() for graph in op.called_graphs())
    callers.update([model.main, *(signature.graph for signature in model.signatures)])
    removed: set[Graph] = set()
    for graph in candidates:  # the list grows in the loop
        if not callers[graph] and graph not in removed:
            removed.add(graph)
            inner = [g for op in graph for g in op.called_graphs()]
            callers.subtract(inner)
            candidates += inner
    model.graphs = [graph for graph in model.graphs if graph not in removed]


def _operands(op: If) -> list[Value]:
    """Return the operands that the branches receive: all operands but the condition."""
    return [v for v in op.inputs[1:] if v is not None]


def _obstacle(graph: Graph, op: If) -> str | None:
    """Return why the values of the branch cannot replace the results of ``op``; None if they can.

    The copies keep the shapes that the branch declares.  So an input of the branch must not declare more than
    the operand that takes its place.  An IF passes the stored integers on as they are, so operand and input
    must have the same scales.
    """
    branch = branch_of(op)
    for value in branch.values():
        if value.is_variable:
            return f"%{value.name}: is a variable of {branch.name}"
    operands = dict(zip(branch.inputs, _operands(op), strict=True))
    for value, operand in operands.items():
        if operand.is_variable:
            return f"%{operand.name}: is a variable, of which the branch gets a copy that does not change"
        if _states_more(value.shape, operand.shape):
            return f"%{operand.name}: is {operand.type}, %{value.name} of {branch.name} is {value.type}"
        if same_quantization(operand, value) is not None:
            return f"%{operand.name}: has other quantization parameters than %{value.name} of {branch.name}"
    for result, output in zip(op.results, branch.outputs, strict=True):
        source = operands.get(output, output)
        if result.dtype is not source.dtype or result.shape != source.shape:
            return f"%{result.name}: is {result.type}, %{source.name} of {branch.name} is {source.type}"
        if same_quantization(result, source) is not None:
            return f"%{result.name}: has other quantization parameters than %{source.name} of {branch.name}"
        # whether ``source`` has a name already: as an operand, a constant, or another output
        passed_through = output.producer is None or list(branch.outputs).count(output) > 1
        if graph.is_output(result) and passed_through:  # no value can have two names
            name = f"%{source.name} of {branch.name}"
            return f"%{result.name}: is an output of the graph, and {name} cannot take its name"
    return None


def _states_more(shape: Shape | None, other: Shape | None) -> bool:
    """Return whether ``shape`` has a known rank or dimension that ``other`` does not have."""
    if shape is None or other is None or len(shape) != len(other):
        return shape is not None
    return any(a not in (None, b) for a, b in zip(shape, other, strict=True))
