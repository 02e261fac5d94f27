# SPDX-License-Identifier: Apache-2.0
"""Remove operators whose results have no use, and values that nothing uses."""

from __future__ import annotations

from circlekit.ir.core import values_in
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value
from circlekit.ops.program.custom import is_pure
from circlekit.rewrite.base import Context, Pass


class RemoveDead(Pass):
    """Remove operators without side effects whose results have no use, and values that nothing uses.

    Variables and operators that read one stay.  So do all graphs, even those that no operator calls, with
    all their inputs and outputs.  The pass does not ask ``may_rewrite``: a removal changes no number, so a
    bisection need not find it.
    """

    name = "remove_dead"
    has_conditions = False

    def run(self, model: Model, context: Context) -> int:
        changes = sum(_remove_ops(graph, context) for graph in model.graphs)
        in_signatures = {id(v) for s in model.signatures for v in (*s.inputs.values(), *s.outputs.values())}
        return changes + sum(_remove_values(graph, in_signatures) for graph in model.graphs)


def _remove_ops(graph: Graph, context: Context) -> int:
    """Remove operators without a used result, users before producers; return how many.

    An operator that reads a variable, such as a recurrent layer, may also change it, and stays.
    """
    count = 0
    for op in reversed(graph.ops):
        if any(v.use_count or graph.is_output(v) for v in op.results):
            continue
        variable = next((v for v in op.inputs if v is not None and v.is_variable), None)
        if not is_pure(op) or variable is not None:
            state = "its results have no use" if op.results else "it has no results"
            obstacle = f"reads the variable %{variable.name}" if variable else "may have side effects"
            context.refuse(RemoveDead.name, op, f"{state}, but {op.code} {obstacle}")
            continue
        graph.remove(op)
        count += 1
    return count


def _remove_values(graph: Graph, in_signatures: set[int]) -> int:
    """Remove values that nothing uses from ``graph.table``, the tensors in file order; return how many.

    Variables stay.  ``in_signatures``: the ids of the values in signatures, which stay.
    """
    needed = in_signatures | {id(v) for v in (*graph.inputs, *graph.outputs)}
    for op in graph:
        needed.update(id(v) for v in values_in(op.extra))

    def is_used(value: Value) -> bool:
        if value.use_count or value.is_variable or id(value) in needed:
            return True
        return value.producer is not None and value.producer.graph is graph

    # the scales of a blockwise quantization are values, too: they stay if the value that they scale does
    needed.update([id(scale) for v in graph.table if is_used(v) for scale in v.scale_values])
    table = [v for v in graph.table if is_used(v)]
    removed = len(graph.table) - len(table)
    if removed:
        graph.table = table
        if "unused" in graph.extra:  # values that the file lists without a use
            graph.extra["unused"] = [v for v in graph.extra["unused"] if is_used(v)]
    return removed
