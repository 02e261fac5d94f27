# SPDX-License-Identifier: Apache-2.0
"""Operators with a filter that can take a factor and an offset for each channel of their result."""

from __future__ import annotations

from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.pool import AveragePool2D
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.shape import ExpandDims, Reshape, Squeeze, Transpose
from circlekit.ops.movement.slice import Pad, Slice, StridedSlice
from circlekit.ops.movement.space import BatchToSpaceND, ResizeBilinear, ResizeNearestNeighbor
from circlekit.ops.reduction.reduce import Mean

PRODUCTS = (Conv2D, DepthwiseConv2D, TransposeConv, FullyConnected)

MOVES = (
    Reshape, Squeeze, ExpandDims, Slice, StridedSlice, BatchToSpaceND, Transpose, ResizeBilinear,
    ResizeNearestNeighbor, Mean, Pad,
)  # fmt: skip
"""What forward_batchnorm passes, whatever its attributes."""

FAR = 8
"""Factors and offsets behind one another, at most: those of a batch norm and what surrounds it."""


def not_from_product(value: Value, shifts: bool) -> str | None:
    """Why nothing can be folded into what makes ``value``: through constant factors and moves, too.

    ``shifts``: whether it is an offset, which cannot go before a border of zeros.
    """
    at = value
    for _ in range(FAR):
        maker = at.producer
        if at.use_count > 1 or (maker is not None and maker.graph is not None and maker.graph.is_output(at)):
            return f"%{at.name}: is read elsewhere, too"
        shifts = shifts or isinstance(maker, Add)
        before = None if shifts and isinstance(maker, Pad) else _before(maker)
        if before is None:
            break
        at = before
    if not isinstance(maker, PRODUCTS):
        kind = type(maker).__name__ if maker is not None else "no operator"
        return f"%{at.name}: comes from {kind}, a convolution or a fully connected layer is wanted"
    if maker.act is not Activation.NONE:
        return f"%{maker.output.name}: act is {maker.act.name}, NONE is wanted"
    filter = maker.weights if isinstance(maker, FullyConnected) else maker.filter
    if not filter.is_const:
        return f"%{filter.name}: is not constant, nothing can be folded into it"
    return None


def _before(op: Op | None) -> Value | None:
    """What ``op`` shifts, scales or moves, if that is all it does."""
    if isinstance(op, MOVES):
        return op.inputs[0]
    if isinstance(op, AveragePool2D):
        return op.input if op.act is Activation.NONE else None
    if not isinstance(op, Add | Mul) or op.act is not Activation.NONE:
        return None
    operands = [v for v in op.inputs if v is not None and not v.is_const]
    return operands[0] if len(operands) == 1 else None


def is_transposed(value: Value) -> bool:
    """Whether a Transpose is on the way from the operator with a filter to ``value``."""
    at: Value | None = value
    for _ in range(FAR):
        maker = at.producer if at is not None else None
        if isinstance(maker, Transpose):
            return True
        at = _before(maker)
    return False


def not_per_channel(constant: Array, value: Value) -> str | None:
    """Why ``constant`` is not one number, or one for each element of the last dimension of ``value``."""
    last = value.shape[-1] if value.shape else None
    if constant.size == 1 or (constant.shape[-1] == constant.size == last):
        return None
    return f"%{value.name}: the constant has shape {format_shape(constant.shape)}, one a channel is wanted"
