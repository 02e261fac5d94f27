# SPDX-License-Identifier: Apache-2.0
"""Lower data movement to SLICE, CONCATENATION, RESHAPE and, where floats are repeated, MUL by ones.

A Replacement replaces the operators of its ``kinds`` that the format, a runtime or its delegate refuses.

A repeated infinite f32 may become the largest finite number, because MUL clamps it (see
``lower_elementwise``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value, same_grid
from circlekit.ops.arithmetic.binary import Mul
from circlekit.ops.convolution.pool import AveragePool2D, MaxPool2D
from circlekit.ops.movement.join import Concatenation, Pack
from circlekit.ops.movement.slice import Slice
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.axis_indices import axis_indices, moved_operand
from circlekit.passes.support.insertion import Inserter

MAX_PIECES = 10
"""The limit for the results of an operator, for slices along an axis, and for repetitions except of f32.

An operator that needs more stays as it is.  Along the last axis, where slices are short in memory, the limit
for slices is 2.
"""

MAX_JOINED = 5
"""The largest number of operands that XNNPACK takes in one CONCATENATION."""


class MoveBySlices(Replacement[Op]):
    """Data movement that takes elements at constant indices of each axis  ==  slices, joined or repeated."""

    changes_more = True  # so legalizations that change less of the model run first
    kinds = (Op,)

    def wants(self, op: Op) -> bool:
        return op.data_movement and super().wants(op)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        data, lists = moved_operand(op), axis_indices(op)  # ``lists``: for each result, the indices by axis
        if data is None or lists is None or len(lists) > MAX_PIECES or not _have_one_scale(data, *op.results):
            return None
        values = []
        for indices, result in zip(lists, op.results, strict=True):
            value = _taken(data, indices, insert)
            if value is None:
                return None
            values.append(_finished(value, result, insert))
        return values


class PickByPool(Replacement[MaxPool2D | AveragePool2D]):
    """max_pool(x) or average_pool(x) with a window of 1 x 1  ==  every stride-th element of x, as slices.

    f32 elements must be finite: pools clamp infinities, and max_pool(NaN) is the smallest finite number.
    """

    changes_more = True
    kinds = (MaxPool2D, AveragePool2D)

    def results(self, op: MaxPool2D | AveragePool2D, insert: Inserter) -> list[Value] | None:
        is_single = op.filter_height == op.filter_width == 1 and op.act is Activation.NONE
        if not is_single or not op.input.is_static or not _have_one_scale(op.input, op.output):
            return None
        if not op.input.numel:
            return None
        strides = (1, op.stride_h, op.stride_w, 1)
        indices = [np.arange(0, d, step) for d, step in zip(op.input.static_shape, strides, strict=True)]
        value = _taken(op.input, indices, insert)
        return None if value is None else [_finished(value, op.output, insert)]


class JoinInParts(Replacement[Concatenation | Pack]):
    """concatenation of many values  ==  concatenations of at most MAX_JOINED values, joined; also for pack.

    A pack becomes reshapes, which add the new axis, and concatenations along it.
    """

    changes_more = True
    kinds = (Concatenation, Pack)

    def results(self, op: Concatenation | Pack, insert: Inserter) -> list[Value] | None:
        values: Sequence[Value] = op.values
        is_known = all(value.is_static for value in (*values, op.output)) and op.output.shape != ()
        if not is_known or not _have_one_scale(*values, op.output):
            return None
        shape = op.output.static_shape
        axis = op.axis % len(shape)
        if isinstance(op, Pack):
            single = (*shape[:axis], 1, *shape[axis + 1 :])
            values = [_like(value, insert.reshaped(value, single)) for value in values]
        elif op.act is not Activation.NONE:
            return None
        return [_finished(_joined(values, axis, insert), op.output, insert)]


def _have_one_scale(value: Value, *others: Value) -> bool:
    """Return whether all values have no quantization, or all have the same, with one scale."""
    quantization = value.quantization
    has_one_scale = quantization is None or quantization.scale.size <= 1
    return has_one_scale and all(same_grid(other.quantization, quantization) for other in others)


def _like(source: Value, value: Value) -> Value:
    """Return ``value`` after giving it the quantization of ``source``, from which its elements come."""
    value.quantization = source.quantization
    return value


def _finished(value: Value, result: Value, insert: Inserter) -> Value:
    """Return ``value`` in the shape of ``result``, as the result of an inserted operator.

    If ``value`` has another shape, or is a value of the old graph, insert a Reshape.
    """
    if value.producer in insert.ops and value.shape == result.shape:
        return value
    return _like(value, insert.reshaped(value, result.static_shape))


class _Split(NamedTuple):
    """An axis of ``outer * inner * last`` elements, seen as three axes of these sizes.

    Only the axis ``inner`` changes: for a step, one index of it is taken; for a repetition, its size is 1,
    and its only index is repeated.  Examples:

    - The indices 1, 4, 7 of an axis of size 9: seen as [3, 3, 1], index 1 of ``inner`` is taken.
    - The indices 2, 2, 3, 3: the slice 2, 3 is seen as [2, 1, 1], and ``inner`` is repeated twice.
    - The indices 2, 3, 2, 3: the slice 2, 3 is seen as [1, 1, 2], and ``inner`` is repeated twice.
    """

    outer: int
    inner: int
    last: int


def _taken(data: Value, indices: Sequence[Array], insert: Inserter) -> Value | None:
    """Return the elements of ``data`` at ``indices`` along each axis.

    If there are more ``indices`` than axes, ``data`` gets leading axes of size 1.
    Return None if this needs more slices or repetitions than MAX_PIECES allows.

    The indices of an axis have one of these forms:

    - ``steps``: a range with a step above 1, as 1, 4, 7; the axis has at least count * step elements.
    - ``repeats``: a range repeated index by index, as 2, 2, 3, 3, or as a whole, as 2, 3, 2, 3.  A plain
      range counts as repeated once.
    - ``pieces``: several ranges, as 5, 6, 2, 3.
    """
    shape = (1,) * (len(indices) - len(data.static_shape)) + data.static_shape
    ranges: list[range] = []  # by axis: the first slice, from which the rest is taken
    steps: dict[int, tuple[_Split, int]] = {}  # by axis: how it is split, the index taken of ``inner``
    repeats: dict[int, tuple[_Split, int]] = {}  # by axis: how it is split, the number of repetitions
    pieces: dict[int, list[Array]] = {}  # by axis: the ranges
    for axis, row in enumerate(indices):
        low, count = int(row.min()), len(row)
        size = int(row.max()) + 1 - low
        step, times = _step(row), max(1, count // size)
        if step > 1 and count * step <= shape[axis]:  # the slice has whole steps, so it can be split
            begin = min(low, shape[axis] - count * step)
            steps[axis] = _Split(count, step, 1), low - begin
            low, size = begin, count * step
        elif np.array_equal(row - low, np.repeat(np.arange(size), times)):
            repeats[axis] = _Split(size, 1, 1), times
        elif np.array_equal(row - low, np.tile(np.arange(size), times)):
            repeats[axis] = _Split(1, 1, size), times
        else:
            pieces[axis] = np.split(row, np.flatnonzero(np.diff(row) != 1) + 1)
            low, size = 0, shape[axis]
        ranges.append(range(low, low + size))
    if any(len(found) > (MAX_PIECES if axis + 1 < len(shape) else 2) for axis, found in pieces.items()):
        return None
    value = data if shape == data.shape else _like(data, insert.reshaped(data, shape))
    value = _sliced(value, ranges, insert)
    for axis, found in pieces.items():
        whole = [range(size) for size in value.static_shape]
        parts = [[*whole[:axis], range(p[0], p[-1] + 1), *whole[axis + 1 :]] for p in found]
        value = _joined([_sliced(value, part, insert) for part in parts], axis, insert)
    value = _stepped(value, steps, insert)
    repeats = {a: found for a, found in repeats.items() if found[1] > 1}
    if any(times > MAX_PIECES for _, times in repeats.values()) and value.dtype is not f32:
        return None
    return _repeated(value, repeats, insert)


def _step(row: Array) -> int:
    """Return the difference of neighboring elements of ``row``; 1 if it is not the same for all."""
    steps = np.unique(np.diff(row))
    return int(steps[0]) if steps.size == 1 else 1


def _sliced(value: Value, ranges: Sequence[range], insert: Inserter) -> Value:
    """Return a slice of ``value``, or ``value`` itself if ``ranges`` cover all axes."""
    if all(len(taken) == size for taken, size in zip(ranges, value.static_shape, strict=True)):
        return value
    begin = insert.constant("begin", np.array([taken.start for taken in ranges], np.int32))
    size = insert.constant("size", np.array([len(taken) for taken in ranges], np.int32))
    return _like(value, insert.make(Slice(value, begin, size)))


def _joined(values: Sequence[Value], axis: int, insert: Inserter) -> Value:
    """Return ``values`` joined along ``axis``; each CONCATENATION takes at most MAX_JOINED operands."""
    while len(values) > 1:
        groups = [values[begin : begin + MAX_JOINED] for begin in range(0, len(values), MAX_JOINED)]
        values = [
            _like(first, insert.make(Concatenation(first, *others, axis=axis))) if others else first
            for first, *others in groups
        ]
    return values[0]


def _stepped(value: Value, steps: Mapping[int, tuple[_Split, int]], insert: Inserter) -> Value:
    """Return every ``inner``-th element of ``value`` along the axes in ``steps``.

    ``steps``: for an axis, its split and the index to take of the part ``inner``.
    """
    if not steps:
        return value
    shape, places = _split_shape(value.static_shape, steps)
    ranges = [range(size) for size in shape]
    for axis, (_, index) in steps.items():
        ranges[places[axis]] = range(index, index + 1)
    part = _sliced(_like(value, insert.reshaped(value, shape)), ranges, insert)
    sizes = [steps[a][0].outer if a in steps else size for a, size in enumerate(value.static_shape)]
    return _like(value, insert.reshaped(part, sizes))


def _repeated(value: Value, repeats: Mapping[int, tuple[_Split, int]], insert: Inserter) -> Value:
    """Return each element of ``value`` several times along the axes in ``repeats``.

    ``repeats``: for an axis, its split and the number of repetitions.
    """
    if not repeats:
        return value
    shape, places = _split_shape(value.static_shape, repeats)
    times = [1] * len(shape)
    for axis, (_, count) in repeats.items():
        times[places[axis]] = count
    grouped = value if tuple(shape) == value.shape else _like(value, insert.reshaped(value, shape))
    if value.dtype is f32:
        wide = insert.make(Mul(grouped, insert.constant("ones", np.ones(times, np.float32))))
    else:
        wide = grouped
        for axis, count in enumerate(times):
            wide = _joined([wide] * count, axis, insert)
    sizes = [size * repeats[a][1] if a in repeats else size for a, size in enumerate(value.static_shape)]
    return wide if tuple(sizes) == wide.shape else _like(value, insert.reshaped(wide, sizes))


def _split_shape(
    shape: Sequence[int], splits: Mapping[int, tuple[_Split, int]]
) -> tuple[list[int], dict[int, int]]:
    """Return a shape in which each axis in ``splits`` is split in three, and the places of the inner parts.

    All axes between two inner parts are merged into one.  A place is an axis of the new shape; the second
    result maps each axis in ``splits`` to the place of its inner part.
    For example, the shape [4, 6, 5] with axis 1 split in [3, 2, 1] gives ([4 * 3, 2, 1 * 5], {1: 1}).
    """
    sizes, places = [1], {}
    for axis, size in enumerate(shape):
        split = splits[axis][0] if axis in splits else None
        sizes[-1] *= size if split is None else split.outer
        if split is not None:
            places[axis] = len(sizes)
            sizes += split.inner, split.last
    return sizes, places
