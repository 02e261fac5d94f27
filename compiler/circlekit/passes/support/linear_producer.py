# SPDX-License-Identifier: Apache-2.0
"""Conditions for folding a factor or offset per channel into a linear operator further up the graph.

A linear operator is a convolution or a fully connected layer.  A factor goes into its weights and bias, an
offset into its bias.  A function whose name ends in ``_refusal`` returns the sentence of the refusal, or None
if there is no obstacle.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.pool import AveragePool2D
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.pad import Pad
from circlekit.ops.movement.resize_images import ResizeBilinear, ResizeNearestNeighbor
from circlekit.ops.movement.shape import ExpandDims, Reshape, Squeeze, Transpose
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.movement.space import BatchToSpaceND
from circlekit.ops.reduction.reduce import Mean
from circlekit.rewrite.match import origin

LINEAR = (Conv2D, DepthwiseConv2D, TransposeConv, FullyConnected)

PASSABLE = (
    Reshape, Squeeze, ExpandDims, Slice, StridedSlice, BatchToSpaceND, Transpose, ResizeBilinear,
    ResizeNearestNeighbor, Mean, Pad,
)  # fmt: skip
"""Operators before which the pass ``forward_batchnorm`` moves factors and offsets.

It also moves them before an AVERAGE_POOL_2D without activation.
"""

MAX_STEPS = 8
"""The search up the graph for a linear operator examines at most this many operators, to limit the time."""


def producer_refusal(value: Value, is_offset: bool) -> str | None:
    """Refuse unless a linear operator above ``value`` can absorb a constant that is applied to ``value``.

    Constant factors, constant offsets, PASSABLE operators and AVERAGE_POOL_2D without activation may stand
    between the linear operator and ``value``.
    ``is_offset``: the constant is added.  An offset cannot move before a Pad, because then it would not be
    added to the padding zeros.
    """
    current = value
    for _ in range(MAX_STEPS):
        producer = current.producer
        graph = None if producer is None else producer.graph
        if current.use_count > 1 or (graph is not None and graph.is_output(current)):
            return f"%{current.name}: has other users, or is an output of the graph"
        is_offset = is_offset or isinstance(producer, Add)  # the offset of this Add moves, too
        operand = None if is_offset and isinstance(producer, Pad) else _passed_operand(producer)
        if operand is None:
            break
        current = operand
    else:
        expected = "a convolution or fully connected layer"
        return f"%{value.name}: none of the {MAX_STEPS} operators before it is {expected}"
    if not isinstance(producer, LINEAR):
        return (
            f"%{current.name}: comes from {origin(current)}, expected a convolution or fully connected layer"
        )
    if producer.act is not Activation.NONE:
        return f"%{producer.output.name}: act is {producer.act.name}, expected NONE"
    weights = producer.weights if isinstance(producer, FullyConnected) else producer.filter
    for constant in (weights, producer.bias):
        if constant is not None and not (constant.is_plain and constant.dtype is f32):
            return f"%{constant.name}: is not a float32 constant, so nothing can be folded into it"
    return None


def _passed_operand(op: Op | None) -> Value | None:
    """Return the operand of ``op`` through which the search goes on; None if it ends at ``op``.

    It goes on if ``op`` only scales, shifts, moves, interpolates or averages elements.
    """
    if isinstance(op, PASSABLE):
        return op.inputs[0]
    if isinstance(op, AveragePool2D):
        return op.input if op.act is Activation.NONE else None
    if not isinstance(op, Add | Mul) or op.act is not Activation.NONE:
        return None
    operands = [v for v in op.inputs if v is not None and not v.is_const]
    return operands[0] if len(operands) == 1 else None


def has_transpose_before(value: Value) -> bool:
    """Return whether there is a Transpose among the operators that ``producer_refusal`` searches.

    ``value``: a value for which ``producer_refusal`` returns None.
    """
    current: Value | None = value
    for _ in range(MAX_STEPS):
        producer = current.producer if current is not None else None
        if isinstance(producer, Transpose):
            return True
        current = _passed_operand(producer)
    return False


def channel_refusal(constant: Array, value: Value) -> str | None:
    """Refuse unless ``constant`` has one element, or one for each index of the last axis of ``value``."""
    last = value.shape[-1] if value.shape else None
    if constant.size == 1 or (constant.shape[-1] == constant.size == last):
        return None
    shape = format_shape(constant.shape)
    return f"%{value.name}: expected a constant with one number per channel, got shape {shape}"


def per_channel(values: Array, channels: int) -> Array:
    """Broadcast ``values`` of shape [1, ..., channels], or of one element, to shape [channels]."""
    return np.broadcast_to(values.reshape(-1), (channels,))


def fold_bias(bias: Array | None, scale: Array | None, shift: Array) -> Array:
    """Return ``bias * scale + shift`` per channel, computed in float64 and rounded once.

    ``scale`` None stands for 1.  If ``bias`` is None, return ``shift``.
    """
    if bias is None:
        return np.ascontiguousarray(shift)
    exact = bias.reshape(-1).astype(np.float64) * (1.0 if scale is None else scale) + shift
    return exact.astype(bias.dtype)
