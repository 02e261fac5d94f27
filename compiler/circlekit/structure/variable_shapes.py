# SPDX-License-Identifier: Apache-2.0
"""The shapes of what a model assigns to its resource variables; READ_VARIABLE has results of these shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Shape, Value
from circlekit.ops.program.state import AssignVariable, ReadVariable, VarHandle

Variable = tuple[str, str] | None
"""The container and the name of a variable, "" for an absent one; None if they are not known."""

Contents = Mapping[Variable, Shape | None]
"""For each variable, the shape of its contents; dimensions that may differ are unknown."""


def variables(model: Model) -> dict[Op, Variable]:
    """Return for each READ_VARIABLE and ASSIGN_VARIABLE its variable.

    If the handle of an operator is not the result of a VAR_HANDLE, the operator may use any variable; then
    all variables count as one.
    """
    ops = [op for op in model.ops() if isinstance(op, ReadVariable | AssignVariable)]
    found: dict[Op, Variable] = {op: _variable(op.resource_id) for op in ops}
    return dict.fromkeys(found) if None in found.values() else found


def _variable(handle: Value) -> Variable:
    """Return the variable of ``handle`` if VAR_HANDLE produces it, else None."""
    op = handle.producer
    return (op.container or "", op.shared_name or "") if isinstance(op, VarHandle) else None


def assigned_shapes(model: Model) -> dict[Variable, list[Shape | None]]:
    """Return for each variable the shapes of the values that operators of ``model`` assign to it."""
    found: dict[Variable, list[Shape | None]] = {}
    for op, variable in variables(model).items():
        if isinstance(op, AssignVariable):
            found.setdefault(variable, []).append(op.value.shape)
    return found


def joined(shapes: Iterable[Shape | None]) -> Shape | None:
    """Return the dimensions that all ``shapes``, at least one, share; the others are unknown.

    Return None, an unknown rank, if the ranks differ or one is unknown.
    """
    listed = list(shapes)
    ranks = {None if shape is None else len(shape) for shape in listed}
    if None in ranks or len(ranks) > 1:
        return None
    return tuple(d[0] if len({*d}) == 1 else None for d in zip(*filter(None, listed), strict=True))
