# SPDX-License-Identifier: Apache-2.0
"""Lower the rank of paddings, slices and reductions, or of the results of reductions, by reshapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from circlekit.ir.dtypes import boolean
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.slice import Pad, Padded, PadV2, Slice
from circlekit.ops.reduction.reduce import ReduceAll, ReduceAny, ReduceMax, ReduceMin, Reduction
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter

Groups = list[list[int]]
"""Neighbouring axes, by the axis that they become."""


LOGICAL: dict[type[Op], type[Reduction]] = {ReduceMax: ReduceAny, ReduceMin: ReduceAll}


class KeepReducedAxes(Replacement):
    """mean(x)  ==  reshape(mean(x) with keep_dims).  Maximum of booleans  ==  any, minimum  ==  all."""

    kinds = (Reduction,)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        assert isinstance(op, Reduction)  # by kinds
        axes = static_int_vector(op.axis)
        kind = LOGICAL.get(type(op), type(op)) if op.input.dtype is boolean else type(op)
        if axes is None or (op.keep_dims and kind is type(op)):
            return None
        if not (op.input.is_static and op.output.is_static):
            return None
        shape = op.input.static_shape
        reduced = op.normalized_axes(axes, len(shape))
        kept = tuple(1 if axis in reduced else dim for axis, dim in enumerate(shape))
        result = Value("", op.output.dtype, kept, None, op.output.quantization)
        value = insert.make(kind(op.input, op.axis, keep_dims=True, results=[result]))
        return [value if op.keep_dims else insert.reshaped(value, op.output.static_shape)]


class MergeAxes(Replacement):
    """op(x)  ==  reshape(op(reshape(x))): the inner operator has an axis for each group of axes of ``op``.

    A group is neighbouring axes that are all reduced, all not reduced, or all not padded or sliced.
    """

    kinds = (Pad, PadV2, Slice, Reduction)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        data = op.inputs[0]
        is_quantized = any(value.quantization for value in (*op.results, data) if value is not None)
        if data is None or is_quantized or not (data.is_static and op.output.is_static):
            return None
        groups = _groups(op, data.static_shape)
        if groups is None or len(groups) == len(data.static_shape):
            return None
        merged = insert.reshaped(data, [math.prod(data.static_shape[a] for a in group) for group in groups])
        numbers = [insert.constant(name, array.astype(np.int32)) for name, array in _numbers(op, groups)]
        rest = op.inputs[2:] if isinstance(op, PadV2) else ()
        attributes = op.attribute_items()
        if isinstance(op, Reduction):
            attributes = {**attributes, "keep_dims": True}  # more runtimes have it
        made = insert.make(type(op)(merged, *numbers, *rest, **attributes))
        return [insert.reshaped(made, op.output.static_shape)]


def _groups(op: Op, shape: Sequence[int]) -> Groups | None:
    """Return the groups of axes; None if the operands that state axes or sizes are not constant."""
    if any(static_int_vector(value) is None for value in op.inputs[1:2] if value is not None):
        return None
    kinds: Iterable[int]
    if isinstance(op, Reduction):
        axes = op.normalized_axes(static_int_vector(op.axis) or (), len(shape))
        kinds = [int(axis in axes) for axis in range(len(shape))]
    else:  # an axis that changes stays alone
        result = op.output.static_shape
        kinds = [-1 if result[axis] == shape[axis] else axis for axis in range(len(shape))]
    return [[axis for axis, _ in group] for _, group in groupby(enumerate(kinds), lambda item: item[1])]


def _numbers(op: Op, groups: Groups) -> list[tuple[str, np.ndarray]]:
    """Return name and elements of the constant operands for the operator on the merged axes."""
    firsts = [group[0] for group in groups]
    if isinstance(op, Reduction):
        axes = op.normalized_axes(static_int_vector(op.axis) or (), sum(map(len, groups)))
        return [("axis", np.array([index for index, first in enumerate(firsts) if first in axes]))]
    if isinstance(op, Padded):
        return [("paddings", op.paddings.array().reshape(-1, 2)[firsts])]
    assert isinstance(op, Slice)  # by kinds
    sizes = [math.prod(op.output.static_shape[axis] for axis in group) for group in groups]
    return [("begin", op.begin.array().reshape(-1)[firsts]), ("size", np.array(sizes))]
