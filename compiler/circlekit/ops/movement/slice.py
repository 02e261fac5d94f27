# SPDX-License-Identifier: Apache-2.0
"""Slices of a tensor.  Source: TFLite slice, strided_slice.

Class members: ``versions`` and ``rank_versions`` give the operator version by dtype and rank of the input.
``layout_operands`` have the axes of the result, and ``per_axis_operands`` one element or row for each axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError, counted
from circlekit.ir.declaration import NEW_AXIS, kept_rank
from circlekit.ir.dtypes import DType, boolean, f16, i8, i16, i32, i64, u32
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType
from circlekit.ops.checks import require_length, require_rank
from circlekit.ops.constant_operands import int_list, static_int_vector, vector_length
from circlekit.ops.dimensions import Dim, known_dims
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.quantized_values import rearranged_type


class Slice(Op, code="SLICE", data_movement=True, layout_operands=("input",)):
    """The part of ``input`` that starts at ``begin`` and has the shape ``size``.

    A size of -1 means: up to the end of the axis.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    begin = operand(i32, i64)
    size = operand(i32, i64)

    versions: ClassVar = {i8: 2, DType.STRING: 3, i16: 4, u32: 6, DType.INT4: 7, f16: 8}
    rank_versions: ClassVar = {5: 5}
    per_axis_operands: ClassVar = {"begin": 0, "size": 1}

    def infer(self) -> TensorType:
        shape = self.input.shape
        begin, size = static_int_vector(self.begin), static_int_vector(self.size)
        rank = next((len(x) for x in (shape, size, begin) if x is not None), vector_length(self.size))
        if rank is None:
            return rearranged_type(self.input, None)
        require_length(self.begin.shape, rank, "begin")
        require_length(self.size.shape, rank, "size")
        dims = zip(shape or (None,) * rank, begin or (None,) * rank, size or (None,) * rank, strict=True)
        return rearranged_type(self.input, tuple(_slice_dim(*d) for d in dims))

    def for_new_shapes(self, old: Mapping[str, Shape | None], outer: bool) -> dict[str, list[int]]:
        """Return the ``size`` with which the slice reaches the end of the same axes as before.

        If such an axis changed, its size becomes -1.  Return {} if ``begin`` or ``size`` is not constant, if
        a shape is unknown, or if the rank has changed.
        """
        begin, size = static_int_vector(self.begin), static_int_vector(self.size)
        before, after = old["input"], self.input.shape
        if begin is None or size is None or before is None or after is None:
            return {}
        if not len(begin) == len(size) == len(before) == len(after):
            return {}
        # for each axis: whether the slice reached its end
        ends = [first + count == dim for first, count, dim in zip(begin, size, before, strict=True)]
        pairs = zip(size, ends, before, after, strict=True)
        return {"size": [-1 if end and a != b else count for count, end, a, b in pairs]}

    def kernel(self, input: Array, begin: Array, size: Array) -> Array:
        begins = int_list(begin)
        axes = zip(input.shape, begins, int_list(size), strict=True)
        counts = known_dims(_slice_dim(*axis) for axis in axes)
        slices = (slice(first, first + count) for first, count in zip(begins, counts, strict=True))
        index: Any = (*slices, ...)  # with ``...`` a scalar stays an array
        return np.asarray(input[index])


def _slice_dim(dim: Dim, begin: Dim, size: Dim) -> Dim:
    """Return the length of a slice along one axis; None if it is unknown.

    Raise ShapeError if the slice is out of range.
    """
    if size is not None and size < -1:
        raise ShapeError(f"size: expected -1 or more, got {size}")
    if dim is not None and begin is not None and size is not None:
        length = dim - begin if size == -1 else size
        if begin < 0 or length < 0 or begin + length > dim:
            raise ShapeError(f"a slice of size {size} at {begin} exceeds a dimension of {dim}")
        return length
    return None if size == -1 else size


class AxisSlice(NamedTuple):
    """A slice of one axis of the input: Python's ``begin:end:stride``, where None means an omitted number.

    ``shrink``: only the element at ``begin`` is taken, and the axis is removed.
    """

    begin: int | None
    end: int | None
    stride: int
    shrink: bool = False


WHOLE_AXIS = AxisSlice(None, None, 1)


class StridedSlice(Op, code="STRIDED_SLICE", reference_version=4, data_movement=True):
    """``input[begin:end:strides]`` with TensorFlow's masks.

    Bit i of a mask changes the meaning of entry i of begin, end and strides.  ``begin_mask``, ``end_mask``:
    begin or end is ignored, and the slice starts or ends at the border.  ``ellipsis_mask``: the entry stands
    for all axes without an entry of their own.  ``new_axis_mask``: the entry inserts a dimension of 1.
    ``shrink_axis_mask``: the element at begin is taken, and the axis removed.  ``offset``: end counts from
    begin.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    begin = operand(i32, i64)
    end = operand(i32, i64)
    strides = operand(i32, i64)

    begin_mask: int = attribute(0)
    end_mask: int = attribute(0)
    ellipsis_mask: int = attribute(0)
    new_axis_mask: int = attribute(0)
    shrink_axis_mask: int = attribute(0)
    offset: bool = attribute(False)

    versions: ClassVar = {i8: 2, boolean: 3, DType.STRING: 5, u32: 7}
    rank_versions: ClassVar = {5: 4}
    layout_operands = ("input",)

    def infer(self) -> TensorType:
        shape = self.input.shape
        for name in ("begin", "end", "strides"):
            require_rank(getattr(self, name), name, 1)
        lists = [static_int_vector(v) for v in (self.begin, self.end, self.strides)]
        begin, end, strides = lists
        count = next((len(x) for x in lists if x is not None), vector_length(self.begin))
        if shape is None or count is None:
            return rearranged_type(self.input, None)
        zeros = [0] * count
        # 2 stands for an unknown stride: with 1, an axis without begin and end would equal WHOLE_AXIS
        slices = self.axis_slices(begin or zeros, end or zeros, strides or [2] * count, len(shape))
        dims: list[Dim] = []
        sizes = iter(shape)
        for part in slices:
            size = 1 if part is None else next(sizes)
            if part is None or part == WHOLE_AXIS:
                dims.append(size)
            elif size is None or None in lists:  # ``zeros`` may stand for unknown numbers
                dims += () if part.shrink else (None,)
            elif isinstance(index := self.axis_index(part, size), slice):
                dims.append(len(range(size)[index]))
        return rearranged_type(self.input, tuple(dims))

    def for_new_shapes(self, old: Mapping[str, Shape | None], outer: bool) -> dict[str, int]:
        """Return the ``end_mask`` with which the slice reaches the end of the same axes as before.

        An axis whose dimension changed gets a bit if its stride is positive, it is not shrunk, and its old
        dimension was equal to ``end``.  An ``end`` beyond the old dimension stays as it is.  Return {}

        - if ``end`` or ``strides`` is not constant, or a shape is unknown;
        - if there is an ellipsis or a new axis: entry i may then belong to another axis than axis i;
        - if ``offset`` is true: end then counts from begin.
        """
        end, strides = static_int_vector(self.end), static_int_vector(self.strides)
        before, after = old["input"], self.input.shape
        masks = self.ellipsis_mask | self.new_axis_mask
        if end is None or strides is None or before is None or after is None or masks or self.offset:
            return {}
        mask = self.end_mask
        for axis, (last, stride, a, b) in enumerate(zip(end, strides, before, after, strict=False)):
            reached_end = stride > 0 and last == a
            if reached_end and a != b and not self.shrink_axis_mask >> axis & 1:
                mask |= 1 << axis
        return {"end_mask": mask}

    def axis_slices(
        self, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], rank: int
    ) -> list[AxisSlice | None]:
        """Return one slice per axis of an input of ``rank``, with None where a new axis is inserted.

        Raise ShapeError if begin, end and strides have different lengths or do not fit ``rank``, or if there
        are several ellipses.
        """
        if not len(begin) == len(end) == len(strides):
            got = f"got {len(begin)}, {len(end)} and {len(strides)} elements"
            raise ShapeError(f"expected begin, end and strides of equal length, {got}")
        bits = [1 << i for i in range(len(begin))]
        if sum(bool(self.ellipsis_mask & bit) for bit in bits) > 1:
            raise ShapeError(f"ellipsis_mask: expected at most one ellipsis, got {self.ellipsis_mask:#b}")
        # the number of axes without an entry of their own
        implicit = rank - sum(not (self.new_axis_mask | self.ellipsis_mask) & bit for bit in bits)
        if implicit < 0:
            raise ShapeError(
                f"begin: expected at most {counted(rank, 'axis', 'axes')} of input, got {rank - implicit}"
            )
        slices: list[AxisSlice | None] = []
        for bit, first, last, stride in zip(bits, begin, end, strides, strict=True):
            if self.ellipsis_mask & bit:
                slices += [WHOLE_AXIS] * implicit
            elif self.new_axis_mask & bit:
                slices.append(None)
            else:
                first_index = None if self.begin_mask & bit else first
                end_index = None if self.end_mask & bit else last
                slices.append(AxisSlice(first_index, end_index, stride, bool(self.shrink_axis_mask & bit)))
        return slices if self.ellipsis_mask & sum(bits) else slices + [WHOLE_AXIS] * implicit

    def axis_index(self, part: AxisSlice, size: int) -> int | slice:
        """Return ``part`` as a Python index of an axis of ``size``.

        Raise ShapeError if the stride is 0, or if ``shrink`` is true and ``begin`` is out of range.
        """
        if part.stride == 0:
            raise ShapeError("strides: expected non-zero numbers, got 0")
        if part.shrink:
            index = part.begin or 0
            if not -size <= index < size:
                raise ShapeError(f"index {index} is out of range for a dimension of {size}")
            return index
        end = part.end
        if self.offset and end is not None:
            end += slice(part.begin, None, part.stride).indices(size)[0]
        return slice(part.begin, end, part.stride)

    def axis_ranges(
        self, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], shape: Sequence[int]
    ) -> list[range]:
        """Return the indices that the slice takes along each axis of an input of ``shape``.

        An axis that the slice drops has one index.  Axes that it inserts are left out.
        Raise the errors of ``axis_slices`` and ``axis_index``.
        """
        parts = [part for part in self.axis_slices(begin, end, strides, len(shape)) if part is not None]
        indices = [self.axis_index(part, dim) for part, dim in zip(parts, shape, strict=True)]
        return [
            range(dim)[index] if isinstance(index, slice) else range(index % dim, index % dim + 1)
            for index, dim in zip(indices, shape, strict=True)
        ]

    def kernel(self, input: Array, begin: Array, end: Array, strides: Array) -> Array:
        slices = self.axis_slices(int_list(begin), int_list(end), int_list(strides), input.ndim)
        if len(slices) < begin.size:
            found = "an ellipsis that stands for no axis; in LiteRT, it stands for one"
            raise UnsupportedError(f"STRIDED_SLICE has no kernel for {found}")
        sizes = iter(input.shape)
        indices = (None if part is None else self.axis_index(part, next(sizes)) for part in slices)
        index: Any = (*indices, ...)  # with ``...`` a scalar stays an array
        return np.asarray(input[index])

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        begin, end, strides = (static_int_vector(v) for v in (self.begin, self.end, self.strides))
        if begin is None or end is None or strides is None or self.offset:
            return None
        if self.ellipsis_mask or self.new_axis_mask or self.shrink_axis_mask:
            return None
        slices = [p for p in self.axis_slices(begin, end, strides, kept_rank(perm)) if p is not None]
        permuted = [WHOLE_AXIS if a == NEW_AXIS else slices[a] for a in perm]
        return {
            "begin": np.array([p.begin or 0 for p in permuted], self.begin.dtype.numpy),
            "end": np.array([p.end or 0 for p in permuted], self.end.dtype.numpy),
            "strides": np.array([p.stride for p in permuted], self.strides.dtype.numpy),
            "begin_mask": sum((p.begin is None) << i for i, p in enumerate(permuted)),
            "end_mask": sum((p.end is None) << i for i, p in enumerate(permuted)),
        }

    def required_version(self) -> int:
        minimum = 8 if self.offset else 6 if self.ellipsis_mask or self.new_axis_mask else 1
        return max(super().required_version(), minimum)
