# SPDX-License-Identifier: Apache-2.0
"""Describe the place of an error in a model: the graph, or the operator with the lines next to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from circlekit.errors import CirclekitError
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.text.columns import cut
from circlekit.ir.text.lines import op_parts

MAX_LINE_CHARACTERS = 160
"""The length to which lines are cut; some exporters write names of hundreds of characters."""

_LINE_BREAK = "\n  "
"""The text between two lines of a place, and between all lines of a printed ``CirclekitError``."""


@contextmanager
def working_on(graph: Graph, model: Model) -> Iterator[None]:
    """Let a CirclekitError of the ``with`` block say that it happened in ``graph``.

    In a model with several graphs, the name of a tensor does not tell the graph.  Nothing is added if
    ``model`` has one graph, or if the error has a place already.
    """
    try:
        yield
    except CirclekitError as error:
        if error.where or len(model.graphs) == 1:
            raise
        raise error.note(f"at {' > '.join(filter(None, (model.source, graph.name)))}") from None


def place(op: Op, model: Model | None = None) -> str:
    """Return the place of ``op`` as text for ``CirclekitError.note``: its path and the lines around it.

    An example of the text:

    at net.circle > main > op 12 TransposeConv
         11  %10 = Relu(%9)                                  : f32[1,4,4,2]
      >  12  %11 = TransposeConv([1,8,8,8], %w, %10, %b)     : f32[1,8,8,8]
         13  %12 = Relu(%11)                                 : f32[1,8,8,8]
    """
    number, first = 0, op
    while first.previous is not None:  # takes linear time, but only for an error
        number, first = number + 1, first.previous
    path = [model.source if model is not None else None, op.graph.name if op.graph is not None else None]
    path.append(f"op {number} {kind_of(op)}")
    neighbors = [(number - 1, op.previous), (number, op), (number + 1, op.next)]
    lines = [(n, *op_parts(o)) for n, o in neighbors if o is not None]  # (number, call, types of the results)
    # very long calls do not move the column of the types
    width = max((len(call) for _, call, _ in lines if len(call) <= MAX_LINE_CHARACTERS // 2), default=0)
    block = ["at " + " > ".join(step for step in path if step)]
    digits = len(str(number + 1))
    for n, call, types in lines:
        text = f"{call:{width}}  : {types}" if types else call
        block.append(f"{'>' if n == number else ' '}  {n:{digits}}  {cut(text, MAX_LINE_CHARACTERS)}")
    return _LINE_BREAK.join(block)


def kind_of(op: Op) -> str:
    """Return the name of an operator for messages: its class, or code and custom code if it is opaque."""
    if isinstance(op, OpaqueOp):
        return f"{op.code} {op.custom_code}" if op.custom_code else op.code
    return type(op).__name__
