# SPDX-License-Identifier: Apache-2.0
"""Say in a sentence why data movement cannot be removed: between which operators it moves data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from circlekit.index_maps.chains import origins
from circlekit.index_maps.of_operators import movement_of
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import misfit
from circlekit.ir.text.lines import short_op
from circlekit.ir.value import Value
from circlekit.passes.layout.permuted_op import changes_of
from circlekit.passes.support.axes import Perm, constant_perm, inverse

NAMED_ENDS = 2
"""The largest number of operators that a sentence names at one end of a chain; the others are counted."""


def route_of(graph: Graph, last: Op) -> str:
    """Return "moves data from A to B" for the chain of data movement to which ``last`` belongs.

    A and B are operators, inputs, outputs or constants of ``graph``.  Operators that only move data are
    passed over.
    """
    movement = movement_of(last)
    nearest = () if movement is None else movement.sources
    # ``origins`` yields the sources of longer and longer chains, so the farthest come last
    starts = [nearest, *(origin.sources for value in last.results for origin in origins(value))][-1]
    perm = constant_perm(last)
    readers = _readers(graph, last.results, perm and inverse(perm))
    return f"moves data from {_listed(map(_start, starts))} to {_listed(readers)}"


def why_no_map(op: Op) -> str:
    """Return why ``op``, which moves data, has no index map (which elements it copies to which places)."""
    if (fault := misfit(op)) is not None:
        return fault
    values = [value for value in (*op.inputs, *op.results) if value is not None and not value.is_const]
    if any(value.shape is None or value.shape.count(None) > 1 for value in values):
        return "its operand or its result has an unknown rank, or more than one unknown dimension"
    if any(0 in (value.shape or ()) for value in values):
        return "its operand or its result has a dimension of 0"
    if any(value.is_variable for value in values):
        return "its operand or its result is a variable, which may change"
    # other operands, such as indices, are not moved
    first, *others = (value.quantization for value in values if value.dtype is op.results[0].dtype)
    if any(other != first for other in others):
        return "its operands and results have different quantization parameters, so it also rescales"
    if first is not None and first.is_per_channel:
        return "its operands and results are quantized per channel"
    return "where its elements go depends on other operands, or follows no regular pattern"


def _start(value: Value) -> str:
    """Return the producer of ``value`` as text, or that ``value`` is a constant or an input of the graph."""
    if value.producer is None:
        return f"%{value.name}, {'a constant' if value.is_const else 'an input of the graph'},"
    return f"{type(value.producer).__name__} %{value.name}"


def _readers(graph: Graph, results: Sequence[Value], perm: Perm | None) -> Iterator[str]:
    """Yield the operators that read ``results``, as text; operators that only move data are passed over.

    ``perm``: if a Transpose produces ``results``, its inverse permutation, else None.  If the Transpose were
    removed, its direct readers would read data permuted by ``perm``.
    """
    todo = list(results)
    seen = set(todo)
    for value in todo:
        if graph.is_output(value):
            yield "an output of the graph"
        for user in dict.fromkeys(value.users):
            if movement_of(user) is None:
                yield _described(user, perm if value in results else None)
            else:
                todo += [v for v in user.results if v not in seen]
                seen.update(user.results)


def _described(user: Op, perm: Perm | None) -> str:
    """Return the name of ``user``, and whether it can work on data that is permuted by ``perm``."""
    name = short_op(user)
    if perm is None:
        return name
    fits_perm = bool(user.layout_operands) and user.output.rank == len(perm)
    can_move = fits_perm and not isinstance(changes_of(user, [], perm), str)
    return name if can_move else f"{name}, which works only in its own layout"


def _listed(items: Iterable[str]) -> str:
    """Return the first NAMED_ENDS different items joined by "and", and the number of the others."""
    names = list(dict.fromkeys(items))
    more = f" and {len(names) - NAMED_ENDS} more" if len(names) > NAMED_ENDS else ""
    return " and ".join(names[:NAMED_ENDS] or ["nothing"]) + more
