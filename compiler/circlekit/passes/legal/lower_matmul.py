# SPDX-License-Identifier: Apache-2.0
"""Lower matrix products to forms that more runtimes take; lower CUMSUM to FULLY_CONNECTED.

The forms have fewer dimensions, or a constant as the second operand.  A Replacement replaces the operators of
its ``kinds`` that the format, a runtime or its delegate refuses.  Its ``results`` returns None to leave an
operator as it is.  Except for MergeBatches, the operators here must be f32 and have known shapes.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.op import Op
from circlekit.ir.value import Shape, Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.dimensions import broadcast_shapes, product
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.reduction.cumsum import Cumsum
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter

MAX_SUMS = 1024
"""The longest axis, in elements, whose cumulative sums become a product with a triangular matrix of ones."""


class KeepDimensionsByReshape(Replacement[FullyConnected]):
    """fully_connected(x) with keep_num_dims, or with x of rank 1  ==  reshape(fully_connected(x)).

    The new operator has no ``keep_num_dims``, so it returns a matrix; an x of rank 1 becomes one row first.
    """

    # replaced for this runtime even if its table accepts the operator: onert ignores keep_num_dims
    targets = frozenset({"onert"})
    kinds = (FullyConnected,)

    def wants(self, op: Op) -> bool:
        assert isinstance(op, FullyConnected)  # by kinds
        return (op.keep_num_dims or op.input.rank == 1) and super().wants(op)

    def results(self, op: FullyConnected, insert: Inserter) -> list[Value] | None:
        if op.input.dtype is not f32 or not (op.input.is_static and op.output.is_static):
            return None
        data, shape = op.input, op.output.static_shape
        if len(data.static_shape) == 1:
            data = insert.reshaped(data, (1, data.static_shape[0]))
        attributes = {**op.attribute_items(), "keep_num_dims": False}
        value = insert.make(FullyConnected(data, op.weights, op.bias, **attributes))
        return [value if value.shape == shape else insert.reshaped(value, shape)]


class CumsumToFullyConnected(Replacement[Cumsum]):
    """cumsum(x)  ==  fully_connected(x with the summed axis last, a triangle of ones), for finite x.

    Transposes bring the summed axis to the end and back.  A CUMSUM over more than MAX_SUMS elements stays.
    """

    kinds = (Cumsum,)

    def results(self, op: Cumsum, insert: Inserter) -> list[Value] | None:
        axes = static_int_vector(op.axis)
        if axes is None or op.input.dtype is not f32 or not op.input.is_static or not op.input.numel:
            return None
        shape = op.input.static_shape
        if not shape:  # ``fits`` accepts it, because [] may stand for an unknown rank
            return None
        axis = axes[0] % len(shape)
        count = shape[axis]
        if count > MAX_SUMS:
            return None
        order = [*(a for a in range(len(shape)) if a != axis), axis]
        is_last = order == sorted(order)
        data = op.input if is_last else insert.transposed(op.input, order)
        # row i has a one for each element that is added to sum i
        triangle = np.tri(count, k=-int(op.exclusive), dtype=np.float32)
        weights = insert.constant("weights", np.ascontiguousarray(triangle.T if op.reverse else triangle))
        bias = insert.constant("bias", np.zeros(count, np.float32))
        sums = insert.make(FullyConnected(insert.reshaped(data, (-1, count)), weights, bias))
        value = insert.reshaped(sums, [shape[a] for a in order])
        return [value if is_last else insert.transposed(value, np.argsort(order).tolist())]


class MergeBatches(Replacement[BatchMatMul]):
    """batch_matmul(x, y)  ==  reshape(batch_matmul(reshape(x), reshape(y))), with fewer batch dimensions.

    Neighboring batch dimensions are merged if they broadcast in the same way.  One dimension of each shape
    may be unknown.  The operator stays if an operand has scales per channel, or if only one operand is float.
    """

    kinds = (BatchMatMul,)

    def results(self, op: BatchMatMul, insert: Inserter) -> list[Value] | None:
        result = op.output
        # a kernel that quantizes x itself finds the scales of x by the batch dimensions, so these must stay
        is_hybrid = op.x.dtype.is_float != op.y.dtype.is_float
        is_per_channel = any(v.quantization and v.quantization.is_per_channel for v in (op.x, op.y))
        if None in (op.x.shape, op.y.shape) or is_hybrid or is_per_channel or result.shape is None:
            return None
        rank = len(result.shape)
        merged = _merged_batches(*((1,) * (rank - v.known_rank) + v.known_shape for v in (op.x, op.y)))
        if any(shape.count(None) > 1 for shape in (*merged, result.shape)):
            return None
        pairs = zip((op.x, op.y), merged, strict=True)
        operands = [_reshaped(value, shape, insert) for value, shape in pairs]
        batch = broadcast_shapes(*(shape[:-2] for shape in merged)) or ()
        merged_result = Value("", result.dtype, (*batch, *result.shape[-2:]), None, result.quantization)
        value = insert.make(BatchMatMul(*operands, results=[merged_result], **op.attribute_items()))
        return [insert.reshaped(value, result.shape)]


def _reshaped(value: Value, shape: Shape, insert: Inserter) -> Value:
    """Return ``value`` reshaped to ``shape``; return ``value`` itself if it has this shape.

    A constant stays a constant, unless it is packed, sparse or compressed.
    """
    if value.shape == shape:
        return value
    if not value.is_plain:
        return insert.reshaped(value, shape)
    constant = insert.constant("reshaped", value.array().reshape([-1 if d is None else d for d in shape]))
    constant.dtype, constant.quantization = value.dtype, value.quantization
    return constant


def _merged_batches(x: Shape, y: Shape) -> tuple[Shape, Shape]:
    """Return the shapes of x and y with merged batch dimensions.

    ``x``, ``y``: shapes of equal rank.  The last two dimensions, rows and columns of the matrices, stay.
    Neighboring batch dimensions are merged in three cases: all are 1 in x; all are 1 in y; each is known, and
    the same in x and y.  Dimensions that are 1 in both are dropped.  Example: x [2, 3, 1, 4, 5] and
    y [2, 3, 7, 5, 6] become [6, 1, 4, 5] and [6, 7, 5, 6].
    """

    def kind(axis: int) -> str | int:
        """Return a key that neighboring dimensions have in common if they can be merged."""
        a, b = x[axis], y[axis]
        if b == 1:
            return "y is 1"
        if a == 1:
            return "x is 1"
        return "equal" if a == b and a is not None else axis

    axes = [axis for axis in range(len(x) - 2) if not x[axis] == y[axis] == 1]
    groups = [list(group) for _, group in groupby(axes, kind)]
    first, second = (
        (*(product([shape[axis] for axis in group]) for group in groups), *shape[-2:]) for shape in (x, y)
    )
    return first, second


class ConstantAsSecondOperand(Replacement[BatchMatMul]):
    """batch_matmul(c, y)  ==  transpose(batch_matmul(y transposed, c transposed)) for a constant c.

    Only the outer transpose is a new operator: the attributes ``adj_x`` and ``adj_y`` transpose the operands.
    """

    kinds = (BatchMatMul,)

    def results(self, op: BatchMatMul, insert: Inserter) -> list[Value] | None:
        if not op.x.is_const or op.y.is_const or not op.output.is_static or op.x.dtype is not f32:
            return None
        attributes = {**op.attribute_items(), "adj_x": not op.adj_y, "adj_y": not op.adj_x}
        turned = insert.make(BatchMatMul(op.y, op.x, **attributes))
        *batch, rows, columns = range(len(op.output.static_shape))
        return [insert.transposed(turned, (*batch, columns, rows))]
