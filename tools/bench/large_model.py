# SPDX-License-Identifier: Apache-2.0
"""Model files of any size, written without holding their constants in memory.

A chain of fully connected layers with seeded random weights.  One layer is followed by a multiplication and
an addition, which O1 folds into it; all other layers stay unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from circlekit.io.write.encoded_file import Encoded
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import encoded, format_of
from circlekit.ir.array_bytes import CHUNK_BYTES
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.matmul.dense import FullyConnected

DEFAULT_WIDTH = 1024
"""Rows and columns of a layer's weights, which then have 4 MiB."""

MIN_LAYERS = 4
"""The smallest number of layers; a small model gets narrower layers instead of fewer."""

CHANGED_LAYER = 1
"""The index of the layer that O1 changes."""


def make_model(path: Path, size: int, external: bool = False, width: int = DEFAULT_WIDTH) -> int:
    """Write a model of about ``size`` bytes, at least 64 KiB, and return its size in bytes.

    ``width``: rows and columns of each layer; reduced if the model is small.  ``external``: store constant
    data outside of the flatbuffer even if the file is below 2 GiB.  The extension of ``path`` says the
    format; without such an extension it is circle.
    """
    fmt = format_of(path) or "circle"
    while 4 * width * width * MIN_LAYERS > max(size, 1 << 16):
        width //= 2
    model = skeleton(max(MIN_LAYERS, round(size / (4 * width * width))), width)
    file = encoded(model, fmt, limit=0) if external else encoded(model, fmt)
    write_file(path, _pieces(file, width))
    return file.size


def skeleton(layers: int, width: int) -> Model:
    """Return the model; each constant is a different number, broadcast to its shape without taking memory."""
    x = Value("x", f32, (1, width))
    graph = Graph("main", [x])
    numbers = iter(range(1, layers + 3))

    def constant(*shape: int) -> Value:
        number = next(numbers)
        return Value.constant(f"c{number}", np.broadcast_to(np.float32(number), shape))

    for layer in range(layers):
        activation = Activation.NONE if layer == CHANGED_LAYER else Activation.RELU
        x = graph.append(FullyConnected(x, constant(width, width), None, act=activation)).output
        if layer == CHANGED_LAYER:
            x = graph.append(Mul(x, constant(width))).output
            x = graph.append(Add(x, constant(width))).output
    graph.outputs = (x,)
    return Model([graph], format="circle")


def _pieces(file: Encoded, width: int) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the bytes of the file, with random constants in place of those of ``skeleton``.

    Each constant is seeded by its number in ``skeleton``.  The range of the constants keeps the magnitude of
    values the same from one ReLU layer to the next.
    """
    scale = np.float32(math.sqrt(24 / width))
    yield file.skeleton
    at = len(file.skeleton)
    for payload in file.payloads:
        yield payload.gap(at)
        at = payload.end
        random = np.random.default_rng(int(payload.data.array.flat[0]))
        left = len(payload.data) // 4
        while left:
            count = min(left, CHUNK_BYTES // 4)
            numbers = random.random(count, np.float32)
            numbers -= 0.5
            numbers *= scale
            yield numbers.data.cast("B")
            left -= count
