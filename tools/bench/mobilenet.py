# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 1.0 224 with random weights, in float and in int8, for benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.api.quantizing import quantize
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.reduction.normalization import Softmax
from circlekit.ops.reduction.reduce import Mean

BLOCKS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, repetitions, stride of the first: table 2 of arXiv:1801.04381."""


class Network:
    """A sequential network with random weights."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(2)
        self.graph = Graph("main", [Value("image", f32, (1, 224, 224, 3))])

    def put(self, op: Op) -> Value:
        return self.graph.append(op).output

    def weights(self, shape: Sequence[int], axis: int, fan: int) -> tuple[Value, Value]:
        """Return a filter and a bias that keep the variance of the data."""
        array = (self.random.normal(size=tuple(shape)) * np.sqrt(2 / fan)).astype(np.float32)
        bias = (self.random.normal(size=shape[axis]) * 0.1).astype(np.float32)
        name = self.graph.unique_name("w")
        return Value.constant(name, array), Value.constant(name + "_bias", bias)

    def conv(self, x: Value, channels: int, taps: int, stride: int, act: Activation) -> Value:
        depth = x.static_shape[3]
        filter, bias = self.weights((channels, taps, taps, depth), 0, taps * taps * depth)
        return self.put(
            Conv2D(x, filter, bias, padding=Padding.SAME, stride_h=stride, stride_w=stride, act=act)
        )

    def depthwise(self, x: Value, stride: int) -> Value:
        filter, bias = self.weights((1, 3, 3, x.static_shape[3]), 3, 9)
        act = Activation.RELU6
        return self.put(DepthwiseConv2D(x, filter, bias, stride_h=stride, stride_w=stride, act=act))

    def block(self, x: Value, expansion: int, channels: int, stride: int) -> Value:
        depth = x.static_shape[3]
        wide = self.conv(x, depth * expansion, 1, 1, Activation.RELU6) if expansion > 1 else x
        out = self.conv(self.depthwise(wide, stride), channels, 1, 1, Activation.NONE)
        return self.put(Add(x, out)) if stride == 1 and depth == channels else out

    def head(self, x: Value) -> Value:
        x = self.conv(x, 1280, 1, 1, Activation.RELU6)
        axes = Value.constant("axes", np.array([1, 2], np.int32))
        x = self.put(Mean(x, axes))
        filter, bias = self.weights((1000, 1280), 0, 1280)
        x = self.put(FullyConnected(x, filter, bias))
        return self.put(Softmax(x))


def mobilenet(quantized: bool) -> Model:
    """Return the network; ``quantized``: in int8, calibrated on one random image."""
    net = Network()
    x = net.conv(net.graph.inputs[0], 32, 3, 2, Activation.RELU6)
    for expansion, channels, count, stride in BLOCKS:
        for index in range(count):
            x = net.block(x, expansion, channels, stride if index == 0 else 1)
    net.graph.outputs = (net.head(x),)
    model = Model([net.graph], format="tflite")
    if quantized:
        images = [[sample(net.graph.inputs[0])]]
        quantize(model, samples=images, inputs="integer", outputs="integer", passes=[], auto=False)
    return model


def sample(value: Value) -> Array:
    """Return elements for an input: normal floats, any 8-bit integers, small wider integers."""
    random = np.random.default_rng(0)
    shape = tuple(1 if d is None else d for d in value.shape or ())
    if value.dtype.is_float:
        return random.normal(size=shape).astype(value.dtype.numpy)
    if value.dtype.bits == 8:
        return random.integers(0, 256, shape).astype(np.uint8).view(value.dtype.numpy or np.uint8)
    return random.integers(0, 9, shape).astype(value.dtype.numpy)
