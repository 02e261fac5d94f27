# SPDX-License-Identifier: Apache-2.0
"""Lower the rank of paddings, slices and reductions by reshapes; let reductions keep the reduced axes.

A Replacement replaces the operators of its ``kinds`` that the format, a runtime or its delegate refuses.  Its
``results`` returns None to leave an operator as it is: here, one with an unknown shape, or whose axes,
paddings or slice positions are not constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from circlekit.ir.dtypes import boolean
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.movement.pad import Pad, Padded, PadV2
from circlekit.ops.movement.slice import Slice
from circlekit.ops.reduction.reduce import (
    Mean,
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMin,
    Reduction,
    reduced_axes,
)
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter

MERGED_RANK = 4
"""Every runtime that has one of the operators in MergeAxes.kinds runs it up to this rank."""

LOGICAL: dict[type[Op], type[Reduction]] = {ReduceMax: ReduceAny, ReduceMin: ReduceAll}
"""For each reduction of booleans, the logical reduction with the same result."""


class KeepReducedAxes(Replacement[Reduction]):
    """reduce(x)  ==  reshape(reduce(x) with keep_dims).

    For booleans, REDUCE_MAX becomes REDUCE_ANY, and REDUCE_MIN becomes REDUCE_ALL.
    """

    kinds = (Reduction,)

    def results(self, op: Reduction, insert: Inserter) -> list[Value] | None:
        axes = static_int_vector(op.axis)
        kind = LOGICAL.get(type(op), type(op)) if op.input.dtype is boolean else type(op)
        if axes is None or (op.keep_dims and kind is type(op)):
            return None
        if not (op.input.is_static and op.output.is_static):
            return None
        shape = op.input.static_shape
        reduced = reduced_axes(axes, len(shape))
        kept = tuple(1 if axis in reduced else dim for axis, dim in enumerate(shape))
        result = Value("", op.output.dtype, kept, None, op.output.quantization)
        value = insert.make(kind(op.input, op.axis, keep_dims=True, results=[result]))
        return [value if op.keep_dims else insert.reshaped(value, op.output.static_shape)]


class MergeAxes(Replacement[Op]):
    """op(x)  ==  reshape(op(reshape(x))): the inner operator has an axis for each group of axes of x.

    Neighboring axes form a group if ``op`` reduces all of them, or changes none of them; an axis that is
    padded or sliced is a group of its own.  With more than MERGED_RANK groups, several inner operators follow
    each other, one for each group that ``op`` changes.  A mean of integers stays one operator, because each
    inner mean would be rounded.  Operators on quantized values are left as they are.
    """

    kinds = (Pad, PadV2, Slice, Reduction)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        data = op.inputs[0]
        is_quantized = any(value.quantization for value in (*op.results, data) if value is not None)
        if data is None or is_quantized or not (data.is_static and op.output.is_static):
            return None
        shape = list(data.static_shape)
        changes = _changes(op, shape)
        if changes is None:
            return None
        steps = [changes]  # for each inner operator, what it changes
        groups = _groups(changes)
        if len(groups) > MERGED_RANK and (data.dtype.is_float or not isinstance(op, Mean)):
            changed = [group for group in groups if changes[group[0]] is not None]
            steps = [[c if axis in group else None for axis, c in enumerate(changes)] for group in changed]
        elif len(groups) == len(shape):  # no axes are merged
            return None
        value = data
        for step in steps:
            value = _merged(op, value, shape, step, insert)
        return [insert.reshaped(value, op.output.static_shape)]


Changes = Sequence[int | None]
"""For each axis: None if an operator does not change it, else a number.  Equal neighbors form a group.

A mean over axes 1 and 2 of [2, 3, 4, 5], for example, has [None, 0, 0, None]: three groups.  A padding of
these axes has [None, 1, 2, None]: four groups.
"""


def _changes(op: Op, shape: Sequence[int]) -> Changes | None:
    """Return the axes that ``op`` changes; None if its axes, paddings or ``begin`` are not constant."""
    # the second operand: axes, paddings or begin
    if any(static_int_vector(value) is None for value in op.inputs[1:2] if value is not None):
        return None
    if isinstance(op, Reduction):
        axes = reduced_axes(int_list(op.axis.array()), len(shape))
        return [0 if axis in axes else None for axis in range(len(shape))]
    result = op.output.static_shape  # an axis that changes stays alone
    return [None if result[axis] == shape[axis] else axis for axis in range(len(shape))]


def _groups(changes: Changes) -> list[list[int]]:
    """Return the groups of neighboring axes, each of which becomes one axis."""
    return [[axis for axis, _ in group] for _, group in groupby(enumerate(changes), lambda item: item[1])]


def _merged(op: Op, value: Value, shape: list[int], changes: Changes, insert: Inserter) -> Value:
    """Insert an operator like ``op`` that makes only ``changes``, and return its result.

    The operator works on ``value`` reshaped to one axis for each group of axes.
    ``shape``: the shape of ``value`` with all axes; the function changes it to that of the result.
    """
    groups = _groups(changes)
    sizes = [math.prod(shape[axis] for axis in group) for group in groups]
    changed = [changes[group[0]] is not None for group in groups]  # by group: whether ``op`` changes it
    firsts = [group[0] for group in groups]  # a group that a padding or slice changes has only this axis
    rest = op.inputs[2:] if isinstance(op, PadV2) else ()  # the padding number
    attributes = op.attribute_items()
    arrays: dict[str, np.ndarray]
    if isinstance(op, Reduction):
        arrays = {"axis": np.flatnonzero(changed)}
        attributes = {**attributes, "keep_dims": True}  # more runtimes have it
    elif isinstance(op, Padded):
        arrays = {"paddings": op.paddings.array().reshape(-1, 2)[firsts] * np.array(changed)[:, None]}
    else:
        assert isinstance(op, Slice)  # by kinds
        arrays = {
            "begin": op.begin.array().reshape(-1)[firsts] * changed,
            "size": np.where(changed, np.array(op.output.static_shape)[firsts], sizes),
        }
    numbers = [insert.constant(name, array.astype(np.int32)) for name, array in arrays.items()]
    made = insert.make(type(op)(insert.reshaped(value, sizes), *numbers, *rest, **attributes))
    for axis, change in enumerate(changes):
        if change is not None:
            shape[axis] = 1 if isinstance(op, Reduction) else op.output.static_shape[axis]
    return made
