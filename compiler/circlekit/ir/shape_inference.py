# SPDX-License-Identifier: Apache-2.0
"""Shape inference over a model: the shape rules of its operators, merged with the shapes that it states."""

from __future__ import annotations

from circlekit.errors import CirclekitError, ModelError, ShapeError, UnsupportedError
from circlekit.ir.graph import Graph, Model, postorder
from circlekit.ir.location import place
from circlekit.ir.op import Op
from circlekit.ir.value import Shape, TensorType, Value, format_shape


def infer_shapes(model: Model) -> int:
    """Fill in unknown ranks and dimensions of results; return how many values were refined.

    Known dimensions stay.  ShapeError, with the place, if an operator's shape rule refuses its operands or
    contradicts a dtype or dimension that the model states.  Operators without a rule are skipped.
    """
    return sum(_refine(op, model) for graph in callees_first(model) for op in graph)


def check_shapes(model: Model) -> None:
    """Raise the errors of ``infer_shapes`` without changing the model.

    A conflict is ignored if an operand or result has the shape [], which may stand for an unknown rank.
    """
    for graph in model.graphs:
        for op in graph:
            _refine(op, model, keep=True)


def settle_ranks(model: Model, strict: bool = True) -> None:
    """Decide for each shape [] of a file whether it is a scalar or an unknown rank, and set the shape.

    A result gets the inferred shape; an operand that its operator refuses as a scalar has an unknown rank.
    ``strict``: ShapeError, with the place, if an operator does not fit its operands and results after that.
    """
    for graph in callees_first(model):
        for op in graph:
            _settle(op, model, strict)


def callees_first(model: Model) -> list[Graph]:
    """Return the graphs of the model, callees before their callers."""
    return postorder(model.graphs, lambda graph: [g for op in graph for g in op.called_graphs()])


def _refine(op: Op, model: Model, keep: bool = False) -> int:
    """Return how many results were refined, or could be if ``keep``; add the place to errors."""
    try:
        return check_op(op) if keep else _refined(op, keep=False)
    except UnsupportedError:
        return 0
    except CirclekitError as error:
        raise error.note(place(op, model)) from None


def check_op(op: Op) -> int:
    """Return how many results could be refined; nothing changes.

    ShapeError if the operator's shape rule refuses its operands or contradicts its results, unless one of
    them has the shape []; UnsupportedError if it has no shape rule.
    """
    try:
        return _refined(op, keep=True)
    except UnsupportedError:
        raise
    except CirclekitError:
        if any(_may_be_unranked(v) for v in (*op.inputs, *op.results)):
            return 0
        raise


def fits(op: Op) -> bool:
    """Whether the operator's shape rule accepts its operands and results; True without a rule."""
    try:
        check_op(op)
    except UnsupportedError:
        return True
    except ModelError:
        return False
    return True


def _refined(op: Op, keep: bool) -> int:
    return sum(_merge(value, t, keep) for value, t in zip(op.results, result_types(op), strict=True))


def _settle(op: Op, model: Model, strict: bool) -> None:
    """Choose the ranks of operands and results of ``op`` so that they fit its shape rule."""
    try:
        for value, inferred in zip(op.results, _unranked_types(op), strict=True):
            if _may_be_unranked(value):
                value.shape = inferred.shape
            _merge(value, inferred, keep=True)
    except UnsupportedError:
        for value in op.results:
            if _may_be_unranked(value):
                value.shape = None
    except CirclekitError as error:
        if strict:
            raise error.note(place(op, model)) from None


def _unranked_types(op: Op) -> tuple[TensorType, ...]:
    """Return the inferred types; operands that the rule refuses as scalars become unranked."""
    try:
        return result_types(op)
    except ModelError:
        unranked = [v for v in op.inputs if v is not None and _may_be_unranked(v)]
        if not unranked:
            raise
    for value in unranked:
        value.shape = None
    return result_types(op)


def result_types(op: Op) -> tuple[TensorType, ...]:
    """Return the inferred types, one for each result; ShapeError if their number differs."""
    types = op.inferred()
    if len(types) != len(op.results):
        raise ShapeError(f"{op.code} has {len(types)} results, the model has {len(op.results)}")
    return types


def _may_be_unranked(value: Value | None) -> bool:
    """Whether the shape is [], which old files write for an unknown rank as well as for a scalar."""
    return value is not None and value.shape == () and value.data is None


def _merge(value: Value, inferred: TensorType, keep: bool) -> bool:
    """Merge an inferred type into a value; return whether it was refined (or could be, if ``keep``)."""
    if value.dtype is not inferred.dtype:
        found = f"%{value.name} is {value.dtype.short}"
        raise ShapeError(f"{found}, its operator infers {inferred.dtype.short}")
    shape = _merged(value.shape, inferred.shape)
    if shape is None and value.shape is not None and inferred.shape is not None:
        found = f"%{value.name} has shape {format_shape(value.shape)}"
        raise ShapeError(f"{found}, its operator infers {format_shape(inferred.shape)}")
    if shape == value.shape:
        return False
    misfit = value.quantization.misfit(shape) if value.quantization is not None else None
    if misfit is not None:
        raise ShapeError(f"%{value.name} does not fit its operator: {misfit}")
    if not keep:
        value.shape = shape
    return True


def _merged(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return the dimensions known in ``a`` or ``b``; None on a conflict, or if both ranks are unknown."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x != y for x, y in zip(a, b, strict=True) if None not in (x, y)):
        return None
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))
