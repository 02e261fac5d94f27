# SPDX-License-Identifier: Apache-2.0
"""Operators that make sparse data dense, or look rows up by sparse ids.

Source: TFLite sparse_to_dense, densify, embedding_lookup_sparse, hashtable_lookup.
"""

from __future__ import annotations

from math import prod

import numpy as np

from circlekit.errors import ModelError, ShapeError, counted
from circlekit.ir.dtypes import boolean, f32, i8, i32, i64, u8
from circlekit.ir.enums import CombinerType
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import require_dims, require_one_element, require_rank, require_same_dtype
from circlekit.ops.constant_operands import int_list, listed_shape, vector_length
from circlekit.ops.dimensions import Dim, dims_differ
from circlekit.ops.movement.gather import require_in_range
from circlekit.ops.operand_dtypes import ANY, NUMBERS


class SparseToDense(Op, code="SPARSE_TO_DENSE", version_operand=2, versions={i64: 2, i8: 3, u8: 3}):
    """A tensor of the shape ``output_shape``: ``values`` at ``indices``, and ``default_value`` elsewhere.

    ``values``: [n], or a scalar for all indices.  ``indices``: [n, rank of the result]; if this rank is 1,
    also [n] or [].  The kernel refuses indices out of range, whatever ``validate_indices`` is.  The operator
    version depends on the dtype of operand 2, ``values``.
    """

    quantization_rule = QuantizationRule(operands_follow=("values", "default_value"))

    indices = operand(i32, i64)
    output_shape = operand(i32, i64)
    values = operand(*NUMBERS, boolean)
    default_value = operand(*NUMBERS, boolean)

    validate_indices: bool = attribute(False)

    def infer(self) -> TensorType:
        require_same_dtype("values", self.values, "default_value", self.default_value)
        require_one_element(self.default_value, "default_value")
        shape = listed_shape(self.output_shape)
        indices = require_rank(self.indices, "indices", 0, 1, 2)
        values = require_rank(self.values, "values", 0, 1)
        if indices is not None:
            count, coordinates = (*indices, 1, 1)[:2]  # [n] stands for [n, 1], and [] for [1, 1]
            _check_places(count, coordinates, values, shape)
        return TensorType(self.values.dtype, shape)

    def kernel(self, indices: Array, output_shape: Array, values: Array, default_value: Array) -> Array:
        shape = tuple(int_list(output_shape))
        coordinates = indices.reshape(-1, 1) if indices.ndim < 2 else indices
        _check_places(len(coordinates), coordinates.shape[1], values.shape, shape)
        require_in_range(self, coordinates, shape)
        out = np.full(shape, default_value.reshape(-1)[0], values.dtype)
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        out.reshape(-1)[coordinates.astype(np.int64) @ np.array(strides, np.int64)] = values
        return out


def _check_places(count: Dim, coordinates: Dim, values: Shape | None, shape: Shape | None) -> None:
    """Raise ShapeError if operands of these shapes do not fit a result of ``shape``.

    ``count``: the number of indices.  ``coordinates``: the length of each index.
    """
    if shape is not None and dims_differ(coordinates, len(shape)):
        expected = f"expected indices of {counted(len(shape), 'coordinate')}, one per axis of the result"
        raise ShapeError(f"{expected}, got {coordinates}")
    if values and dims_differ(count, values[0]):
        raise ShapeError(f"values: expected {counted(count, 'element')}, one per index, got {values[0]}")


class Densify(Op, code="DENSIFY", data_movement=True):
    """The dense form of a sparse constant.

    The interpreter makes sparse constants dense before it calls kernels, so the kernel returns its operand.
    """

    input = operand(*ANY)

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape, self.input.quantization)

    def kernel(self, input: Array) -> Array:
        return input


class EmbeddingLookupSparse(Op, code="EMBEDDING_LOOKUP_SPARSE"):
    """Weighted sums of rows of ``value``, one sum for each bucket.

    The buckets have the shape ``dense_shape[:-1]``; the result is [*buckets, *value.shape[1:]].  For each i,
    row ``ids[i]`` of ``value``, times ``weights[i]``, is added to the bucket ``indices[i, :-1]``.
    The combiner MEAN divides a sum by the sum of its weights, SQRTN by the square root of the sum of their
    squares; for these two, ``indices`` [n, rank] must be sorted by bucket.
    """

    ids = operand(i32)
    indices = operand(i32)
    dense_shape = operand(i32)
    weights = operand(f32)
    value = operand(f32)

    combiner: CombinerType = attribute(CombinerType.SUM)

    def infer(self) -> TensorType:
        shape, dense_shape = self.value.shape, listed_shape(self.dense_shape)
        axes = None if dense_shape is None else len(dense_shape)
        require_dims(self, {"ids": "n", "indices": "n axes", "weights": "n"}, {"axes": axes})
        if axes == 0:
            raise ShapeError("dense_shape: expected 1 element or more, got none")
        if shape is not None and len(shape) < 2:
            raise ShapeError(f"expected value of rank 2 or more, got shape {format_shape(shape)}")
        if shape is None or dense_shape is None:
            return TensorType(self.value.dtype, None)
        return TensorType(self.value.dtype, (*dense_shape[:-1], *shape[1:]))

    def kernel(self, ids: Array, indices: Array, dense_shape: Array, weights: Array, value: Array) -> Array:
        require_in_range(self, ids, len(value))
        buckets = tuple(int_list(dense_shape)[:-1])
        rows = prod(buckets)
        strides = np.cumprod([1, *buckets[:0:-1]])[::-1]  # of the array of buckets: [3,1] for (2, 3)
        bucket = indices[:, :-1].astype(np.int64) @ strides[: indices.shape[1] - 1]
        require_in_range(self, bucket, rows)
        if self.combiner is not CombinerType.SUM and np.any(np.diff(bucket) < 0):
            raise ModelError("EMBEDDING_LOOKUP_SPARSE: expected indices sorted by bucket, got unsorted ones")
        out = np.zeros((rows, *value.shape[1:]), value.dtype)
        column = (-1,) + (1,) * (value.ndim - 1)  # broadcasts one number per row over the row
        np.add.at(out, bucket, value[ids] * weights.reshape(column))
        if self.combiner is not CombinerType.SUM:
            total = np.zeros(rows, np.float32)
            is_sqrtn = self.combiner is CombinerType.SQRTN
            np.add.at(total, bucket, weights * weights if is_sqrtn else weights)
            divisor = np.sqrt(total) if is_sqrtn else total
            used = np.unique(bucket)
            out[used] /= divisor[used].reshape(column)
        return out.reshape(*buckets, *value.shape[1:])


class HashtableLookup(Op, code="HASHTABLE_LOOKUP", options=None, results=("output", "hits")):
    """Rows of ``value``: for each element of ``lookup``, the row at the position of that element in ``key``.

    Of equal elements of ``key`` the first counts; LiteRT may take another, and misses elements of an unsorted
    ``key``.  An element that is not in ``key`` gives zeros, or empty strings.  ``hits``: u8, 1 for each
    element that was found, else 0.
    """

    # the kernel writes the integer 0 for an element that is not in ``key``, so the zero point must be 0
    quantization_rule = QuantizationRule(results_follow="value", symmetric=("value",))

    lookup = operand(i32)
    key = operand(i32)
    value = operand(*ANY)

    def infer(self) -> tuple[TensorType, ...]:
        require_rank(self.lookup, "lookup", 1)
        count, shape = vector_length(self.lookup), self.value.shape
        if shape == ():
            raise ShapeError("expected value of rank 1 or more, got a scalar")
        require_dims(self, {"key": "rows"}, {"rows": shape[0]} if shape else None)
        output = None if shape is None else (count, *shape[1:])
        return TensorType(self.value.dtype, output), TensorType(u8, (count,))

    def kernel(self, lookup: Array, key: Array, value: Array) -> tuple[Array, Array]:
        hits = np.isin(lookup, key)
        missing = b"" if value.dtype == object else 0
        output = np.full((len(lookup), *value.shape[1:]), missing, value.dtype)
        order = np.argsort(key, kind="stable")
        output[hits] = value[order[np.searchsorted(key, lookup[hits], sorter=order)]]
        return output, hits.astype(np.uint8)
