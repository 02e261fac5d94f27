# SPDX-License-Identifier: Apache-2.0
"""Lower TRANSPOSE_CONV for runtimes without its bias, or without the operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv2D, TransposeConv
from circlekit.ops.movement.slice import Pad, Slice
from circlekit.ops.movement.space import DepthToSpace
from circlekit.passes.engine.legalize import Lowering, Replacement
from circlekit.passes.fuse.fuse_behind_convolution import leading_pad
from circlekit.passes.support.insertion import Inserter


class SplitTransposeConvBias(Lowering):
    """tconv(x) + bias as one operator  ==  an ADD behind it, which takes over the activation."""

    changes_more = True

    before = """
        z = TransposeConv(shape, w, x: f32, b: [O])
            {padding: any = padding, stride_h: any, stride_w: any, act: any = act}
    """
    after = """
        y = TransposeConv(shape, w, x)  {like z, act: NONE}
        z = Add(y, b)                   {act: act}
    """


class _Axis(NamedTuple):
    """One image axis of a transposed convolution: where its result stands in the full result."""

    rows: int
    out: int
    kernel: int
    stride: int
    before: int

    @property
    def taps(self) -> int:
        """Filter rows that reach one output row."""
        return -(-self.kernel // self.stride)

    @property
    def blocks(self) -> tuple[int, int]:
        """The first and the last block of ``stride`` rows of the full result that are needed."""
        return self.before // self.stride, (self.before + self.out - 1) // self.stride

    @property
    def paddings(self) -> tuple[int, int]:
        """Rows of zeros before and after the input, so that a convolution gives ``blocks``."""
        first, last = self.blocks
        return max(0, self.taps - 1 - first), max(0, last - (self.rows - 1))

    @property
    def begin(self) -> int:
        """Which row of the blocks that are computed is the first of the result."""
        first = self.taps - 1 - self.paddings[0]
        return self.before - first * self.stride

    @property
    def computed(self) -> int:
        """How many rows are computed."""
        return (self.rows + sum(self.paddings) - self.taps + 1) * self.stride


class TransposeConvToConv(Replacement):
    """tconv(x, w) with stride s  ==  depth_to_space(conv(x, w2)), cropped.

    Output row q * s + p is the sum over j of input row q - j times filter row j * s + p.  So the s * s phases
    of the output are the channels of one convolution with the filter rows of each phase in reverse order.
    With different strides of rows and columns, reshapes and a transpose take the place of DEPTH_TO_SPACE.
    """

    changes_more = True
    kinds = (TransposeConv,)

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        assert isinstance(op, TransposeConv)  # by kinds
        axes = _axes(op)
        data, bias = op.input, op.bias
        if axes is None or any(value.dtype is not f32 for value in (data, op.filter)):
            return None
        if not (op.filter.is_plain and (bias is None or bias.is_plain)):
            return None
        paddings = [(0, 0), *(axis.paddings for axis in axes), (0, 0)]
        if any(map(any, paddings)):
            data = insert.make(Pad(data, insert.constant("paddings", np.array(paddings, np.int32))))
        depth = op.filter.static_shape[0]
        numbers = np.zeros(depth, np.float32) if bias is None else bias.array()
        weights = insert.constant("filter", _filter_of_phases(op.filter.array(), axes))
        numbers = np.tile(numbers.reshape(-1), op.stride_h * op.stride_w)
        value = insert.make(
            Conv2D(data, weights, insert.constant("bias", numbers), padding=Padding.VALID, act=op.act)
        )
        value = _interleaved(value, op, insert)
        if any(axis.begin or axis.computed != axis.out for axis in axes):
            begin = np.array([0, *(axis.begin for axis in axes), 0], np.int32)
            size = np.array(op.output.static_shape, np.int32)
            value = insert.make(Slice(value, insert.constant("begin", begin), insert.constant("size", size)))
        return [value]


def _interleaved(value: Value, op: TransposeConv, insert: Inserter) -> Value:
    """Move the phases, which are channels of ``value``, to rows and columns."""
    high, wide = op.stride_h, op.stride_w
    if high == wide:
        return value if high == 1 else insert.make(DepthToSpace(value, block_size=high))
    batch, rows, columns, channels = value.static_shape
    if high > 1:
        value = insert.reshaped(value, (batch * rows, columns, high, channels // high))
        value = insert.transposed(value, (0, 2, 1, 3))
    depth = channels // (high * wide)
    return insert.reshaped(value, (batch, rows * high, columns * wide, depth))


def _axes(op: TransposeConv) -> list[_Axis] | None:
    """Return the image axes of ``op``; None if sizes are unknown or the result exceeds what is computed."""
    known = all(v.is_static for v in (op.input, op.filter, op.output)) and op.output_shape.is_plain
    if not known:
        return None
    found = list(_each_axis(op))
    is_covered = all(axis.begin >= 0 and axis.begin + axis.out <= axis.computed for axis in found)
    return found if is_covered else None


def _each_axis(op: TransposeConv) -> Iterator[_Axis]:
    for axis, stride in ((1, op.stride_h), (2, op.stride_w)):
        out, kernel = op.output.static_shape[axis], op.filter.static_shape[axis]
        before = leading_pad(op.padding, out, kernel, stride)
        yield _Axis(op.input.static_shape[axis], out, kernel, stride, before)


def _filter_of_phases(filter: Array, axes: list[_Axis]) -> Array:
    """Return the filter [sh * sw * O, taps, taps, I] of the convolution that computes all phases."""
    (high, rows), (wide, columns) = ((axis.stride, axis.taps) for axis in axes)
    depth, height, width, channels = filter.shape
    full = np.zeros((depth, rows * high, columns * wide, channels), np.float32)
    full[:, :height, :width] = filter
    parts = full.reshape(depth, rows, high, columns, wide, channels)[:, ::-1, :, ::-1]
    phases = parts.transpose(2, 4, 0, 1, 3, 5)  # [sh, sw, O, taps, taps, I]
    return np.ascontiguousarray(phases.reshape(-1, rows, columns, channels))
