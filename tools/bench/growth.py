# SPDX-License-Identifier: Apache-2.0
"""How the time of load, O1 and save grows with the number of operators.

    python tools/bench/growth.py [--sizes 10000 20000] [--chains conv nchw ...]

For each kind of chain and each size, one run in this process; the figures to look at are the ratios of a
row to the one before it (twice the operators should take about twice the time), and the share of each step.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import circlekit
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Padding
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.activation import LeakyRelu, Relu, Tanh
from circlekit.ops.conv import Conv2D
from circlekit.ops.elementwise import Add, Mul
from circlekit.ops.shape import Transpose

CHANNELS = 4
NHWC, NCHW = np.array([0, 2, 3, 1], np.int32), np.array([0, 3, 1, 2], np.int32)


class Maker:
    """Adds operators with seeded constants to a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.random = np.random.default_rng(0)

    def put(self, op: Op) -> Value:
        return self.graph.append(op).output

    def weights(self, *shape: int) -> Value:
        array = self.random.uniform(0.1, 0.5, shape).astype(np.float32)
        return Value.constant(self.graph.unique_name("c"), array)

    def constant(self, array: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> Value:
        return Value.constant(self.graph.unique_name("p"), array)


def conv(m: Maker, x: Value, step: int) -> Value:
    """Conv, Mul, Add, Relu in NHWC: everything fuses."""
    x = m.put(Conv2D(x, m.weights(CHANNELS, 1, 1, CHANNELS), m.weights(CHANNELS), padding=Padding.SAME))
    x = m.put(Mul(x, m.weights(CHANNELS)))
    x = m.put(Add(x, m.weights(CHANNELS)))
    return m.put(Relu(x))


def nchw(m: Maker, x: Value, step: int) -> Value:
    """The same as a PyTorch exporter writes it: transposes around each convolution."""
    x = m.put(Transpose(x, m.constant(NHWC)))
    x = m.put(Conv2D(x, m.weights(CHANNELS, 1, 1, CHANNELS), m.weights(CHANNELS), padding=Padding.SAME))
    x = m.put(Transpose(x, m.constant(NCHW)))
    x = m.put(Mul(x, m.weights(CHANNELS, 1, 1)))
    return m.put(Add(x, m.weights(CHANNELS, 1, 1)))


def elementwise(m: Maker, x: Value, step: int) -> Value:
    """Nothing to fuse."""
    return m.put(Tanh(x) if step % 2 else LeakyRelu(x, alpha=0.1))


def residual(m: Maker, x: Value, step: int) -> Value:
    """Two readers for every value."""
    return m.put(Add(x, m.put(Tanh(x))))


CHAINS: dict[str, Callable[[Maker, Value, int], Value]] = {
    "conv": conv,
    "nchw": nchw,
    "elementwise": elementwise,
    "residual": residual,
}


def chain(kind: str, size: int) -> Model:
    """A model of at least ``size`` operators."""
    x = Value("x", f32, (1, CHANNELS, CHANNELS, CHANNELS))
    graph = Graph("main", [x])
    maker = Maker(graph)
    value, step = x, 0
    while len(graph) < size:
        value, step = CHAINS[kind](maker, value, step), step + 1
    graph.outputs = (value,)
    return Model([graph], format="circle")


def measure(kind: str, size: int, folder: Path) -> dict[str, float]:
    """Seconds of each step."""
    source, target = folder / "in.circle", folder / "out.circle"
    circlekit.save(chain(kind, size), source)
    times: dict[str, float] = {}
    start = time.perf_counter()
    model = circlekit.load(source)
    times["load"] = time.perf_counter() - start
    start = time.perf_counter()
    circlekit.optimize(model, "O1")
    times["O1"] = time.perf_counter() - start
    start = time.perf_counter()
    circlekit.save(model, target)
    times["save"] = time.perf_counter() - start
    times["operators"] = len(circlekit.load(target).main)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 10_000, 20_000])
    parser.add_argument("--chains", nargs="+", choices=sorted(CHAINS), default=list(CHAINS))
    arguments = parser.parse_args()
    steps = ("operators", "after", "load", "O1", "save", "sum", "ratio")
    print(f"{'chain':12}" + "".join(f"{name:>10}" for name in steps))
    with tempfile.TemporaryDirectory() as folder:
        for kind in arguments.chains:
            before = None
            for size in arguments.sizes:
                times = measure(kind, size, Path(folder))
                total = times["load"] + times["O1"] + times["save"]
                ratio = f"{total / before:6.2f}" if before else ""
                figures = (times["load"], times["O1"], times["save"], total)
                print(
                    f"{kind:12}{size:>10}{times['operators']:>10.0f}"
                    + "".join(f"{seconds:>10.2f}" for seconds in figures)
                    + f"{ratio:>10}"
                )
                before = total


if __name__ == "__main__":
    main()
