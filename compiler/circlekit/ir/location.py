# SPDX-License-Identifier: Apache-2.0
"""Describe where in a model an error happened: the operator and the lines around it."""

from __future__ import annotations

from circlekit.ir.graph import Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.text.columns import cut
from circlekit.ir.text.lines import op_parts

MAX_LINE_CHARACTERS = 160
"""Longer lines of a place are cut, because exporters write names of hundreds of characters."""

_LINE_BREAK = "\n  "
"""CirclekitError indents the lines below its message by two spaces, too."""


def place(op: Op, model: Model | None = None, operand: str = "") -> str:
    """Return the place of ``op`` for ``CirclekitError.note``: its path, with ``operand``, and its neighbors.

    at net.circle > main > op 12 TransposeConv > bias
       11  %10 = Relu(%9)                                  : f32[1,4,4,2]
    >  12  %11 = TransposeConv([1,8,8,8], %w, %10, %b)     : f32[1,8,8,8]
       13  %12 = Relu(%11)                                 : f32[1,8,8,8]
    """
    number, first = 0, op
    while first.previous is not None:  # linear in the size of the graph: only for errors
        number, first = number + 1, first.previous
    path = [model.source if model is not None else None, op.graph.name if op.graph is not None else None]
    path += [f"op {number} {kind_of(op)}", operand]
    neighbors = [(number - 1, op.previous), (number, op), (number + 1, op.next)]
    lines = [(n, *op_parts(o)) for n, o in neighbors if o is not None]
    width = max((len(call) for _, call, _ in lines if len(call) <= MAX_LINE_CHARACTERS // 2), default=0)
    block = ["at " + " > ".join(step for step in path if step)]
    digits = len(str(number + 1))
    for n, call, types in lines:
        text = f"{call:{width}}  : {types}" if types else call
        block.append(f"{'>' if n == number else ' '}  {n:{digits}}  {cut(text, MAX_LINE_CHARACTERS)}")
    return _LINE_BREAK.join(block)


def kind_of(op: Op) -> str:
    """Return the name of an operator for messages: its class, or its code if it has no declaration."""
    if isinstance(op, OpaqueOp):
        return f"{op.code} {op.custom_code}" if op.custom_code else op.code
    return type(op).__name__
