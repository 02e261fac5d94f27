# SPDX-License-Identifier: Apache-2.0
"""Replace the custom operator MaxPoolWithArgmax by MAX_POOL_2D and operators that compute the positions.

The second result of MaxPoolWithArgmax is the position of each maximum: its flat index in the image, or in the
whole batch with the option ``include_batch_in_index``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import f32, i32, i64
from circlekit.ir.enums import Padding
from circlekit.ir.graph import Graph
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Array, Shape, Value, format_shape
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.arithmetic.cast import Cast
from circlekit.ops.arithmetic.unary import Floor, Neg
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.dimensions import axis_windows
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.ops.movement.pad import PadV2
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.program.custom import window_options
from circlekit.ops.reduction.reduce import ArgMax
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass

MAX_EXACT_INTEGER = 1 << 24
"""All integers of at most this magnitude are exact in float32, the dtype in which positions are computed."""

MAX_WINDOW_OR_CHANNELS = 1 << 12
"""Limit for the number of elements in a window, and for the number of channels.

Each element of a window becomes a channel of a convolution; each channel of x gets operators of its own.
"""


class _PositionBuilder(Inserter):
    """Inserts, before ``op``, the operators that compute the maximum of each window and its position.

    In each channel, a convolution moves the elements of each window to the last axis; its filters are unit
    vectors.  The ARG_MAX of this axis is ky * window width + kx, for row ky and column kx of the window.  Let
    the window begin at row ``top`` and column ``left`` of an image of width W with C channels.  Then the
    position is ((top + ky) * W + left + kx) * C + channel.

    Three details are as in ONE's pass, so that the rules of its recipes hold.  SPLIT and CONCATENATION are
    made even for one channel.  PADV2 is made for every SAME window, even if nothing is padded.  The data is
    multiplied by 1 before it is padded: the product is a tensor without the huge padding value, so a
    quantizer can give it the range of the data.

    ``includes_batch``: whether positions count from the start of the batch, not from the start of each image.
    ``windows``: for the rows and for the columns, the number of windows and the padding.
    """

    def __init__(self, graph: Graph, op: OpaqueOp) -> None:
        super().__init__(graph, op)
        window, strides, self.padding, self.includes_batch = window_options(op)
        self.window, self.strides = window[1:3], strides[1:3]
        self.shape = op.inputs[0].static_shape if op.inputs[0] is not None else ()
        axes = zip(self.shape[1:3], self.window, self.strides, strict=True)
        self.windows = [axis_windows(size, n, step, 1, self.padding) for size, n, step in axes]

    def array(self, array: Array) -> Value:
        """Return a new constant with the data ``array``."""
        return self.constant("constant", array)

    def number(self, number: float) -> Value:
        """Return a new float32 constant."""
        return self.array(np.asarray(number, np.float32))

    def pool(self, x: Value) -> Value:
        """Return the maxima of the windows of ``x``."""
        sizes: dict[str, Any] = {"filter_height": self.window[0], "filter_width": self.window[1]}
        steps: dict[str, Any] = {"stride_h": self.strides[0], "stride_w": self.strides[1]}
        return self.make(MaxPool2D(x, padding=self.padding, **sizes, **steps))

    def positions(self, x: Value) -> Value:
        """Return the positions of the maxima of ``x`` [N,H,W,C] as float32 [N,h,w,C] for h * w windows."""
        if self.padding is Padding.SAME:
            edges = np.array([[0, 0], *([w.before, w.after] for w in self.windows), [0, 0]], np.int32)
            own_range = self.make(Mul(x, self.number(1.0)))
            x = self.make(PadV2(own_range, self.array(edges), self.number(np.finfo(np.float32).min)))
        batch, _, _, channels = self.shape
        split = Split(self.array(np.asarray(3, np.int32)), x, num_splits=channels)
        self.make(split)
        (height, width), taps = self.window, self.window[0] * self.window[1]
        # shared by all channels: with the largest windows, the unit vectors have 64 MB
        unit_vectors = self.array(np.eye(taps, dtype=np.float32).reshape(-1, height, width, 1))
        bias = self.array(np.zeros(taps, np.float32))
        by_channel = [self.positions_in_channel(part, unit_vectors, bias) for part in split.results]
        position = self.make(Concatenation(*by_channel, axis=3))
        offset = np.arange(channels, dtype=np.float32).reshape(1, 1, 1, -1)
        if self.includes_batch:
            image = np.arange(batch, dtype=np.float32) * np.prod(self.shape[1:], dtype=np.float32)
            offset = offset + image.reshape(-1, 1, 1, 1)
        return self.make(Add(position, self.array(offset))) if offset.any() else position

    def positions_in_channel(self, x: Value, unit_vectors: Value, bias: Value) -> Value:
        """Return the positions [N,h,w,1] for a single channel ``x``, as if it were channel 0 of image 0.

        ``unit_vectors``, ``bias``: the constants of the convolution; the bias is zero.
        """
        width, (stride_h, stride_w) = self.window[1], self.strides
        conv = Conv2D(x, unit_vectors, bias, stride_h=stride_h, stride_w=stride_w, padding=Padding.VALID)
        elements = self.make(conv)
        best = self.make(ArgMax(elements, self.array(np.asarray(3, np.int32)), output_type=i32))
        rows, columns = (w.number for w in self.windows)
        shape = self.array(np.array([self.shape[0], rows, columns, 1], np.int32))
        index = self.make(Cast(self.make(Reshape(best, shape)), in_data_type=i32, out_data_type=f32))
        # The factor is slightly above 1 / width: else rounding may give less than ky for ky * width / width.
        quotient = self.make(Mul(index, self.number((1 + 2.0**-20) / width)))
        ky = self.make(Floor(quotient))
        kx = self.make(Add(index, self.make(Neg(self.make(Mul(ky, self.number(width)))))))
        _, _, image_width, channels = self.shape
        from_corner = self.make(Add(self.make(Mul(ky, self.number(image_width))), kx))
        # the first row and the first column of each window; they are negative if it begins in the padding
        top, left = (
            np.arange(w.number) * step - w.before for w, step in zip(self.windows, self.strides, strict=True)
        )
        corner = (top[:, None] * image_width + left).astype(np.float32) * channels
        scaled = self.make(Mul(from_corner, self.number(channels)))
        return self.make(Add(scaled, self.array(corner[None, :, :, None])))


class ResolveCustomMaxPoolWithArgmax(GraphPass):
    """Replace TensorFlow's MaxPoolWithArgmax by MAX_POOL_2D and arithmetic for the positions.

    x must be f32 of known shape, with at most 2^24 elements and 4096 channels.  A window must have at most
    4096 elements, and the positions of its elements must differ by at most 2^24.  Every window that fits into
    the image meets the last condition.

    The positions are right if x is finite and above the lowest float32, which is the padding value.  The pass
    has no picture, because the number of new operators depends on the number of channels.
    """

    name = "resolve_customop_max_pool_with_argmax"

    def run_graph(self, graph: Graph, context: Context) -> int:
        ops = [op for op in graph.ops if isinstance(op, OpaqueOp) and op.custom_code == "MaxPoolWithArgmax"]
        return sum(self._resolve(graph, op, context) for op in ops if op.results)

    def _resolve(self, graph: Graph, op: OpaqueOp, context: Context) -> bool:
        """Replace ``op`` if there is no obstacle; return whether it was replaced."""
        if not context.accepts(self.name, op, _obstacle(op)):
            return False
        x = op.inputs[0]
        assert x is not None  # _obstacle has checked it
        builder = _PositionBuilder(graph, op)
        results = [builder.pool(x)]
        # the positions are computed only if they are used
        if op.results[1].use_count or graph.is_output(op.results[1]):
            dtype = op.results[1].dtype
            results.append(builder.make(Cast(builder.positions(x), in_data_type=f32, out_data_type=dtype)))
        builder.finish(*results)
        return True


def _obstacle(op: OpaqueOp) -> str | None:
    """Return why ``op`` cannot be replaced; None if it can."""
    name = f"%{op.output.name}"
    if len(op.inputs) != 1:
        return f"{name}: expected one operand, got {len(op.inputs)}"
    x = op.inputs[0]
    if x is None or x.rank != 4 or not x.is_static:
        return f"{name}: expected a static [N,H,W,C], got {format_shape(x.shape) if x else 'no input'}"
    dtypes = [value.dtype for value in (x, *op.results)]
    if len(dtypes) != 3 or dtypes[:2] != [f32, f32] or dtypes[2] not in (i32, i64):
        return f"{name}: expected f32 data and positions of i32 or i64"
    if not x.numel:
        return f"{name}: expected data with elements, got {format_shape(x.shape)}"
    if x.numel > MAX_EXACT_INTEGER:
        limit = f"{MAX_EXACT_INTEGER} elements, whose positions are exact in f32"
        return f"%{x.name}: expected at most {limit}, got {x.numel}"
    try:
        window, strides, padding, _ = window_options(op)
        axes = zip(x.static_shape[1:3], window[1:3], strides[1:3], strict=True)
        windows = [axis_windows(size, n, step, 1, padding).number for size, n, step in axes]
    except ModelError as error:
        return f"{name}: {error.message}"
    if {*window[::3], *strides[::3]} != {1}:  # sizes and strides along N and C
        return f"{name}: expected windows within one image and channel"
    expected_shape = (x.static_shape[0], *windows, x.static_shape[3])
    return _window_obstacle(op, x.static_shape, window) or _result_obstacle(op, expected_shape)


def _window_obstacle(op: OpaqueOp, shape: Sequence[int], window: Sequence[int]) -> str | None:
    """Return why a ``window`` [1,h,w,1] is too large for data of this ``shape``; None if it is not."""
    _, height, width, _ = window
    *_, image_width, channels = shape
    name = f"%{op.output.name}"
    if max(height * width, channels) > MAX_WINDOW_OR_CHANNELS:
        limit = f"at most {MAX_WINDOW_OR_CHANNELS}"
        found = f"got {height * width} and {channels}"
        return f"{name}: expected {limit} elements in a window and {limit} channels, {found}"
    # A position is computed from the difference to the first element of its window.  That element is far
    # outside of the image if the window is much larger than the image.
    difference = ((height - 1) * image_width + width - 1) * channels
    if difference > MAX_EXACT_INTEGER:
        limit = f"positions in a window that differ by at most {MAX_EXACT_INTEGER}, which is exact in f32"
        return f"{name}: expected {limit}, got a difference of {difference}"
    return None


def _result_obstacle(op: OpaqueOp, shape: Shape) -> str | None:
    """Return why the results of ``op`` cannot have this ``shape``; None if they can."""
    for value in op.results:
        stated = shape if value.shape is None else value.shape
        if len(stated) != len(shape) or any(a not in (None, b) for a, b in zip(stated, shape, strict=True)):
            return f"%{value.name}: expected shape {format_shape(shape)}, got {format_shape(stated)}"
    return None
