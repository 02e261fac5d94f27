# SPDX-License-Identifier: Apache-2.0
"""Operators with a filter that can take a factor and an offset for each channel of their result."""

from __future__ import annotations

from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.dense import FullyConnected
from circlekit.ops.elementwise import Add, Mul
from circlekit.ops.shape import Reshape
from circlekit.ops.slice import Slice, StridedSlice
from circlekit.ops.space import BatchToSpaceND, ResizeBilinear, ResizeNearestNeighbor

PRODUCTS = (Conv2D, DepthwiseConv2D, TransposeConv, FullyConnected)

MOVES = (Reshape, BatchToSpaceND, Slice, StridedSlice, ResizeNearestNeighbor, ResizeBilinear)
"""Operators that a factor of the channels can be moved across."""

FAR = 8
"""Factors and offsets behind one another, at most: those of a batch norm and what surrounds it."""


def not_from_product(value: Value) -> str | None:
    """Why nothing can be folded into what makes ``value``: through constant factors and moves, too."""
    maker = value.producer
    for _ in range(FAR):
        before = _before(maker)
        if before is None:
            break
        maker = before.producer
    if not isinstance(maker, PRODUCTS):
        kind = type(maker).__name__ if maker is not None else "no operator"
        return f"%{value.name}: comes from {kind}, a convolution or a fully connected layer is wanted"
    if maker.act is not Activation.NONE:
        return f"%{maker.output.name}: act is {maker.act.name}, NONE is wanted"
    if value.use_count > 1:
        return f"%{value.name}: is read elsewhere, too"
    return None


def _before(op: Op | None) -> Value | None:
    """What ``op`` shifts, scales or moves, if that is all it does."""
    if isinstance(op, MOVES):
        return op.input
    if not isinstance(op, Add | Mul) or op.act is not Activation.NONE:
        return None
    operands = [v for v in op.inputs if v is not None and not v.is_const]
    return operands[0] if len(operands) == 1 else None


def not_per_channel(constant: Array, value: Value) -> str | None:
    """Why ``constant`` is not one number, or one for each element of the last dimension of ``value``."""
    last = value.shape[-1] if value.shape else None
    if constant.size == 1 or (constant.shape[-1] == constant.size == last):
        return None
    return f"%{value.name}: the constant has shape {format_shape(constant.shape)}, one a channel is wanted"
