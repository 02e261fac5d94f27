# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 1.0 224 with random weights, in float and in int8, for benchmarks."""

from __future__ import annotations

import math

import numpy as np

import circlekit
from circlekit.api.quantizing import quantize
from circlekit.ir.value import Array, Value

BLOCKS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, repetitions, stride of the first: table 2 of arXiv:1801.04381."""


class Network:
    """The text of a network whose filters keep the variance of the data.  ``depth``: of the last result."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.last, self.depth = "image", 3

    def layer(self, operator: str, shape: tuple[int, ...], channels: int, attributes: str) -> None:
        name, fan = f"layer{len(self.lines)}", math.prod(shape) // channels
        self.lines.append(
            f"%{name}_w = const f32{list(shape)} gaussian(0, {math.sqrt(2 / fan):.6f})\n"
            f"%{name}_b = const f32[{channels}] gaussian(0, 0.1)\n"
            f"%{name} = {operator}(%{self.last}, %{name}_w, %{name}_b) {{{attributes}}}"
        )
        self.last, self.depth = name, channels

    def conv(self, channels: int, taps: int, stride: int, act: str) -> None:
        attributes = f"padding: SAME, stride_h: {stride}, stride_w: {stride}, act: {act}"
        self.layer("Conv2D", (channels, taps, taps, self.depth), channels, attributes)

    def block(self, expansion: int, channels: int, stride: int) -> None:
        source, depth = self.last, self.depth
        if expansion > 1:
            self.conv(depth * expansion, 1, 1, "RELU6")
        attributes = f"padding: SAME, stride_h: {stride}, stride_w: {stride}, act: RELU6"
        self.layer("DepthwiseConv2D", (1, 3, 3, self.depth), self.depth, attributes)
        self.conv(channels, 1, 1, "NONE")
        if stride == 1 and depth == channels:
            self.lines.append(f"%{self.last}_sum = Add(%{source}, %{self.last})")
            self.last += "_sum"


def mobilenet(quantized: bool) -> circlekit.Model:
    """Return the network; ``quantized``: in int8, calibrated on one random image."""
    net = Network()
    net.conv(32, 3, 2, "RELU6")
    for expansion, channels, count, stride in BLOCKS:
        for index in range(count):
            net.block(expansion, channels, stride if index == 0 else 1)
    net.conv(1280, 1, 1, "RELU6")
    net.lines.append(f"%mean = Mean(%{net.last}, [1, 2])")
    net.last = "mean"
    net.layer("FullyConnected", (1000, 1280), 1000, "")
    net.lines.append(f"%classes = Softmax(%{net.last})")
    head = "model tflite\ngraph main(%image: f32[1,224,224,3]) -> %classes {"
    model = circlekit.parse("\n".join([head, *net.lines, "}"]))
    if quantized:
        images = [[sample(model.main.inputs[0])]]
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
