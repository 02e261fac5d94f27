# SPDX-License-Identifier: Apache-2.0
"""Lower the rank of paddings, slices and reductions: neighbouring axes that they treat alike become one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.slice import Pad, Padded, PadV2, Slice
from circlekit.ops.reduction.reduce import Reduction
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter

Groups = list[list[int]]
"""Neighbouring axes, by the axis that they become."""


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
        made = insert.make(type(op)(merged, *numbers, *rest, **op.attribute_items()))
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
