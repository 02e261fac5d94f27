# SPDX-License-Identifier: Apache-2.0
"""Operators on bits, buckets, diagonals and distinct elements, and BROADCAST_ARGS.

The class argument ``kinds`` has numpy's letters of the dtypes that a kernel takes: i signed, u unsigned.
Source: TFLite bitcast, bitwise_xor, right_shift, bucketize, matrix_diag, matrix_set_diag, unique,
broadcast_args.
"""

from __future__ import annotations

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, boolean, f32, f64, i32, i64
from circlekit.ir.op import Inferred, Op, attribute, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import require_numpy_kind, require_rank, require_same_dtype, require_shape
from circlekit.ops.constant_operands import int_list
from circlekit.ops.dimensions import broadcast_shapes, dims_differ
from circlekit.ops.elementwise import Binary
from circlekit.ops.operand_dtypes import COMPLEX, INTEGERS, NUMBERS
from circlekit.ops.quantized_values import per_tensor_quantization


class Bitcast(Op, code="BITCAST"):
    """The bytes of the input, read as elements of the dtype of the declared result.

    If the new elements are smaller, the result has an additional last axis.  If they are larger, the last
    axis is removed; its elements must together have the bytes of one new element.
    """

    input = operand(*NUMBERS, boolean, *COMPLEX)

    def infer(self) -> Inferred:
        if not self.results:
            raise ModelError("BITCAST: expected a declared result, as its dtype cannot be inferred")
        dtype, shape = self.output.dtype, self.input.shape
        old_bytes, new_bytes = self.input.dtype.bits // 8, dtype.bits // 8
        if shape is None or not old_bytes or not new_bytes:  # strings and packed integers
            return TensorType(dtype, None)
        if old_bytes > new_bytes:
            return TensorType(dtype, (*shape, old_bytes // new_bytes))
        if old_bytes < new_bytes:
            if not shape or dims_differ(shape[-1], new_bytes // old_bytes):
                expected = f"expected a last dimension of {new_bytes // old_bytes}"
                raise ShapeError(f"BITCAST to {dtype.short}: {expected}, got {format_shape(shape)}")
            return TensorType(dtype, shape[:-1])
        return TensorType(dtype, shape)

    def kernel(self, input: Array) -> Array:
        dtype, before = self.output.dtype.numpy, self.input.dtype
        if dtype is None or before.bits < 8:  # an array has packed integers in bytes of their own
            pair = f"from {before.short} to {self.output.dtype.short}"
            raise UnsupportedError(f"BITCAST {pair} has no kernel")
        old_bytes, new_bytes = input.dtype.itemsize, dtype.itemsize
        data = np.array(input, order="C")  # the last axis must be contiguous
        if old_bytes > new_bytes:
            return data[..., None].view(dtype)
        return data.view(dtype)[..., 0] if old_bytes < new_bytes else data.view(dtype)


class BitwiseXor(Binary, code="BITWISE_XOR", commutative=True, kinds="iu", function=np.bitwise_xor):
    """The bitwise exclusive or of lhs and rhs."""

    lhs = operand(*INTEGERS)
    rhs = operand(*INTEGERS)


class RightShift(Binary, code="RIGHT_SHIFT", kinds="iu"):
    """lhs shifted right by rhs bits, where rhs is clamped to 0 ... (bits of the dtype) - 1."""

    lhs = operand(*INTEGERS)
    rhs = operand(*INTEGERS)

    def compute(self, x: Array, y: Array) -> Array:
        return np.asarray(x >> np.clip(y, 0, 8 * y.dtype.itemsize - 1).astype(y.dtype))


class Bucketize(Op, code="BUCKETIZE", layout_operands=("input",)):
    """For each element, the number of ``boundaries`` that are less than or equal to it.

    The boundaries must be in ascending order.
    """

    input = operand(f32, f64, i32, i64)

    boundaries: tuple[float, ...] | None = attribute(None)

    def infer(self) -> TensorType:
        limits = self._limits()
        if np.any(np.diff(limits) < 0):
            raise ShapeError(f"BUCKETIZE: expected ascending boundaries, got {limits.tolist()}")
        return TensorType(i32, self.input.shape)

    def _limits(self) -> Array:
        """Return the boundaries as float32."""
        return np.array(self.boundaries or (), np.float32)

    def kernel(self, input: Array) -> Array:
        require_numpy_kind(self, input, "fi")
        limits = self._limits()
        # the boundaries are float32, so LiteRT compares integers as float32, and float64 as it is
        data = input if input.dtype == np.float64 else input.astype(np.float32)
        return np.searchsorted(limits.astype(data.dtype), data, side="right").astype(np.int32)


class MatrixDiag(Op, code="MATRIX_DIAG"):
    """Square matrices whose diagonals are the vectors along the last axis; all other elements are 0."""

    # the kernel writes the integer 0 beside the diagonal, so the zero points must be 0
    quantization_rule = QuantizationRule(results_follow="input", symmetric=("input", "output"))

    input = operand(*NUMBERS, boolean)

    def infer(self) -> TensorType:
        shape = self.input.shape
        if shape == ():
            raise ShapeError("expected input of rank 1 or more, got a scalar")
        return TensorType(self.input.dtype, None if shape is None else (*shape, shape[-1]))

    def kernel(self, input: Array) -> Array:
        size = input.shape[-1]
        out = np.zeros((*input.shape, size), input.dtype)
        out[..., np.arange(size), np.arange(size)] = input
        return out


class MatrixSetDiag(Op, code="MATRIX_SET_DIAG"):
    """The matrices in the last two axes of ``input``, with their main diagonals replaced by ``diagonal``."""

    # both operands have the scale and zero point of the result
    quantization_rule = QuantizationRule(operands_follow=("input", "diagonal"))

    input = operand(*NUMBERS, boolean)
    diagonal = operand(*NUMBERS, boolean)

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "diagonal", self.diagonal)
        shape = self.input.shape
        if shape is not None and len(shape) < 2:
            raise ShapeError(f"expected input of rank 2 or more, got shape {format_shape(shape)}")
        if shape is not None:
            _check_diagonal(self.diagonal.shape, shape)
        return TensorType(self.input.dtype, shape, per_tensor_quantization(self.input))

    def kernel(self, input: Array, diagonal: Array) -> Array:
        _check_diagonal(diagonal.shape, input.shape)
        size = min(input.shape[-2:])
        out: Array = input.copy()
        out[..., np.arange(size), np.arange(size)] = diagonal
        return out


def _check_diagonal(diagonal: Shape | None, input: Shape) -> None:
    """Raise ShapeError if operands of these shapes do not fit together."""
    rows, columns = input[-2:]
    size = None if rows is None or columns is None else min(rows, columns)
    require_shape(diagonal, (*input[:-2], size), "diagonal")


class Unique(Op, code="UNIQUE", results=("output", "indices")):
    """The distinct elements of a vector, in order of first occurrence.

    0.0 and -0.0 count as equal, and so do all NaN, for which LiteRT's results are undefined.
    The second result has, for each element of the vector, the index of that element in the first result.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*NUMBERS)

    idx_out_type: DType = attribute(i32)

    def infer(self) -> tuple[TensorType, ...]:
        if self.idx_out_type not in (i32, i64):
            raise ShapeError(f"expected idx_out_type i32 or i64, got {self.idx_out_type.short}")
        shape = require_rank(self.input, "input", 1)
        return TensorType(self.input.dtype, (None,)), TensorType(self.idx_out_type, shape)

    def kernel(self, input: Array) -> tuple[Array, Array]:
        # numpy sorts the distinct elements in ascending order; ``order`` is that of first occurrence
        distinct, first, inverse = np.unique(input, return_index=True, return_inverse=True)
        order = np.argsort(first)
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        return distinct[order], position[inverse.reshape(-1)].astype(self.idx_out_type.numpy)


class BroadcastArgs(Op, code="BROADCAST_ARGS", options=None, commutative=True):
    """The shape to which two shapes broadcast; operands and result are vectors."""

    shape1 = operand(i32, i64)
    shape2 = operand(i32, i64)

    def infer(self) -> TensorType:
        require_same_dtype("shape1", self.shape1, "shape2", self.shape2)
        pairs = (self.shape1, "shape1"), (self.shape2, "shape2")
        counts = [(require_rank(value, name, 1) or (None,))[0] for value, name in pairs]
        count = None if None in counts else max(c for c in counts if c is not None)
        return TensorType(self.shape1.dtype, (count,))

    def kernel(self, shape1: Array, shape2: Array) -> Array:
        shape = broadcast_shapes(tuple(int_list(shape1)), tuple(int_list(shape2)))
        return np.array(shape, shape1.dtype)
