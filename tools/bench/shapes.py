# SPDX-License-Identifier: Apache-2.0
"""Models of any number of operators: chains, trees and wide graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlekit.ir.dtypes import boolean, f32, i8
from circlekit.ir.enums import Padding
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Shape, Value
from circlekit.ops.arithmetic.activation import LeakyRelu, Logistic, Relu, Tanh
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.arithmetic.cast import Dequantize, Quantize
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.ops.movement.shape import Transpose
from circlekit.ops.program.control import If

CHANNELS = 4
SCALE = 0.05
NHWC, NCHW = np.array([0, 2, 3, 1], np.int32), np.array([0, 3, 1, 2], np.int32)


class Maker:
    """Adds operators with seeded constants to a graph.  ``others``: graphs that its operators call."""

    def __init__(self) -> None:
        self.x = Value("x", f32, (1, CHANNELS, CHANNELS, CHANNELS))
        self.graph = Graph("main", [self.x])
        self.others: list[Graph] = []
        self.random = np.random.default_rng(0)

    def put(self, op: Op) -> Value:
        return self.graph.append(op).output

    def weights(self, *shape: int) -> Value:
        array = self.random.uniform(0.1, 0.5, shape).astype(np.float32)
        return Value.constant(self.graph.unique_name("c"), array)

    def quantized(self, shape: Shape | None) -> Value:
        """A result of type int8."""
        scale, zero = np.full(1, SCALE, np.float32), np.zeros(1, np.int64)
        return Value("", i8, shape, None, Quantization(scale, zero))

    def constant(self, array: np.ndarray[Any, np.dtype[np.int32]]) -> Value:
        return Value.constant(self.graph.unique_name("p"), array)

    def conv(self, x: Value) -> Value:
        filter, bias = self.weights(CHANNELS, 1, 1, CHANNELS), self.weights(CHANNELS)
        return self.put(Conv2D(x, filter, bias, padding=Padding.SAME))


# -- chains ------------------------------------------------------------------------------------


def conv(m: Maker, x: Value, step: int) -> Value:
    """Conv, Mul, Add, Relu in NHWC: everything fuses."""
    x = m.put(Mul(m.conv(x), m.weights(CHANNELS)))
    return m.put(Relu(m.put(Add(x, m.weights(CHANNELS)))))


def nchw(m: Maker, x: Value, step: int) -> Value:
    """What ``conv`` makes, as a PyTorch exporter writes it: Transposes around each convolution."""
    x = m.conv(m.put(Transpose(x, m.constant(NHWC))))
    x = m.put(Transpose(x, m.constant(NCHW)))
    x = m.put(Mul(x, m.weights(CHANNELS, 1, 1)))
    return m.put(Add(x, m.weights(CHANNELS, 1, 1)))


def elementwise(m: Maker, x: Value, step: int) -> Value:
    """Nothing to fuse."""
    return m.put(Tanh(x) if step % 2 else LeakyRelu(x, alpha=0.1))


def residual(m: Maker, x: Value, step: int) -> Value:
    """Every value has two users."""
    return m.put(Add(x, m.put(Tanh(x))))


def lstm(m: Maker, x: Value, step: int) -> Value:
    """One step of an LSTM, as exporters unroll it."""
    both = m.put(Concatenation(x, m.x, axis=3))
    dense = FullyConnected(
        both, m.weights(4 * CHANNELS, 2 * CHANNELS), m.weights(4 * CHANNELS), keep_num_dims=True
    )
    split = Split(m.constant(np.array(3, np.int32)), m.put(dense), num_splits=4)
    m.graph.append(split)
    i, f, g, o = split.results
    cell = m.put(Mul(m.put(Logistic(f)), x))
    new = m.put(Mul(m.put(Logistic(i)), m.put(Tanh(g))))
    return m.put(Mul(m.put(Logistic(o)), m.put(Tanh(m.put(Add(cell, new))))))


def quantized(m: Maker, x: Value, step: int) -> Value:
    """Convolution and activation in int8 with a scale per channel, interrupted by float values."""
    shape = x.shape
    if x.dtype is f32:
        x = m.put(Quantize(x, results=[m.quantized(shape)]))
    codes = m.random.integers(-127, 127, (CHANNELS, 1, 1, CHANNELS), np.int8)
    scales = m.random.uniform(0.001, 0.01, CHANNELS).astype(np.float32)
    zeros = np.zeros(CHANNELS, np.int64)
    filter = Value.constant(m.graph.unique_name("c"), codes, Quantization(scales, zeros))
    bias = Value.constant(
        m.graph.unique_name("b"), np.arange(CHANNELS, dtype=np.int32), Quantization(scales * SCALE, zeros)
    )
    x = m.put(Conv2D(x, filter, bias, padding=Padding.SAME, results=[m.quantized(shape)]))
    x = m.put(Relu(x, results=[m.quantized(shape)]))
    return m.put(Dequantize(x)) if step % 4 == 3 else x


def chain(step: Callable[[Maker, Value, int], Value]) -> Callable[[Maker, int], list[Value]]:
    """Repeat ``step``, each time on the previous result."""

    def make(m: Maker, size: int) -> list[Value]:
        value, count = m.x, 0
        while len(m.graph) < size:
            value, count = step(m, value, count), count + 1
        return [value]

    return make


# -- trees and wide graphs -----------------------------------------------------------------------


def leaves(m: Maker, count: int) -> list[Value]:
    return [m.put(Mul(m.x, m.weights(CHANNELS))) for _ in range(count)]


def tree(m: Maker, size: int) -> list[Value]:
    """Pairwise sums down to one value."""
    level = leaves(m, size // 2)
    while len(level) > 1:
        pairs = [m.put(Add(a, b)) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level


def factors(m: Maker, size: int) -> list[Value]:
    """One convolution with many multiplications as users, each of which could be fused if it were alone."""
    shared = m.conv(m.x)
    return [m.put(Mul(shared, m.weights(CHANNELS))) for _ in range(size - 1)]


def concat(m: Maker, size: int) -> list[Value]:
    """One operator that reads the results of all others."""
    return [m.put(Concatenation(*leaves(m, size - 1), axis=3))]


def branches(m: Maker, size: int) -> list[Value]:
    """Parallel convolutions in NCHW, each with an activation, on one input."""
    return [
        m.put(Transpose(m.put(Relu(m.conv(m.put(Transpose(m.x, m.constant(NHWC)))))), m.constant(NCHW)))
        for _ in range(size // 4)
    ]


def graphs(m: Maker, size: int) -> list[Value]:
    """A chain of IF operators, each with two graphs of its own."""
    value, flag = m.x, Value("flag", boolean, (1,))
    m.graph.inputs = (m.x, flag)
    for number in range(size // 5):
        pair = []
        for kind in ("then", "else"):
            x = Value("x", f32, m.x.shape)
            graph = Graph(f"{kind}{number}", [x])
            graph.append(Tanh(x))
            graph.outputs = (graph.append(Mul(graph.ops[0].output, m.weights(CHANNELS))).output,)
            pair.append(graph)
        m.others += pair
        value = m.put(If(flag, value, then_graph=pair[0], else_graph=pair[1]))
    return [value]


SHAPES: dict[str, Callable[[Maker, int], list[Value]]] = {
    "conv": chain(conv),
    "nchw": chain(nchw),
    "elementwise": chain(elementwise),
    "residual": chain(residual),
    "lstm": chain(lstm),
    "quantized": chain(quantized),
    "tree": tree,
    "factors": factors,
    "concat": concat,
    "branches": branches,
    "graphs": graphs,
}


def build(shape: str, size: int) -> Model:
    """A model of about ``size`` operators."""
    maker = Maker()
    maker.graph.outputs = tuple(SHAPES[shape](maker, size))
    model = Model([maker.graph, *maker.others], format="circle")
    model.signatures = [
        Signature(graph.name, graph, {v.name: v for v in graph.inputs}, {v.name: v for v in graph.outputs})
        for graph in model.graphs
    ]
    return model
