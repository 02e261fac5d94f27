# SPDX-License-Identifier: Apache-2.0
"""The sizes of the scratch buffers that kernels of LiteRT and of ONE's interpreter have in the arena.

Each function for a kind of operator returns the sizes in bytes; [] if the kernel needs no scratch memory.  A
hybrid layer has float data and integer weights: its kernel quantizes the data during a run.
Operators must fit their shape rules.  An unknown dimension counts as 1, so the sizes of models with such
dimensions are lower limits.
Sources: ``Prepare`` of LiteRT's optimized kernels (``tflite/kernels``) for one thread, where temporaries of
the allocation type ``kTfLiteArenaRw`` are in the arena; ``ExecutionPlanner.cpp`` of ONE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.ops.dimensions import element_count
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.reduction.reduce import Reduction
from circlekit.targets.cost import value_bytes

NARROW = (u8, i8, DType.INT4, DType.INT2)
"""The dtypes of the weights of hybrid layers."""


def no_scratch(op: Op) -> list[int]:
    """Return []: the function of planners without scratch memory."""
    return []


def litert_scratch(op: Op) -> list[int]:
    """Return the sizes in bytes of the scratch buffers of LiteRT's kernel for ``op``, on one thread."""
    if not op.results or len(op.inputs) < 2 or None in op.inputs[:2]:
        return []  # every operator of _LITERT has a result and two operands
    return next((sizes(op) for kind, sizes in _LITERT.items() if isinstance(op, kind)), [])


def one_scratch(op: Op) -> list[int]:
    """Return the sizes in bytes of the scratch buffers of ONE's kernel for ``op``; there is at most one.

    Only a CONV_2D that is not int16 can have one, the matrix of patches.  Patches have the dtype of the
    input: ONE plans a hybrid convolution like one of floats.
    """
    return _patches(op, op.input.dtype) if isinstance(op, Conv2D) and op.input.dtype is not i16 else []


def _patches(op: Conv2D, dtype: DType) -> list[int]:
    """Return the size of the matrix of patches (im2col) of this dtype; [] if the kernel needs none.

    The matrix has a row for each position of the result: the elements of the input that the filter covers.
    """
    filter_shape = op.filter.shape
    if not filter_shape or (filter_shape[1:3] == (1, 1) and {*op.strides, *op.dilations} == {1}):
        return []
    count = element_count(op.output.shape[:3] if op.output.shape else None) * element_count(filter_shape[1:])
    return [count * dtype.bits // 8]


def _is_hybrid(data: Value, weights: Value) -> bool:
    """Return whether a layer with these operands is hybrid."""
    return data.dtype is f32 and weights.dtype in NARROW


def _is_per_channel(weights: Value) -> bool:
    """Return whether the scales of ``weights`` differ; LiteRT takes equal ones for one scale per tensor."""
    scale = () if weights.quantization is None else weights.quantization.scale.reshape(-1).tolist()
    return len(set(scale)) > 1


def _convolution(op: Conv2D) -> list[int]:
    is_hybrid = _is_hybrid(op.input, op.filter)
    sizes = _patches(op, i8 if is_hybrid else op.input.dtype)
    if is_hybrid:
        data, filter_shape = op.input.shape or (), op.filter.shape or ()
        groups = element_count(data[-1:]) // (element_count(filter_shape[-1:]) or 1)
        row_bytes = 4 * element_count(data[:3]) * groups  # a float32 or int32 for each pixel and group
        sum_bytes = 4 * element_count(op.output.shape)
        # the quantized data, its scales, the int32 sums; per channel also the zero points of the data
        sizes += [element_count(op.input.shape), row_bytes, sum_bytes]
        if _is_per_channel(op.filter):
            sizes.append(row_bytes)
    return sizes


def _depthwise(op: DepthwiseConv2D) -> list[int]:
    if not _is_hybrid(op.input, op.filter):
        return []
    image_bytes = 4 * element_count((op.input.shape or ())[:1])  # one number of 4 bytes for each image
    # the quantized data, its scales and its zero points
    return [element_count(op.input.shape), image_bytes, image_bytes]


def _dense(op: FullyConnected) -> list[int]:
    data, weights = op.input, op.weights
    if not _is_hybrid(data, weights) or not weights.shape:
        return []
    units, depth = (dim or 1 for dim in weights.shape[-2:])
    rows = element_count(data.shape) // depth
    # the quantized data, its scales, the int32 sums, the zero points of the data
    return [element_count(data.shape), 4 * rows, 4 * units * rows, 4 * rows]


def _batch_matmul(op: BatchMatMul) -> list[int]:
    left, right = op.x, op.y
    if not left.shape or not right.shape:
        return []
    # a transposed copy of each operand; that of a constant ``y`` is made once, outside of the arena
    sizes = [value_bytes(left)]
    if not right.is_const:
        sizes.append(value_bytes(right))
    if _is_hybrid(left, right):
        rows = left.shape[-1 if op.adj_x else -2] or 1
        units = right.shape[-2 if op.adj_y else -1] or 1
        row_bytes = 4 * element_count(left.shape[:-2]) * rows
        # the same as for a dense layer
        sizes += [element_count(left.shape), row_bytes, 4 * units * rows, row_bytes]
    return sizes


_SUM_BYTES = {i32: 8, i64: 8}
"""{dtype of the input of a reduction: bytes of an element of its sums}; 4 bytes for other dtypes."""


def _reduction(op: Reduction) -> list[int]:
    data, axes = op.input, op.axis
    sizes = [4 * len(data.shape or ())]  # an index into the data
    if axes.is_const:  # the axes, and the sums; otherwise LiteRT allocates both outside of the arena
        sizes.append(4 * element_count(axes.shape))
        if op.code in ("MEAN", "SUM", "REDUCE_PROD"):
            sizes.append(_SUM_BYTES.get(data.dtype, 4) * element_count(op.results[0].shape))
    return sizes


_LITERT: dict[type[Op], Callable[[Any], list[int]]] = {
    Conv2D: _convolution,
    DepthwiseConv2D: _depthwise,
    FullyConnected: _dense,
    BatchMatMul: _batch_matmul,
    Reduction: _reduction,
}
"""By operator class, a function that returns the sizes of an operator's scratch buffers in LiteRT."""
