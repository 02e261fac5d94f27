# SPDX-License-Identifier: Apache-2.0
"""Lower matrix products: fewer dimensions, constants as the second operand; CUMSUM to FULLY_CONNECTED."""

from __future__ import annotations

import math

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.reduction.reduce import Cumsum
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter

MAX_SUMS = 1024
"""Length of the longest axis whose cumulative sums become a product with a square matrix."""


class KeepDimensionsByReshape(Replacement):
    """fully_connected(x) with keep_num_dims, or of rank 1  ==  reshape(fully_connected(x as a matrix))."""

    targets = frozenset({"onert"})  # accepts keep_num_dims and ignores it
    kinds = (FullyConnected,)

    def wants(self, op: Op) -> bool:
        assert isinstance(op, FullyConnected)  # by kinds
        return (op.keep_num_dims or op.input.rank == 1) and super().wants(op)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        assert isinstance(op, FullyConnected)  # by kinds
        if op.input.dtype is not f32 or not (op.input.is_static and op.output.is_static):
            return None
        data, shape = op.input, op.output.static_shape
        if len(data.static_shape) == 1:
            data = insert.reshaped(data, (1, data.static_shape[0]))
        attributes = {**op.attribute_items(), "keep_num_dims": False}
        value = insert.make(FullyConnected(data, op.weights, op.bias, **attributes))
        return [value if value.shape == shape else insert.reshaped(value, shape)]


class CumsumToFullyConnected(Replacement):
    """cumsum(x)  ==  fully_connected(x with the axis at the end, a triangle of ones), for finite x."""

    kinds = (Cumsum,)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        assert isinstance(op, Cumsum)  # by kinds
        axes = static_int_vector(op.axis)
        if axes is None or op.input.dtype is not f32 or not op.input.is_static or not op.input.numel:
            return None
        shape = op.input.static_shape
        axis = axes[0] % len(shape)
        count = shape[axis]
        if count > MAX_SUMS:
            return None
        order = [*(a for a in range(len(shape)) if a != axis), axis]
        is_last = order == sorted(order)
        data = op.input if is_last else insert.transposed(op.input, order)
        triangle = np.tri(count, k=-int(op.exclusive), dtype=np.float32)  # row u: the summands of sum u
        weights = insert.constant("weights", np.ascontiguousarray(triangle.T if op.reverse else triangle))
        bias = insert.constant("bias", np.zeros(count, np.float32))
        sums = insert.make(FullyConnected(insert.reshaped(data, (-1, count)), weights, bias))
        value = insert.reshaped(sums, [shape[a] for a in order])
        return [value if is_last else insert.transposed(value, np.argsort(order).tolist())]


class MergeBatches(Replacement):
    """batch_matmul(x, y) with the same batch dimensions  ==  reshape(batch_matmul(x, y) with one of them)."""

    kinds = (BatchMatMul,)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        assert isinstance(op, BatchMatMul)  # by kinds
        if not all(value.is_static and value.dtype is f32 for value in (op.x, op.y, op.output)):
            return None
        shapes = [value.static_shape for value in (op.x, op.y)]
        if len(shapes[0]) < 4 or shapes[0][:-2] != shapes[1][:-2]:
            return None
        merged = [
            insert.reshaped(value, (math.prod(shape[:-2]), *shape[-2:]))
            for value, shape in zip((op.x, op.y), shapes, strict=True)
        ]
        product = insert.make(BatchMatMul(*merged, **op.attribute_items()))
        return [insert.reshaped(product, op.output.static_shape)]


class ConstantAsSecondOperand(Replacement):
    """batch_matmul(c, y)  ==  transpose(batch_matmul(y transposed, c transposed)) for a constant c."""

    kinds = (BatchMatMul,)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        assert isinstance(op, BatchMatMul)  # by kinds
        if not op.x.is_const or op.y.is_const or not op.output.is_static or op.x.dtype is not f32:
            return None
        attributes = {**op.attribute_items(), "adj_x": not op.adj_y, "adj_y": not op.adj_x}
        product = insert.make(BatchMatMul(op.y, op.x, **attributes))
        *batch, rows, columns = range(len(op.output.static_shape))
        return [insert.transposed(product, (*batch, columns, rows))]
