# SPDX-License-Identifier: Apache-2.0
"""Replace the custom operator MaxPoolWithArgmax by MAX_POOL_2D and arithmetic for the positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import f32, i32, i64
from circlekit.ir.enums import Padding
from circlekit.ir.graph import Graph
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.arithmetic.cast import Cast
from circlekit.ops.arithmetic.unary import Floor, Neg
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.dimensions import conv_padding
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.movement.slice import PadV2
from circlekit.ops.program.custom import window_options
from circlekit.ops.reduction.reduce import ArgMax
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass

MAX_EXACT_INTEGER = 1 << 24
"""Integers up to this are exact in float32."""

MAX_WINDOW_OR_CHANNELS = 1 << 12
"""Most elements of a window, and most channels: each channel needs its own operators."""


class _PositionBuilder(Inserter):
    """Inserts, before ``op``, the operators that compute the maximum of each window and its position.

    A convolution with unit vectors lays the elements of each window out along the last axis, one channel at a
    time; their ARG_MAX is ky * width + kx, which gives the position in the image:
    ((top + ky) * W + left + kx) * C + channel.
    """

    def __init__(self, graph: Graph, op: OpaqueOp) -> None:
        super().__init__(graph, op)
        taps, strides, self.padding, self.counts_images = window_options(op)
        self.taps, self.strides = taps[1:3], strides[1:3]
        self.shape = op.inputs[0].static_shape if op.inputs[0] is not None else ()
        axes = zip(self.shape[1:3], self.taps, self.strides, strict=True)
        self.windows = [conv_padding(size, n, step, 1, self.padding) for size, n, step in axes]

    def array(self, array: Array) -> Value:
        return self.constant("constant", array)

    def number(self, number: float) -> Value:
        return self.array(np.asarray(number, np.float32))

    def pool(self, x: Value) -> Value:
        sizes: dict[str, Any] = {"filter_height": self.taps[0], "filter_width": self.taps[1]}
        steps: dict[str, Any] = {"stride_h": self.strides[0], "stride_w": self.strides[1]}
        return self.make(MaxPool2D(x, padding=self.padding, **sizes, **steps))

    def find(self, x: Value) -> Value:
        """The positions as float32, [N,h,w,C]."""
        edges = np.array([[0, 0], *([w.before, w.after] for w in self.windows), [0, 0]], np.int32)
        if edges.any():
            x = self.make(PadV2(x, self.array(edges), self.number(np.finfo(np.float32).min)))
        batch, _, _, channels = self.shape
        parts = [x]
        if channels > 1:
            split = Split(self.array(np.asarray(3, np.int32)), x, num_splits=channels)
            self.make(split)
            parts = split.results
        found = [self.find_in_channel(part) for part in parts]
        position = found[0] if channels == 1 else self.make(Concatenation(*found, axis=3))
        offset = np.arange(channels, dtype=np.float32).reshape(1, 1, 1, -1)
        if self.counts_images:
            image = np.arange(batch, dtype=np.float32) * np.prod(self.shape[1:], dtype=np.float32)
            offset = offset + image.reshape(-1, 1, 1, 1)
        return self.make(Add(position, self.array(offset)))

    def find_in_channel(self, x: Value) -> Value:
        """The positions for one channel, without adding the channel."""
        (high, wide), (down, right) = self.taps, self.strides
        units = np.eye(high * wide, dtype=np.float32).reshape(-1, high, wide, 1)
        bias = self.array(np.zeros(high * wide, np.float32))
        laid = self.make(
            Conv2D(x, self.array(units), bias, stride_h=down, stride_w=right, padding=Padding.VALID)
        )
        best = self.make(ArgMax(laid, self.array(np.asarray(3, np.int32)), output_type=i32))
        rows, columns = (w.size for w in self.windows)
        shape = self.array(np.array([self.shape[0], rows, columns, 1], np.int32))
        index = self.make(Cast(self.make(Reshape(best, shape)), in_data_type=i32, out_data_type=f32))
        # slightly too large a factor, so that rounding never makes the quotient too small where kx = 0
        quotient = self.make(Mul(index, self.number((1 + 2.0**-20) / wide)))
        ky = self.make(Floor(quotient))
        kx = self.make(Add(index, self.make(Neg(self.make(Mul(ky, self.number(wide)))))))
        _, _, width, channels = self.shape
        inside = self.make(Add(self.make(Mul(ky, self.number(width))), kx))
        top, left = (
            np.arange(w.size) * n - w.before for w, n in zip(self.windows, self.strides, strict=True)
        )
        corner = (top[:, None] * width + left).astype(np.float32) * channels
        scaled = self.make(Mul(inside, self.number(channels)))
        return self.make(Add(scaled, self.array(corner[None, :, :, None])))


class ResolveCustomMaxPoolWithArgmax(GraphPass):
    """Replace TensorFlow's MaxPoolWithArgmax by MAX_POOL_2D and arithmetic for the positions; for finite x.

    A plain pass, because the number of operators depends on the number of channels.
    """

    name = "resolve_customop_max_pool_with_argmax"

    def run_graph(self, graph: Graph, context: Context) -> int:
        expected = "MaxPoolWithArgmax"
        found = [op for op in graph.ops if isinstance(op, OpaqueOp) and op.custom_code == expected]
        return sum(self._resolve(graph, op, context) for op in found if op.results)

    def _resolve(self, graph: Graph, op: OpaqueOp, context: Context) -> bool:
        if not context.accepts(self.name, op, _obstacle(op)):
            return False
        x = op.inputs[0]
        assert x is not None  # _obstacle has checked it
        builder = _PositionBuilder(graph, op)
        made = [builder.pool(x)]
        if op.results[1].use_count or graph.is_output(op.results[1]):
            dtype = op.results[1].dtype
            made.append(builder.make(Cast(builder.find(x), in_data_type=f32, out_data_type=dtype)))
        builder.finish(*made)
        return True


def _obstacle(op: OpaqueOp) -> str | None:
    x = op.inputs[0] if len(op.inputs) == 1 else None
    name = f"%{op.output.name}"
    if x is None or x.rank != 4 or not x.is_static:
        return f"{name}: expected a static [N,H,W,C], got {format_shape(x.shape) if x else 'no input'}"
    if x.dtype is not f32 or len(op.results) != 2 or op.results[1].dtype not in (i32, i64):
        return f"{name}: expected f32 data and positions of i32 or i64"
    if x.numel > MAX_EXACT_INTEGER:
        most = f"{MAX_EXACT_INTEGER} elements, whose positions are exact in f32"
        return f"%{x.name}: expected at most {most}, got {x.numel}"
    try:
        taps, strides, padding, _ = window_options(op)
        for size, n, step in zip(x.static_shape[1:3], taps[1:3], strides[1:3], strict=True):
            conv_padding(size, n, step, 1, padding)
    except ModelError as error:
        return f"{name}: {error.message}"
    if max(taps[1] * taps[2], x.static_shape[3]) > MAX_WINDOW_OR_CHANNELS:
        found = f"windows of {taps[1] * taps[2]} in {x.static_shape[3]} channels"
        return f"{name}: {found}, expected at most {MAX_WINDOW_OR_CHANNELS} of either"
    inside = {*taps[::3], *strides[::3]} == {1}
    return None if inside else f"{name}: expected windows within one image and channel"
