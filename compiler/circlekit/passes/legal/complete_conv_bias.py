# SPDX-License-Identifier: Apache-2.0
"""Add a bias of zeros to convolutions without one, because LiteRT rejects CONV_2D with two operands."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.value import Array
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.passes.engine.legalize import Legalization
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
