# SPDX-License-Identifier: Apache-2.0
"""Legalize convolutions for LiteRT: a bias of zeros, and output sizes that it accepts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Padding
from circlekit.ir.graph import Graph
from circlekit.ir.shape_inference import fits
from circlekit.ir.value import LARGEST_DIMENSION, Array, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.movement.slice import Slice
from circlekit.passes.engine.legalize import Legalization, has
from circlekit.passes.fuse.fuse_behind_convolution import forward_size, leading_pad
from circlekit.rewrite.base import Context
from circlekit.rewrite.rewrite import Rewrite


class ZeroBias(Rewrite):
    """conv(x, w)  ==  conv(x, w, 0)."""

    before = "z = Conv2D(x: f32, w: f32[O, _, _, _])"
    after = "z = Conv2D(x, w, b)    {like z}"

    def constants(self, O: int) -> dict[str, Array]:
        return {"b": np.zeros(O, np.float32)}


class DepthwiseZeroBias(ZeroBias):
    """dwconv(x, w)  ==  dwconv(x, w, 0)."""

    before = "z = DepthwiseConv2D(x: f32, w: f32[1, _, _, O])"
    after = "z = DepthwiseConv2D(x, w, b)    {like z}"


class CompleteConvBias(Legalization):
    """conv(x, w)  ==  conv(x, w, 0), for TFLite."""

    targets = frozenset({"tflite"})
    rules: ClassVar[tuple[type[Rewrite], ...]] = (ZeroBias, DepthwiseZeroBias)

    def may_change(self, graph: Graph) -> bool:
        kinds = (Conv2D, DepthwiseConv2D)
        return any(isinstance(op, kinds) and op.bias is None for op in graph)

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(rule().run_graph(graph, context) for rule in self.rules)


class FitTransposeConv(Legalization):
    """tconv(x, any output size)  ==  slice(tconv(x, the output size for VALID padding))."""

    targets = frozenset({"tflite"})

    def may_change(self, graph: Graph) -> bool:
        return has(graph, TransposeConv)

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._fit(graph, op) for op in graph.ops if isinstance(op, TransposeConv))

    @staticmethod
    def _fit(graph: Graph, op: TransposeConv) -> bool:
        values = (op.input, op.filter, op.output)
        if op.output_shape.data is None or op.input.dtype is not f32 or not all(v.is_static for v in values):
            return False
        x, w, y = (v.static_shape for v in values)
        if {len(x), len(w), len(y)} != {4} or not fits(op):  # an invalid operator stays as it is
            return False
        steps = (1, op.stride_h, op.stride_w)
        axes = [(x[i], y[i], w[i], steps[i]) for i in (1, 2)]
        if all(forward_size(op.padding, out, taps, step) == rows for rows, out, taps, step in axes):
            return False
        begin = [leading_pad(op.padding, out, taps, step) for _, out, taps, step in axes]
        full = [(rows - 1) * step + taps for rows, _, taps, step in axes]
        if max(full) > LARGEST_DIMENSION:
            return False
        if any(b + out > all_ for b, (_, out, _, _), all_ in zip(begin, axes, full, strict=True)):
            return False
        _widen(graph, op, begin, (y[0], full[0], full[1], y[3]))
        return True


def _widen(graph: Graph, op: TransposeConv, begin: list[int], shape: tuple[int, ...]) -> None:
    """Change the output size of ``op`` to ``shape``, and add a Slice that cuts the old output out of it."""
    result = op.output
    wide = Value(graph.unique_name(f"{result.name}/TransposeConv"), result.dtype, shape)

    def vector(name: str, *numbers: int) -> Value:
        return Value.constant(graph.unique_name(f"{result.name}/{name}"), np.array(numbers, np.int32))

    op.take_result(0, wide)
    op.output_shape = vector("output_shape", *shape)
    op.padding = Padding.VALID
    cut = Slice(wide, vector("begin", 0, *begin, 0), vector("size", *result.static_shape), results=[result])
    graph.insert_after(op, cut)
