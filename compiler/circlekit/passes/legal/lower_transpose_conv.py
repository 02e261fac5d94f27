# SPDX-License-Identifier: Apache-2.0
"""Lower TRANSPOSE_CONV for runtimes that lack its bias, or the whole operator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv2D, TransposeConv
from circlekit.ops.movement.pad import Pad
from circlekit.ops.movement.slice import Slice
from circlekit.ops.movement.space import DepthToSpace
from circlekit.passes.engine.legalize import Lowering, Replacement
from circlekit.passes.support.insertion import Inserter
from circlekit.passes.support.transpose_conv_padding import leading_pad


class SplitTransposeConvBias(Lowering):
    """tconv(x, w, bias)  ==  tconv(x, w) + bias, where the ADD takes over the activation."""

    changes_more = True  # so legalizations that change less of the model run first

    before = """
        z = TransposeConv(shape, w, x: f32, b: [O])
            {padding: any = padding, stride_h: any, stride_w: any, act: any = act}
    """
    after = """
        y = TransposeConv(shape, w, x)  {like z, act: NONE}
        z = Add(y, b)                   {act: act}
    """


class _ImageAxis(NamedTuple):
    """The rows, or the columns, of a transposed convolution; below, "rows" stands for both.

    Without padding, the result would have ``(input_size - 1) * stride + filter_size`` rows: the full result.
    The operator returns ``output_size`` rows of the full result, from row ``crop`` on.

    Example: input_size 3, filter_size 3 and stride 2 give 7 full rows, and SAME returns 6 from row 0 on.
    Then ``taps`` is 2, ``blocks`` (0, 2), ``paddings`` (1, 0), ``begin`` 0 and ``computed_size`` 6.
    """

    input_size: int
    output_size: int
    filter_size: int
    stride: int
    crop: int

    @property
    def taps(self) -> int:
        """The largest number of filter rows that contribute to one output row."""
        return -(-self.filter_size // self.stride)

    @property
    def blocks(self) -> tuple[int, int]:
        """The first and the last block of the full result that are needed; a block has ``stride`` rows."""
        return self.crop // self.stride, (self.crop + self.output_size - 1) // self.stride

    @property
    def paddings(self) -> tuple[int, int]:
        """The rows of zeros that the convolution needs before and after the input to compute ``blocks``."""
        first, last = self.blocks
        return max(0, self.taps - 1 - first), max(0, last - (self.input_size - 1))

    @property
    def begin(self) -> int:
        """The index of the first row of the result among the computed rows."""
        first = self.taps - 1 - self.paddings[0]
        return self.crop - first * self.stride

    @property
    def computed_size(self) -> int:
        """The number of computed rows after ``_interleaved`` has moved the phases from channels to rows."""
        return (self.input_size + sum(self.paddings) - self.taps + 1) * self.stride


class TransposeConvToConv(Replacement[TransposeConv]):
    """tconv(x, w) with stride s  ==  depth_to_space(conv(x, w2)), cropped.  x must be finite: w2 has zeros.

    Phase p of the rows has every s-th row of the full result, from row p on.  So its row q is row q * s + p
    of the full result: the sum over j of input row q - j times filter row j * s + p.  The same holds for
    columns, so there are s * s phases.  One convolution computes all phases, as channels; its filter has the
    rows of each phase in reverse order.  If the strides of rows and columns differ, RESHAPE and TRANSPOSE
    take the place of DEPTH_TO_SPACE.  x and w must be float32, all shapes known and not empty; w, the bias
    and the output shape must be constant.
    """

    changes_more = True
    kinds = (TransposeConv,)

    def results(self, op: TransposeConv, insert: Inserter) -> list[Value] | None:
        axes = _image_axes(op)
        data, bias = op.input, op.bias
        if axes is None or any(value.dtype is not f32 for value in (data, op.filter)):
            return None
        if not (op.filter.is_plain and (bias is None or bias.is_plain)):
            return None
        paddings = [(0, 0), *(axis.paddings for axis in axes), (0, 0)]
        if any(map(any, paddings)):
            data = insert.make(Pad(data, insert.constant("paddings", np.array(paddings, np.int32))))
        weights = insert.constant("filter", _filter_of_phases(op.filter.array(), axes))
        depth = op.filter.static_shape[0]
        offsets = np.zeros(depth, np.float32) if bias is None else bias.array().reshape(-1)
        offset = insert.constant("bias", np.tile(offsets, op.stride_h * op.stride_w))
        value = insert.make(Conv2D(data, weights, offset, padding=Padding.VALID, act=op.act))
        value = _interleaved(value, op, insert)
        if any(axis.begin or axis.computed_size != axis.output_size for axis in axes):
            begin = np.array([0, *(axis.begin for axis in axes), 0], np.int32)
            size = np.array(op.output.static_shape, np.int32)
            value = insert.make(Slice(value, insert.constant("begin", begin), insert.constant("size", size)))
        return [value]


def _interleaved(value: Value, op: TransposeConv, insert: Inserter) -> Value:
    """Move the phases, which are channels [sh, sw, O] of ``value``, to rows and columns of the result.

    sh and sw are the strides.
    """
    if op.stride_h == op.stride_w:
        return value if op.stride_h == 1 else insert.make(DepthToSpace(value, block_size=op.stride_h))
    batch, rows, columns, channels = value.static_shape
    if op.stride_h > 1:
        value = insert.reshaped(value, (batch * rows, columns, op.stride_h, channels // op.stride_h))
        value = insert.transposed(value, (0, 2, 1, 3))
    depth = channels // (op.stride_h * op.stride_w)
    return insert.reshaped(value, (batch, rows * op.stride_h, columns * op.stride_w, depth))


def _image_axes(op: TransposeConv) -> list[_ImageAxis] | None:
    """Return the rows and the columns of ``op``; None if a size is unknown, not constant or 0."""
    values = (op.input, op.filter, op.output)
    if not (all(v.is_static and v.numel for v in values) and op.output_shape.is_plain):
        return None
    axes = []
    for axis, stride in ((1, op.stride_h), (2, op.stride_w)):
        output_size, filter_size = op.output.static_shape[axis], op.filter.static_shape[axis]
        crop = leading_pad(op.padding, output_size, filter_size, stride)
        axes.append(_ImageAxis(op.input.static_shape[axis], output_size, filter_size, stride, crop))
    return axes


def _filter_of_phases(filter: Array, axes: list[_ImageAxis]) -> Array:
    """Return the filter [sh * sw * O, taps_h, taps_w, I] of the convolution that computes all phases.

    ``filter``: [O, height, width, I].  sh and sw are the strides; zeros fill the filter up to taps * stride.
    """
    (sh, taps_h), (sw, taps_w) = ((axis.stride, axis.taps) for axis in axes)
    depth, height, width, channels = filter.shape
    padded = np.zeros((depth, taps_h * sh, taps_w * sw, channels), np.float32)
    padded[:, :height, :width] = filter
    parts = padded.reshape(depth, taps_h, sh, taps_w, sw, channels)[:, ::-1, :, ::-1]
    phases = parts.transpose(2, 4, 0, 1, 3, 5)  # [sh, sw, O, taps_h, taps_w, I]
    return np.ascontiguousarray(phases.reshape(-1, taps_h, taps_w, channels))
