# SPDX-License-Identifier: Apache-2.0
"""The custom operator MaxPoolWithArgmax as MAX_POOL_2D and, for the places, arithmetic in float32.

Over 120 lines because the places of the maxima take twenty operators to say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import f32, i32, i64
from circlekit.ir.enums import Padding
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.arithmetic.cast import Cast
from circlekit.ops.arithmetic.unary import Floor, Neg
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.movement.slice import PadV2
from circlekit.ops.program.custom import window_options
from circlekit.ops.reduction.reduce import ArgMax
from circlekit.ops.windows import conv_padding
from circlekit.rewrite.base import Context, GraphPass

EXACT = 1 << 24
"""Whole numbers up to this are exact in float32."""

MOST = 1 << 12
"""Elements of a window, and channels: each is an operator, or a unit vector of as many elements."""


class Places:
    """Writes, before ``op``, the operators that find the greatest element of each window.

    A convolution by unit vectors lays the k elements of each window side by side, one channel at a time;
    ARG_MAX of them is ky * width + kx, from which the place in the image follows:
    ((top + ky) * W + left + kx) * C + channel.
    """

    def __init__(self, graph: Graph, op: OpaqueOp) -> None:
        self.graph, self.op, self.base = graph, op, op.output.name
        taps, strides, self.padding, self.counts_images = window_options(op)
        self.taps, self.strides = taps[1:3], strides[1:3]
        self.shape = op.inputs[0].static_shape if op.inputs[0] is not None else ()
        axes = zip(self.shape[1:3], self.taps, self.strides, strict=True)
        self.windows = [conv_padding(size, n, step, 1, self.padding) for size, n, step in axes]

    def make(self, op: Op) -> Value:
        self.graph.insert_before(self.op, op)
        op.output.name = self.graph.unique_name(f"{self.base}/{type(op).__name__}")
        return op.output

    def constant(self, array: Array) -> Value:
        return Value.constant(self.graph.unique_name(f"{self.base}/constant"), array)

    def number(self, number: float) -> Value:
        return self.constant(np.asarray(number, np.float32))

    def pool(self, x: Value) -> Value:
        (high, wide), (down, right) = self.taps, self.strides
        sizes: dict[str, Any] = {
            "filter_height": high,
            "filter_width": wide,
            "stride_h": down,
            "stride_w": right,
        }
        return self.make(MaxPool2D(x, padding=self.padding, **sizes))

    def find(self, x: Value) -> Value:
        """The places as float32, [N,h,w,C]."""
        edges = np.array([[0, 0], *([w.before, w.after] for w in self.windows), [0, 0]], np.int32)
        if edges.any():
            x = self.make(PadV2(x, self.constant(edges), self.number(np.finfo(np.float32).min)))
        batch, _, _, channels = self.shape
        parts = [x]
        if channels > 1:
            split = Split(self.constant(np.asarray(3, np.int32)), x, num_splits=channels)
            self.make(split)
            parts = split.results
        found = [self.find_in_channel(part) for part in parts]
        place = found[0] if channels == 1 else self.make(Concatenation(*found, axis=3))
        offset = np.arange(channels, dtype=np.float32).reshape(1, 1, 1, -1)
        if self.counts_images:
            image = np.arange(batch, dtype=np.float32) * np.prod(self.shape[1:], dtype=np.float32)
            offset = offset + image.reshape(-1, 1, 1, 1)
        return self.make(Add(place, self.constant(offset)))

    def find_in_channel(self, x: Value) -> Value:
        """The places of one channel, without its number."""
        (high, wide), (down, right) = self.taps, self.strides
        units = np.eye(high * wide, dtype=np.float32).reshape(-1, high, wide, 1)
        step: dict[str, Any] = {"stride_h": down, "stride_w": right, "padding": Padding.VALID}
        bias = self.constant(np.zeros(high * wide, np.float32))
        laid = self.make(Conv2D(x, self.constant(units), bias, **step))
        best = self.make(ArgMax(laid, self.constant(np.asarray(3, np.int32)), output_type=i32))
        rows, columns = (w.size for w in self.windows)
        shape = self.constant(np.array([self.shape[0], rows, columns, 1], np.int32))
        index = self.make(Cast(self.make(Reshape(best, shape)), in_data_type=i32, out_data_type=f32))
        # the quotient is a little too large, or rounding would make one of kx = 0 too small
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
        return self.make(Add(scaled, self.constant(corner[None, :, :, None])))


class ResolveCustomMaxPoolWithArgmax(GraphPass):
    """max_pool_with_argmax(x)  ==  max_pool_2d(x), and where it found what, for every finite x.

    Longer than other passes: no picture has an operator for every channel.
    """

    name = "resolve_customop_max_pool_with_argmax"

    def run_graph(self, graph: Graph, context: Context) -> int:
        wanted = "MaxPoolWithArgmax"
        found = [op for op in graph.ops if isinstance(op, OpaqueOp) and op.custom_code == wanted]
        return sum(self._resolve(graph, op, context) for op in found if op.results)

    def _resolve(self, graph: Graph, op: OpaqueOp, context: Context) -> bool:
        sentence = _obstacle(op)
        if sentence is not None:
            context.refuse(self.name, op, sentence, 2)
            return False
        if not context.may_rewrite:
            return False
        context.rewrites(op)
        x = op.inputs[0]
        assert x is not None  # _obstacle has looked
        places = Places(graph, op)
        made = [places.pool(x)]
        if op.results[1].use_count or graph.is_output(op.results[1]):
            dtype = op.results[1].dtype
            made.append(places.make(Cast(places.find(x), in_data_type=f32, out_data_type=dtype)))
        for old, new in zip(tuple(op.results), made, strict=False):
            assert new.producer is not None  # it was made just now
            new.producer.take_result(0, old)
        graph.remove(op)
        return True


def _obstacle(op: OpaqueOp) -> str | None:
    x = op.inputs[0] if len(op.inputs) == 1 else None
    name = f"%{op.output.name}"
    if x is None or x.rank != 4 or not x.is_static:
        return f"{name}: the input has {format_shape(x.shape) if x else 'no shape'}, [N,H,W,C] is wanted"
    if x.dtype is not f32 or len(op.results) != 2 or op.results[1].dtype not in (i32, i64):
        return f"{name}: f32 data, and places of i32 or i64, are wanted"
    if x.numel > EXACT:
        return f"{name}: %{x.name} has {x.numel} elements, up to {EXACT} can be told apart in f32"
    try:
        taps, strides, padding, _ = window_options(op)
        for size, n, step in zip(x.static_shape[1:3], taps[1:3], strides[1:3], strict=True):
            conv_padding(size, n, step, 1, padding)
    except ModelError as error:
        return f"{name}: {error.message}"
    if max(taps[1] * taps[2], x.static_shape[3]) > MOST:
        found = f"windows of {taps[1] * taps[2]} in {x.static_shape[3]} channels"
        return f"{name}: {found}, at most {MOST} of either are written out"
    return (
        None if {*taps[::3], *strides[::3]} == {1} else f"{name}: the window goes across images or channels"
    )
