# SPDX-License-Identifier: Apache-2.0
"""Infer shapes by the shape rules of operators, and merge them with the shapes that the model states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from circlekit.errors import CirclekitError, ModelError, ShapeError, UnsupportedError, counted
from circlekit.ir.graph import Graph, Model, postorder
from circlekit.ir.location import place
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Shape, TensorType, Value, format_shape
from circlekit.ir.verifier import operand_faults


def infer_shapes(model: Model) -> int:
    """Fill in unknown ranks and dimensions of results; return how many values got another shape.

    Known dimensions stay.  Operators without a shape rule are skipped.  If a rule rejects the operands or
    contradicts a dtype, rank or dimension in the model, raise ModelError, mostly its subclass ShapeError,
    with the place of the operator.
    """
    refined = 0
    for op in (op for graph in callees_first(model) for op in graph):
        with _placed(op, model):
            for value, shape in _merged_shapes(op):
                refined += shape != value.shape
                value.shape = shape
    return refined


TRIAL_SIZES = (5040, 10080)
"""The sizes that ``following_axes`` tries for unknown dimensions; RESHAPE can divide them by many numbers."""


def release_dims(model: Model) -> list[Value]:
    """Make stated dimensions unknown if they follow unknown ones of inputs; return the changed values.

    See ``following_axes``.
    """
    released = []
    for value, axes in following_axes(model).items():
        if (shape := with_dims(value.shape or (), axes, None)) != value.shape:
            value.shape = shape
            released.append(value)
    return released


def following_axes(model: Model) -> dict[Value, list[int]]:
    """Return, by result, the axes whose dimensions follow unknown dimensions of inputs.

    Some exporters state a number for such a dimension, for example 0 or the batch of a sample.  Runtimes
    ignore the number, because they infer the shapes of results again.  A dimension follows an unknown one if
    the shape rule infers different numbers for two sizes of the unknown dimensions.  A dimension that depends
    on the elements of an operand does not follow.
    """
    following = dict[Value, list[int]]()
    for graph in {model.main: None, **dict.fromkeys(s.graph for s in model.signatures)}:
        variable = {v: axes for v in graph.inputs if (axes := _unknown_axes(v.shape))}
        for op in graph if variable else ():
            operands = {v: variable[v] for v in op.inputs if v is not None and v in variable}
            if not operands:
                continue
            with suppress(CirclekitError):  # no shape rule, or other sizes do not fit
                trials = [_types_for(op, operands, size) for size in TRIAL_SIZES]
                for value, *types in zip(op.results, *trials, strict=True):
                    axes = _different_axes(*(t.shape for t in types))
                    if axes and value.shape is not None and len(value.shape) > max(axes):
                        variable[value] = following[value] = axes
    return following


def _types_for(op: Op, operands: dict[Value, list[int]], size: int) -> tuple[TensorType, ...]:
    """Return the inferred types if the given axes of ``operands`` have ``size``."""
    before = {value: value.shape for value in operands}
    try:
        for value, axes in operands.items():
            value.shape = with_dims(value.shape or (), axes, size)
        return result_types(op)
    finally:
        for value, shape in before.items():
            value.shape = shape


def _unknown_axes(shape: Shape | None) -> list[int]:
    """Return the axes of unknown size."""
    return [axis for axis, dim in enumerate(shape or ()) if dim is None]


def _different_axes(first: Shape | None, second: Shape | None) -> list[int]:
    """Return the axes with different numbers in the shapes."""
    pairs = enumerate(zip(first or (), second or (), strict=False))
    return [axis for axis, (a, b) in pairs if a != b and None not in (a, b)]


def with_dims(shape: Shape, axes: Sequence[int], size: int | None) -> Shape:
    """Return ``shape`` with ``size`` on ``axes``; None: an unknown dimension."""
    return tuple(size if axis in axes else dim for axis, dim in enumerate(shape))


def check_shapes(model: Model) -> None:
    """Check each operator by itself; raise the errors of ``infer_shapes``, but do not change the model.

    Inferred shapes are not passed on to the next operators.  The shape [] of an operand or result that is not
    constant may stand for an unknown rank: see ``check_op``.
    """
    for op in model.ops():
        with _placed(op, model):
            check_op(op)


@contextmanager
def _placed(op: Op, model: Model) -> Iterator[None]:
    """Return a context that adds the place of ``op`` to errors; it ignores the error for a missing rule."""
    try:
        yield
    except UnsupportedError:  # no shape rule
        return
    except CirclekitError as error:
        raise error.note(place(op, model)) from None


def callees_first(model: Model) -> list[Graph]:
    """Return the graphs of the model, callees before their callers."""
    return postorder(model.graphs, lambda graph: [g for op in graph for g in op.called_graphs()])


def check_op(op: Op) -> None:
    """Check the operands and results of ``op`` by its shape rule.

    Raise ModelError, mostly ShapeError, if the rule rejects the operands or contradicts the results.  The
    shape [] of a value that is not constant may stand for an unknown rank.  So the error is raised only if
    there is also a conflict when such values have an unknown rank.
    Raise UnsupportedError if there is no shape rule.
    """
    try:
        _merged_shapes(op)
    except UnsupportedError:
        raise
    except CirclekitError:
        unranked = [v for v in (*op.inputs, *op.results) if v is not None and _may_be_unranked(v)]
        if not unranked:
            raise
    else:
        return
    try:
        for value in unranked:
            value.shape = None
        _merged_shapes(op)
    finally:
        for value in unranked:
            value.shape = ()


def misfit(op: Op) -> str | None:
    """Return how ``op`` differs from its declaration, or why ``check_op`` rejects it; else None.

    Return None for an opaque operator.  An operator without a shape rule is compared with its declaration
    only.
    """
    if isinstance(op, OpaqueOp):
        return None
    if (fault := next(operand_faults(op), None)) is not None:
        return fault
    try:
        check_op(op)
    except UnsupportedError:
        return None
    except ModelError as error:
        return error.message
    return None


def fits(op: Op) -> bool:
    """Return whether ``misfit`` finds nothing wrong with ``op``."""
    return misfit(op) is None


def settle_ranks(model: Model, strict: bool = True) -> None:
    """Decide for each value with the shape [] whether it is a scalar or has an unknown rank; set its shape.

    Old files write [] for both; a constant is a scalar.  A result gets the inferred shape, or an unknown
    rank if its operator has no shape rule.  If the shape rule rejects the operands or contradicts a known
    result, the operands with the shape [] get an unknown rank.  If a shape then still contradicts a shape
    rule, raise ModelError, mostly ShapeError, with the place; if ``strict`` is false, ignore this.
    """
    # with ``strict``, every operator is checked at least once, even if there is nothing to settle
    before, graphs = None if strict else 0, callees_first(model)
    while (left := sum(_may_be_unranked(v) for graph in graphs for v in graph.values())) != before:
        for op in (op for graph in graphs for op in graph):
            with _placed(op, model) if strict else suppress(CirclekitError):
                _settle(op)
        before = left  # again, if an operand has changed after the operators that read it


def _settle(op: Op) -> None:
    """Settle the ranks of the operands and results of ``op``; raise ModelError if they break its rule."""
    try:
        types = _unranked_types(op)
    except UnsupportedError:  # no shape rule
        types = tuple(TensorType(v.dtype, None) for v in op.results)
    for value, inferred in zip(op.results, types, strict=True):
        if _may_be_unranked(value):
            value.shape = inferred.shape
        _merged_shape(value, inferred)  # raises ShapeError if they contradict each other


def _unranked_types(op: Op) -> tuple[TensorType, ...]:
    """Return the inferred types.

    If the rule rejects the operands or contradicts a result, give an unknown rank to the operands with the
    shape [], and infer again.
    """
    try:
        types = result_types(op)
        for value, inferred in zip(op.results, types, strict=True):
            if not _may_be_unranked(value):
                _merged_shape(value, inferred)  # raises ShapeError if they contradict each other
        return types
    except ModelError:
        unranked = [v for v in op.inputs if v is not None and _may_be_unranked(v)]
        if not unranked:
            raise
    for value in unranked:
        value.shape = None
    return result_types(op)


def result_types(op: Op) -> tuple[TensorType, ...]:
    """Return the inferred types of the results; raise ShapeError if ``op`` has more or fewer results."""
    types = op.inferred()
    if len(types) != len(op.results):
        raise ShapeError(f"{op.code}: expected {counted(len(types), 'result')}, got {len(op.results)}")
    return types


def _may_be_unranked(value: Value | None) -> bool:
    """Return whether ``value`` is not constant and has the shape [].

    Old files write [] for scalars and for unknown ranks.
    """
    return value is not None and value.shape == () and value.data is None


def _merged_shapes(op: Op) -> list[tuple[Value, Shape | None]]:
    """Return each result with its merged shape; raise ShapeError if shape or dtype contradicts the rule."""
    return [(v, _merged_shape(v, t)) for v, t in zip(op.results, result_types(op), strict=True)]


def _merged_shape(value: Value, inferred: TensorType) -> Shape | None:
    """Return the shape of ``value``, with unknown dimensions from ``inferred``; None if no rank is known.

    Raise ShapeError if dtypes, ranks or known dimensions differ.  Also raise it if the merged shape has new
    dimensions and does not fit the number of scales of ``value``.
    """
    stated, ruled = value.shape, inferred.shape
    if value.dtype is not inferred.dtype:
        raise ShapeError(f"%{value.name} is {value.dtype.short}, its operator infers {inferred.dtype.short}")
    if stated is None or ruled is None:
        shape = ruled if stated is None else stated
    elif len(stated) == len(ruled) and all(
        x == y for x, y in zip(stated, ruled, strict=True) if None not in (x, y)
    ):
        shape = tuple(y if x is None else x for x, y in zip(stated, ruled, strict=True))
    else:
        conflict = f"{format_shape(stated)}, its operator infers {format_shape(ruled)}"
        raise ShapeError(f"%{value.name} has shape {conflict}")
    misfit = value.quantization.misfit(shape) if value.quantization is not None else None
    if misfit is not None and shape != stated:
        raise ShapeError(f"%{value.name} does not fit its operator: {misfit}")
    return shape
