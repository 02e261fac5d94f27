# SPDX-License-Identifier: Apache-2.0
"""Models of any number of operators: chains, trees, and graphs that are wide in one way or another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Padding
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.activation import LeakyRelu, Relu, Tanh
from circlekit.ops.conv import Conv2D
from circlekit.ops.elementwise import Add, Mul
from circlekit.ops.join import Concatenation
from circlekit.ops.shape import Transpose

CHANNELS = 4
NHWC, NCHW = np.array([0, 2, 3, 1], np.int32), np.array([0, 3, 1, 2], np.int32)


class Maker:
    """Adds operators with seeded constants to a graph."""

    def __init__(self) -> None:
        self.x = Value("x", f32, (1, CHANNELS, CHANNELS, CHANNELS))
        self.graph = Graph("main", [self.x])
        self.random = np.random.default_rng(0)

    def put(self, op: Op) -> Value:
        return self.graph.append(op).output

    def weights(self, *shape: int) -> Value:
        array = self.random.uniform(0.1, 0.5, shape).astype(np.float32)
        return Value.constant(self.graph.unique_name("c"), array)

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
    """The same as a PyTorch exporter writes it: transposes around each convolution."""
    x = m.conv(m.put(Transpose(x, m.constant(NHWC))))
    x = m.put(Transpose(x, m.constant(NCHW)))
    x = m.put(Mul(x, m.weights(CHANNELS, 1, 1)))
    return m.put(Add(x, m.weights(CHANNELS, 1, 1)))


def elementwise(m: Maker, x: Value, step: int) -> Value:
    """Nothing to fuse."""
    return m.put(Tanh(x) if step % 2 else LeakyRelu(x, alpha=0.1))


def residual(m: Maker, x: Value, step: int) -> Value:
    """Two readers for every value."""
    return m.put(Add(x, m.put(Tanh(x))))


def chain(step: Callable[[Maker, Value, int], Value]) -> Callable[[Maker, int], list[Value]]:
    """``step`` after ``step``, each on the result of the one before."""

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
    """Sums of pairs of sums, down to one."""
    level = leaves(m, size // 2)
    while len(level) > 1:
        pairs = [m.put(Add(a, b)) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level


def readers(m: Maker, size: int) -> list[Value]:
    """One value that all operators read, and as many outputs."""
    shared = m.put(Tanh(m.x))
    return [m.put(Mul(shared, m.weights(CHANNELS))) for _ in range(size - 1)]


def concat(m: Maker, size: int) -> list[Value]:
    """One operator that reads the results of all others."""
    return [m.put(Concatenation(*leaves(m, size - 1), axis=3))]


def branches(m: Maker, size: int) -> list[Value]:
    """A convolution in NCHW, an activation behind it, side by side on one input."""
    return [
        m.put(Transpose(m.put(Relu(m.conv(m.put(Transpose(m.x, m.constant(NHWC)))))), m.constant(NCHW)))
        for _ in range(size // 4)
    ]


def constant(m: Maker, size: int) -> list[Value]:
    """A chain whose operators all read one constant."""
    shared, value = m.weights(CHANNELS), m.x
    for step in range(size):
        value = m.put((Add if step % 2 else Mul)(value, shared))
    return [value]


SHAPES: dict[str, Callable[[Maker, int], list[Value]]] = {
    "conv": chain(conv),
    "nchw": chain(nchw),
    "elementwise": chain(elementwise),
    "residual": chain(residual),
    "tree": tree,
    "readers": readers,
    "concat": concat,
    "branches": branches,
    "constant": constant,
}


def build(shape: str, size: int) -> Model:
    """A model of about ``size`` operators."""
    maker = Maker()
    maker.graph.outputs = tuple(SHAPES[shape](maker, size))
    return Model([maker.graph], format="circle")
