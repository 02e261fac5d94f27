# SPDX-License-Identifier: Apache-2.0
"""Reductions over segments.  Source: TFLite segment_sum, unsorted_segment.

``segment_ids`` gives each row of ``data`` an id.  A segment is all rows with one id i, and becomes row i of
the result.  If ``segment_ids`` has several axes, a row is ``data[index]`` for an index into ``segment_ids``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ModelError, ShapeError
from circlekit.ir.dtypes import i32
from circlekit.ir.op import Op, operand
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import reject_quantized, require_numpy_kind, require_rank
from circlekit.ops.constant_operands import plain_data, static_int
from circlekit.ops.dimensions import dims_differ
from circlekit.ops.operand_dtypes import NUMBERS
from circlekit.ops.reduction.reduce import finite_limits


def require_prefix(ids: Shape | None, data: Shape | None) -> None:
    """Raise ShapeError unless the shape ``data`` begins with the dimensions of the shape ``ids``.

    Unknown shapes (None) and unknown dimensions are no error.
    """
    if ids is None or data is None:
        return
    if len(ids) > len(data) or any(dims_differ(a, b) for a, b in zip(ids, data, strict=False)):
        expected = f"expected the shape of segment_ids to be a prefix of {format_shape(data)}"
        raise ShapeError(f"{expected}, got {format_shape(ids)}")


class SegmentSum(Op, code="SEGMENT_SUM", reference_version=0):
    """The sum of the rows of each segment.

    The ids must start at 0 and grow by 0 or 1 from row to row; otherwise the kernel raises ModelError.  The
    last id is the largest, and the result has (last id + 1) rows.
    """

    data = operand(*NUMBERS)
    segment_ids = operand(i32)

    def infer(self) -> TensorType:
        require_prefix(require_rank(self.segment_ids, "segment_ids", 1), self.data.shape)
        ids = plain_data(self.segment_ids)  # None if the ids are not constant
        count = None if ids is None else int(ids[-1]) + 1 if ids.size else 0
        shape = self.data.shape
        return TensorType(self.data.dtype, None if shape is None else (count, *shape[1:]))

    def kernel(self, data: Array, segment_ids: Array) -> Array:
        require_numpy_kind(self, data, "fi")
        reject_quantized(self)
        steps = np.diff(segment_ids, prepend=0)
        if segment_ids.size and (segment_ids[0] != 0 or steps.min() < 0 or steps.max() > 1):
            raise ModelError("SEGMENT_SUM: expected segment_ids that start at 0 and grow by 0 or 1")
        count = int(segment_ids[-1]) + 1 if segment_ids.size else 0
        out = np.zeros((count, *data.shape[1:]), data.dtype)
        np.add.at(out, segment_ids, data)
        return out


class UnsortedSegment(Op):
    """Base class of reductions to ``num_segments`` rows, for ids in any order.

    The shape of ``segment_ids`` is a prefix of the shape of ``data``.  Rows with a negative id are ignored.
    If an id is not below ``num_segments``, the kernel raises ModelError.
    """

    data = operand(*NUMBERS)
    segment_ids = operand(i32)
    num_segments = operand(i32)

    combine: ClassVar[Any] = None
    """The ufunc that combines two rows."""
    start: ClassVar[int | None] = None
    """Where each reduction starts; a segment without rows gets this number.

    0: the smallest finite number of the dtype; 1: the largest (see ``finite_limits``); None: the neutral
    element of ``combine``.
    """

    def infer(self) -> TensorType:
        require_prefix(self.segment_ids.shape, self.data.shape)
        shape, rank = self.data.shape, self.segment_ids.rank
        if shape is None or rank is None:
            return TensorType(self.data.dtype, None)
        count = static_int(self.num_segments, "num_segments")
        return TensorType(self.data.dtype, (count, *shape[rank:]))

    def kernel(self, data: Array, segment_ids: Array, num_segments: Array) -> Array:
        require_numpy_kind(self, data, "fi")
        reject_quantized(self)
        count, ids = int(num_segments.reshape(-1)[0]), segment_ids.reshape(-1)
        if ids.size and ids.max() >= count:
            raise ModelError(f"{self.code}: expected segment_ids below {count}, got {ids.max()}")
        rows = data.reshape(ids.size, *data.shape[segment_ids.ndim :])  # the axes of the ids become one
        start = self.combine.identity if self.start is None else finite_limits(data.dtype)[self.start]
        out = np.full((count, *rows.shape[1:]), start, data.dtype)
        is_valid = ids >= 0
        type(self).combine.at(out, ids[is_valid], rows[is_valid])
        return out


class UnsortedSegmentSum(UnsortedSegment, code="UNSORTED_SEGMENT_SUM", combine=np.add):
    """The sum of each segment."""


class UnsortedSegmentProd(UnsortedSegment, code="UNSORTED_SEGMENT_PROD", combine=np.multiply):
    """The product of each segment."""


class UnsortedSegmentMax(UnsortedSegment, code="UNSORTED_SEGMENT_MAX", combine=np.fmax, start=0):
    """The largest number of each segment, but at least the smallest finite number; NaN is ignored."""


class UnsortedSegmentMin(UnsortedSegment, code="UNSORTED_SEGMENT_MIN", combine=np.fmin, start=1):
    """The smallest number of each segment, but at most the largest finite number; NaN is ignored."""
