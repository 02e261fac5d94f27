# SPDX-License-Identifier: Apache-2.0
"""Add a bias of zeros to layers without one, for runtimes that require it."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.passes.engine.legalize import LITERT, Lowering


class _CompleteBias(Lowering):
    """layer(x, w)  ==  layer(x, w, 0)."""

    def constants(self, O: int) -> dict[str, Array]:  # named in the pictures
        return {"b": np.zeros(O, np.float32)}


class CompleteConvBias(_CompleteBias):
    """conv(x, w)  ==  conv(x, w, 0)."""

    targets = LITERT  # rejects a convolution without bias

    before = "z = Conv2D(x: f32, w: f32[O, _, _, _])"
    after = "z = Conv2D(x, w, b)    {like z}"


class CompleteDepthwiseConvBias(_CompleteBias):
    """depthwise_conv(x, w)  ==  depthwise_conv(x, w, 0)."""

    targets = LITERT

    before = "z = DepthwiseConv2D(x: f32, w: f32[_, _, _, O])"
    after = "z = DepthwiseConv2D(x, w, b)    {like z}"


class CompleteFullyConnectedBias(_CompleteBias):
    """fully_connected(x, w)  ==  fully_connected(x, w, 0)."""

    before = "z = FullyConnected(x: f32, w: f32[O, _])"
    after = "z = FullyConnected(x, w, b)    {like z}"
