# SPDX-License-Identifier: Apache-2.0
"""Models of any size, written without holding them.

    python tools/bench/large.py PATH BYTES [--far]

A chain of fully connected layers with seeded random weights; behind one of them a product and a sum that O1
takes into it, so that all layers but one stay as they are.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from circlekit.io.write.file_layout import Encoded
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import encoded, format_of
from circlekit.ir.array_bytes import CHUNK
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.matmul.dense import FullyConnected

WIDTH = 1024
"""Of large models by default; their layers have weights of 4 MiB."""

LAYERS = 4
"""At least; the layers of small models are smaller."""

TOUCHED = 1
"""The layer that O1 changes."""


def make_model(path: Path, size: int, far: bool | None = None, seed: int = 0, width: int = WIDTH) -> int:
    """Write a model of about ``size`` bytes, at least 64 KiB; returns its size in bytes.

    ``width``: of its layers, whose weights are of its square; less where the model is small.
    ``far``: constant data by position instead of inline; None where it has to be, beyond 2 GiB.  The
    extension of ``path`` says the format.
    """
    fmt = format_of(path) or "circle"
    while 4 * width * width * LAYERS > max(size, 1 << 16):
        width //= 2
    model = skeleton(max(LAYERS, round(size / (4 * width * width))), width)
    file = encoded(model, fmt, 0) if far else encoded(model, fmt)
    write_file(path, _pieces(file, seed, width))
    return file.size


def skeleton(layers: int, width: int) -> Model:
    """The model, with constants that take no memory: one number, another for each."""
    x = Value("x", f32, (1, width))
    graph = Graph("main", [x])
    numbers = iter(range(1, layers + 3))

    def constant(*shape: int) -> Value:
        number = next(numbers)
        return Value.constant(f"c{number}", np.broadcast_to(np.float32(number), shape))

    for layer in range(layers):
        activation = Activation.NONE if layer == TOUCHED else Activation.RELU
        x = graph.append(FullyConnected(x, constant(width, width), None, act=activation)).output
        if layer == TOUCHED:
            x = graph.append(Mul(x, constant(width))).output
            x = graph.append(Add(x, constant(width))).output
    graph.outputs = (x,)
    return Model([graph], format="circle")


def _pieces(file: Encoded, seed: int, width: int) -> Iterator[bytes | bytearray | memoryview]:
    """The file with random numbers, those of each constant seeded by the number in it.

    Their spread is such that values neither grow nor fade on their way through ReLU layers.
    """
    scale = np.float32(math.sqrt(24 / width))
    yield file.skeleton
    at = len(file.skeleton)
    for payload in file.payloads:
        yield payload.gap(at)
        at = payload.end
        random = np.random.default_rng((seed, int(payload.data.array.flat[0])))
        left = len(payload.data) // 4
        while left:
            count = min(left, CHUNK // 4)
            numbers = random.random(count, np.float32)
            numbers -= 0.5
            numbers *= scale
            yield numbers.data.cast("B")
            left -= count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("size", type=int, help="bytes")
    parser.add_argument("--far", action="store_true", help="constant data by position, as beyond 2 GiB")
    arguments = parser.parse_args()
    print(f"{make_model(arguments.path, arguments.size, arguments.far or None)} bytes")


if __name__ == "__main__":
    main()
