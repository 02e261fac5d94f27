# SPDX-License-Identifier: Apache-2.0
"""Parts of a tensor, and borders around it.  Source: TFLite slice, strided_slice, pad, mirror_pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, boolean, f16, i8, i16, i32, i64, u32
from circlekit.ir.enums import MirrorPadMode
from circlekit.ir.op import attribute, operand
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array, TensorType, Value, format_shape
from circlekit.ops.checks import require_length, require_rank, require_same_dtype
from circlekit.ops.constant_operands import int_list, permuted_rows, static_int_vector, vector_length
from circlekit.ops.dimensions import Dim, unknown_dims
from circlekit.ops.quantization import rearranged_type, zero_point_of
from circlekit.ops.versions import VersionedByDtype, Viewed


class Slice(Viewed, code="SLICE"):
    """The box that starts at ``begin`` and has ``size``; -1 in it: up to the end."""

    input = operand()
    begin = operand(i32, i64)
    size = operand(i32, i64)

    versions: ClassVar = {i8: 2, DType.STRING: 3, i16: 4, u32: 6, DType.INT4: 7, f16: 8}
    layout_operands = ("input",)

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

    def kernel(self, input: Array, begin: Array, size: Array) -> Array:
        boxes: list[Any] = []
        for dim, first, count in zip(input.shape, int_list(begin), int_list(size), strict=True):
            length = _slice_dim(dim, first, count)
            boxes.append(slice(first, first + (length or 0)))
        place = (*boxes, Ellipsis)  # even a scalar is a view
        view: Array = input[place]
        return view

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        begin, size = permuted_rows(self.begin, perm), permuted_rows(self.size, perm)
        return None if begin is None or size is None else {"begin": begin, "size": size}

    def required_version(self) -> int:
        version = super().required_version()
        return max(version, 5) if (self.input.rank or 0) > 4 else version


def _slice_dim(dim: Dim, begin: Dim, size: Dim) -> Dim:
    """The length of a slice along one axis; ShapeError where it leaves the axis."""
    if size is not None and size < -1:
        raise ShapeError(f"size is {size}, at least 0, or -1 for all up to the end, is wanted")
    if dim is not None and begin is not None and size is not None:
        length = dim - begin if size == -1 else size
        if begin < 0 or length < 0 or begin + length > dim:
            raise ShapeError(f"a slice of {size} from {begin} leaves a dimension of {dim}")
        return length
    return None if size == -1 else size


class Part(NamedTuple):
    """What STRIDED_SLICE does with one axis of the input; None stands for the end in its direction."""

    begin: int | None
    end: int | None
    stride: int
    shrink: bool = False


FULL = Part(None, None, 1)


class StridedSlice(Viewed, code="STRIDED_SLICE", reference_version=4):
    """input[begin:end:strides], with the masks of TensorFlow: bit i is about entry i of ``begin``.

    begin_mask, end_mask: from the start, to the end.  ellipsis_mask: all axes not mentioned otherwise.
    new_axis_mask: a new dimension of 1.  shrink_axis_mask: the one element at begin, and the axis goes.
    ``offset``: ``end`` counts from ``begin``.
    """

    input = operand()
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
        nothing = [0] * count
        # a stride of 2 where it is unknown: with 1 an axis between two masks would seem to stay as it is
        parts = self.parts(begin or nothing, end or nothing, strides or [2] * count, len(shape))
        return rearranged_type(self.input, self._result_dims(parts, shape, exact=None not in lists))

    def _result_dims(
        self, parts: Sequence[Part | None], shape: Sequence[Dim], exact: bool
    ) -> tuple[Dim, ...]:
        dims: list[Dim] = []
        sizes = iter(shape)
        for part in parts:
            if part is None:
                dims.append(1)
                continue
            size = next(sizes)
            if part == FULL:
                dims.append(size)
            elif not part.shrink:
                dims.append(len(range(*self.bounds(part, size))) if exact and size is not None else None)
            elif exact and size is not None:
                self.bounds(part, size)
        return tuple(dims)

    def parts(
        self, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], rank: int
    ) -> list[Part | None]:
        """One Part for each axis of the input in order, None for each new axis in between."""
        if not len(begin) == len(end) == len(strides):
            counts = f"{len(begin)}, {len(end)} and {len(strides)}"
            raise ShapeError(f"begin, end and strides have {counts} elements, equal counts are wanted")
        parts: list[Part | None] = []
        bits = [1 << i for i in range(len(begin))]
        if sum(bool(self.ellipsis_mask & bit) for bit in bits) > 1:
            raise ShapeError(f"ellipsis_mask is {self.ellipsis_mask}, at most one ellipsis is wanted")
        hidden = self.hidden(len(begin), rank)
        if hidden < 0:
            raise ShapeError(
                f"begin has {len(begin)} elements, {-hidden} too many for an input of rank {rank}"
            )
        if self.ellipsis_mask & sum(bits) == 0:
            bits.append(0)
        for i, bit in enumerate(bits):
            if bit == 0 or self.ellipsis_mask & bit:
                parts += [FULL] * hidden
            elif self.new_axis_mask & bit:
                parts.append(None)
            else:
                shrink = bool(self.shrink_axis_mask & bit)
                first = None if self.begin_mask & bit else begin[i]
                last = None if self.end_mask & bit else end[i]
                parts.append(Part(first, last, strides[i], shrink))
        return parts

    def hidden(self, count: int, rank: int) -> int:
        """How many axes of the input none of the ``count`` entries is about; the ellipsis stands for them."""
        bits = [1 << i for i in range(count)]
        apart = sum(bool((self.new_axis_mask | self.ellipsis_mask) & b) for b in bits)
        return rank - (count - apart)

    def hides_nothing(self, count: int, rank: int) -> bool:
        """Whether there is an ellipsis that stands for no axis."""
        return bool(self.ellipsis_mask & ((1 << count) - 1)) and self.hidden(count, rank) == 0

    def bounds(self, part: Part, size: int) -> tuple[int, int, int]:
        """(start, stop, step) of Python's range over the elements that ``part`` takes of ``size``."""
        if part.stride == 0:
            raise ShapeError("a stride is 0, any other number is wanted")
        if part.shrink:
            at = 0 if part.begin is None else part.begin
            if not -size <= at < size:
                raise ShapeError(f"index {at} is outside of a dimension of {size}")
            return at % size, at % size + 1, 1
        end = part.end
        if self.offset and end is not None:
            end += slice(part.begin, None, part.stride).indices(size)[0]
        return slice(part.begin, end, part.stride).indices(size)

    def kernel(self, input: Array, begin: Array, end: Array, strides: Array) -> Array:
        if self.hides_nothing(begin.size, input.ndim):
            raise UnsupportedError("STRIDED_SLICE has an ellipsis for no axis, which LiteRT takes for one")
        index: list[slice | int | None] = []
        sizes = iter(input.shape)
        for part in self.parts(int_list(begin), int_list(end), int_list(strides), input.ndim):
            if part is None:
                index.append(None)
                continue
            start, stop, step = self.bounds(part, next(sizes))
            if not range(start, stop, step):
                start, stop = 0, 0  # a start of -1, before all elements, would count from the end
            index.append(start if part.shrink else slice(start, None if stop < 0 else stop, step))
        place = (*index, Ellipsis)  # even one element alone is a view
        view: Array = input[place]
        return view

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        begin, end, strides = (static_int_vector(v) for v in (self.begin, self.end, self.strides))
        if begin is None or end is None or strides is None or self.offset:
            return None
        if self.ellipsis_mask or self.new_axis_mask or self.shrink_axis_mask:
            return None
        parts = [p for p in self.parts(begin, end, strides, len(perm)) if p is not None]
        turned = [parts[a] for a in perm]
        return {
            "begin": np.array([p.begin or 0 for p in turned], self.begin.dtype.numpy),
            "end": np.array([p.end or 0 for p in turned], self.end.dtype.numpy),
            "strides": np.array([p.stride for p in turned], self.strides.dtype.numpy),
            "begin_mask": sum((p.begin is None) << i for i, p in enumerate(turned)),
            "end_mask": sum((p.end is None) << i for i, p in enumerate(turned)),
        }

    def required_version(self) -> int:
        if self.offset:
            return 8
        if self.input.dtype is u32:
            return 7
        if self.ellipsis_mask or self.new_axis_mask:
            return 6
        rank = self.input.rank or 0
        return max(super().required_version(), 4 if rank > 4 else 1)


# -- borders -----------------------------------------------------------------------------------


class Bordered(VersionedByDtype):
    """Elements before and after the data of every axis: ``paddings`` is [rank, 2]."""

    input = operand()
    paddings = operand(i32, i64)

    versions: ClassVar = {i8: 2, i16: 3, boolean: 5}
    layout_operands = ("input",)

    def infer(self) -> TensorType:
        shape, pairs = self.input.shape, self.pairs(self.paddings)
        if shape is None or pairs is None:
            known = len(pairs) if pairs is not None else None
            rows = self.paddings.shape[0] if self.paddings.shape else None
            return rearranged_type(self.input, unknown_dims(self.input.rank or known or rows))
        if len(pairs) != len(shape):
            raise ShapeError(f"paddings has {len(pairs)} rows, the input has rank {len(shape)}")
        for dim, pair in zip(shape, pairs, strict=True):
            self.check(dim, *pair)
        return rearranged_type(
            self.input,
            tuple(None if d is None else a + d + b for d, (a, b) in zip(shape, pairs, strict=True)),
        )

    def pairs(self, paddings: Value) -> list[tuple[int, int]] | None:
        """(before, after) of every axis, or None where they are no constant."""
        numbers = static_int_vector(paddings)
        if paddings.shape is not None and (len(paddings.shape) != 2 or paddings.shape[1] not in (2, None)):
            raise ShapeError(f"paddings has shape {format_shape(paddings.shape)}, [rank,2] is wanted")
        return None if numbers is None else list(zip(numbers[::2], numbers[1::2], strict=True))

    def check(self, dim: Dim, before: int, after: int) -> None:
        """ShapeError where an axis of ``dim`` cannot be padded so."""
        if before < 0 or after < 0:
            raise ShapeError(f"paddings are {before} and {after}, at least 0 is wanted")

    def filled(self, tape: Tape, input: Array, paddings: Array, value: Any) -> Array | None:
        """``input`` in the middle of a tensor of ``value``; None where it is not bound."""
        if not tape.fixed(paddings):
            return None
        pairs = paddings.reshape(-1, 2).tolist()
        out = tape.empty([a + d + b for d, (a, b) in zip(input.shape, pairs, strict=True)], input.dtype)
        tape.copy(np.asarray(value, input.dtype), out)
        boxes: list[Any] = [slice(a, a + d) for d, (a, _) in zip(input.shape, pairs, strict=True)]
        place = (*boxes, Ellipsis)  # even a scalar is a view
        tape.copy(input, out[place])
        return out

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        rows = permuted_rows(self.paddings, perm)
        return None if rows is None else {"paddings": rows}

    def required_version(self) -> int:
        version = super().required_version()
        return max(version, 4) if (self.input.rank or 0) > 4 else version


class Pad(Bordered, code="PAD"):
    """A border of zeros."""

    def bind(self, tape: Tape, input: Array, paddings: Array) -> Array | None:
        return self.filled(tape, input, paddings, zero_point_of(self.output))


class PadV2(Bordered, code="PADV2"):
    """A border of ``constant_values``, one element."""

    constant_values = operand()

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "constant_values", self.constant_values)
        return super().infer()

    def bind(self, tape: Tape, input: Array, paddings: Array, constant_values: Array) -> Array | None:
        return self.filled(tape, input, paddings, constant_values.reshape(-1)[0:1])


class MirrorPad(Bordered, code="MIRROR_PAD"):
    """A border that mirrors the data; REFLECT does not repeat the element at the edge, SYMMETRIC does."""

    mode: MirrorPadMode = attribute(MirrorPadMode.REFLECT)

    versions: ClassVar = {i8: 2, i16: 3}

    def check(self, dim: Dim, before: int, after: int) -> None:
        super().check(dim, before, after)
        if dim is None:
            return
        most = dim - 1 if self.mode is MirrorPadMode.REFLECT else dim
        if before > most or after > most:
            raise ShapeError(
                f"{self.mode!r} by {before} and {after} of {dim} elements, at most {most} is wanted"
            )

    def kernel(self, input: Array, paddings: Array) -> Array:
        pairs = paddings.reshape(-1, 2)
        if not input.ndim:
            return input
        if self.mode is MirrorPadMode.REFLECT:
            return np.pad(input, pairs, mode="reflect")
        return np.pad(input, pairs, mode="symmetric")

    def required_version(self) -> int:
        return VersionedByDtype.required_version(self)
