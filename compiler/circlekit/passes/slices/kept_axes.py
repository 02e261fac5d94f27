# SPDX-License-Identifier: Apache-2.0
"""Find the axes along which an operator computes each index separately.

Along such an axis, a slice of the result equals the result of the operator on slices of its operands.
In this file, ``own`` is the axis of an operand that corresponds to ``axis`` of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import PRelu
from circlekit.ops.arithmetic.comparison import Select, Selection
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.ops.convolution.pool import AveragePool2D, L2Pool2D, MaxPool2D
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.elementwise import Elementwise
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.pad import Padded
from circlekit.ops.movement.resize_images import Resize
from circlekit.ops.movement.shape import Transpose, checked_perm
from circlekit.ops.reduction.normalization import L2Normalization, LogSoftmax, RmsNorm, Softmax
from circlekit.ops.reduction.reduce import Reduction, reduced_axes
from circlekit.passes.layout.permute_channels import (
    has_weights_alone,
    rounds_channels_alike,
    weights_of,
)

Needed = dict[int, tuple[int, range]]
"""{index of an operand: (its axis, the needed indices along it)}; operands needed as a whole are left out."""


def needed_for(op: Op, axis: int, taken: range) -> Needed | None:
    """Return which parts of the operands are needed for the indices ``taken`` of the result along ``axis``.

    ``op`` has one result, of known rank, and ``axis`` counts from 0.
    Return None if ``op`` mixes indices along ``axis``, or if it is not known whether it does, for example
    because the rank of an operand is unknown.  Return None also if LiteRT would round channels differently.
    """
    if isinstance(op, Concatenation) and normalized_axis(op.axis, op.output.known_rank) == axis:
        return _parts(op.values, axis, taken)
    if axis == op.output.known_rank - 1:
        # LiteRT rounds the channels of some operators in groups; 1, for an unknown number, fills no group
        counts = (op.output.known_shape[axis] or 1, len(taken))
        if not all(rounds_channels_alike(op, count) for count in counts):
            return None
    axes = _axes(op, axis)
    if axes is None or any(
        value is None or value.shape is None for value in map(op.inputs.__getitem__, axes)
    ):
        return None
    return {index: (own, taken) for index, own in axes.items()}


def without_axis(op: Op, axis: int) -> dict[int, int] | None:
    """Return, by operand index, the axis that an operand must lose if the result of ``op`` loses ``axis``.

    Operands that lose no axis are left out.  The caller has checked that ``needed_for`` does not return None
    for ``op`` and ``axis``.  Return None if ``op`` cannot work without ``axis``, or if this is not known.
    """
    rank = op.output.known_rank
    if isinstance(op, Select) and op.selects_rows():
        return {0: 0, 1: 0, 2: 0} if axis == 0 else {1: axis, 2: axis}
    if isinstance(op, Elementwise | Selection):
        owns = {i: axis - rank + value.known_rank for i, value in enumerate(op.inputs) if value is not None}
        return {index: own for index, own in owns.items() if own >= 0}
    works = isinstance(op, Reduction | L2Normalization | Softmax | LogSoftmax | RmsNorm)
    if isinstance(op, FullyConnected):
        works = op.keep_num_dims and rank > 2 and axis < rank - 1
    return _axes(op, axis) if works else None


def _parts(values: Sequence[Value], axis: int, taken: range) -> Needed | None:
    """Return the part of each of ``values`` that is needed for the indices ``taken`` along ``axis``.

    The operator joins ``values`` along ``axis``.  Example: of sizes 3 and 4, the indices 2 to 4 need
    {0: (axis, range(2, 3)), 1: (axis, range(0, 2))}.  A value that is not needed gets an empty range.
    Return None if a size along ``axis`` is unknown, or if ``taken`` has a step other than 1.
    """
    needed, start = Needed(), 0
    for index, value in enumerate(values):
        dim = None if value.shape is None else value.shape[axis]
        if dim is None or taken.step != 1:
            return None
        first = min(max(taken.start - start, 0), dim)
        needed[index] = axis, range(first, max(first, min(taken.stop - start, dim)))
        start += dim
    return needed


@singledispatch
def _axes(op: Op, axis: int) -> dict[int, int] | None:
    """Return, by operand index, the axis of the operand that corresponds to ``axis`` of the result.

    An index of the result needs only the same index of these operands.  Each operand that is left out is
    needed as a whole.  Return None if ``op`` mixes indices along ``axis``, or if that is not known (the
    default).
    """
    return None


@_axes.register(Elementwise)
@_axes.register(PRelu)
@_axes.register(Selection)
def _elementwise(op: Op, axis: int) -> dict[int, int] | None:
    return _broadcast_axes(op, axis, op.inputs)


@_axes.register
def _select(op: Select, axis: int) -> dict[int, int] | None:
    if not op.selects_rows():
        return _elementwise(op, axis)
    selected, rows = _broadcast_axes(op, axis, (op.x, op.y)), op.condition.known_shape[0]
    if selected is None or rows is None:
        return None
    axes = {index + 1: own for index, own in selected.items()}
    return {0: 0, **axes} if axis == 0 and rows != 1 else axes


def _broadcast_axes(op: Op, axis: int, operands: Sequence[Value | None]) -> dict[int, int] | None:
    """Return what ``_axes`` returns, for ``operands`` that are broadcast to the shape of ``op``'s result.

    Operands that are broadcast along ``axis`` are left out.  Return None if an operand is absent, or if its
    rank or its size along ``axis`` is unknown.
    """
    found, rank = {}, op.output.known_rank
    for index, value in enumerate(operands):
        if value is None or value.shape is None:
            return None
        own = axis - rank + len(value.shape)
        if own >= 0 and value.shape[own] is None:
            return None
        if own >= 0 and value.shape[own] != 1:
            found[index] = own
    return found


@_axes.register
def _reduction(op: Reduction, axis: int) -> dict[int, int] | None:
    axes, rank = static_int_vector(op.axis), op.input.rank
    if axes is None or rank is None:
        return None
    reduced = reduced_axes(axes, rank)
    kept = [a for a in range(rank) if op.keep_dims or a not in reduced]
    return {0: kept[axis]} if kept[axis] not in reduced else None


@_axes.register(L2Normalization)
@_axes.register(Softmax)
@_axes.register(LogSoftmax)
@_axes.register(RmsNorm)
def _on_last_axis(op: Op, axis: int) -> dict[int, int] | None:
    return {0: axis} if axis != op.output.known_rank - 1 else None


@_axes.register
def _fully_connected(op: FullyConnected, axis: int) -> dict[int, int] | None:
    rank = op.output.known_rank
    if axis == rank - 1:
        return _output_channels(op)
    if op.input.rank != rank or op.weights.shape is None:
        return None
    # without keep_num_dims, a row of the input may be several rows of the result, or a part of one
    depth = op.weights.shape[-1]
    has_same_rows = depth is not None and op.input.known_shape[-1] == depth
    return {0: axis} if op.keep_num_dims or has_same_rows else None


@_axes.register
def _batch_matmul(op: BatchMatMul, axis: int) -> dict[int, int] | None:
    if op.x.dtype is not op.y.dtype or op.x.shape is None or op.y.shape is None:
        return None  # for float x and int8 y, a product may use the scales of other rows (see BatchMatMul)
    from_end = axis - op.output.known_rank
    if from_end == -2:
        return {0: len(op.x.shape) - (1 if op.adj_x else 2)}
    if from_end == -1:
        return {1: len(op.y.shape) - (2 if op.adj_y else 1)}
    return _broadcast_axes(op, axis, (op.x, op.y))


@_axes.register
def _convolution(op: Conv2D, axis: int) -> dict[int, int] | None:
    if axis == 3:
        return _output_channels(op)
    return {0: 0} if axis == 0 else None


def _output_channels(op: Op) -> dict[int, int] | None:
    """Return {operand index: axis 0} for the weights and the bias, whose axis 0 has the output channels.

    Return None for a convolution with groups, and if weights or bias are not constant or have other users.
    """
    if weights_of(op) is None or not has_weights_alone(op):
        return None
    return {index: 0 for index, value in enumerate(op.inputs) if index and value is not None}


@_axes.register(DepthwiseConv2D)
def _depthwise(op: DepthwiseConv2D, axis: int) -> dict[int, int] | None:
    return {0: 0} if axis == 0 else None


@_axes.register(AveragePool2D)
@_axes.register(L2Pool2D)
@_axes.register(MaxPool2D)
@_axes.register(Resize)
def _image(op: Op, axis: int) -> dict[int, int] | None:
    return {0: axis} if axis in (0, 3) else None


@_axes.register
def _padded(op: Padded, axis: int) -> dict[int, int] | None:
    paddings = static_int_vector(op.paddings)
    return {0: axis} if paddings and paddings[2 * axis : 2 * axis + 2] == [0, 0] else None


@_axes.register
def _joined(op: Concatenation, axis: int) -> dict[int, int] | None:
    return dict.fromkeys(range(len(op.inputs)), axis)


@_axes.register
def _transposed(op: Transpose, axis: int) -> dict[int, int] | None:
    perm = static_int_vector(op.perm)
    return None if perm is None else {0: checked_perm(perm, op.output.known_rank)[axis]}
