# SPDX-License-Identifier: Apache-2.0
"""Random chains of operators between two layers, and inputs for them."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np

import circlekit
from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.value import Array

LAYERS = {
    "Conv2D(%x, %{n}w, %{n}b) {{act: {act}}}": "6,2,2,6",
    "Conv2D(%x, %{n}w, %{n}b) {{act: {act}, padding: SAME, stride_h: 2}}": "6,3,1,3",
    "DepthwiseConv2D(%x, %{n}w, %{n}b) {{act: {act}, depth_multiplier: 1}}": "1,2,3,6",
    "TransposeConv([1,4,4,6], %{n}w, %x, %{n}b) {{padding: SAME}}": "6,2,2,6",
    "FullyConnected(%x, %{n}w, %{n}b) {{act: {act}, keep_num_dims: true}}": "6,6",
}
"""Layers on %x [1, H, W, 6], with the shapes of their weights."""

MIDDLE = [
    "Relu(%x)",
    "Relu6(%x)",
    "LeakyRelu(%x) {{alpha: 0.25}}",
    "PRelu(%x, %{n}b)",
    "Mul(%x, %{n}b)",
    "Mul(%{n}b, %x) {{act: RELU}}",
    "Add(%x, %{n}b)",
    "Add(%x, %x) {{act: RELU}}",
    "Sub(%x, %{n}b)",
    "Add(%x, %first)",
    "Mul(%x, %first)",
    "Maximum(%x, %first)",
    "Pad(%x, [[0,0],[1,0],[0,1],[0,0]])",
    "MaxPool2D(%x) {{filter_height: 2, filter_width: 2}}",
    "AveragePool2D(%x) {{filter_height: 2, filter_width: 1, padding: SAME}}",
    "Transpose(%x, [0,2,1,3])",
    "ReverseV2(%x, [3])",
    "Gather(%x, [5,4,3,2,1,0]) {{axis: 3}}",
    "Slice(%x, [0,0,0,0], [-1,-1,-1,-1])",
    "ResizeNearestNeighbor(%x, [4, 4])",
    "Neg(%x)",
    "Tanh(%x)",
    "Mean(%x, [1]) {{keep_dims: true}}",
]
"""Operators on %x and on %first, the result of the first layer; the last dimension stays 6."""

CHAINS = 32
"""The number of chains in a test; the first ``len(MIDDLE)`` have one of MIDDLE each."""


def chain(seed: int) -> Model:
    """Return a layer, up to three of MIDDLE, and a layer, drawn at random.

    If ``seed`` is an index of MIDDLE, the operator after the first layer is ``MIDDLE[seed]``.
    """
    rng = random.Random(seed)
    while True:
        middle = [*MIDDLE[seed : seed + 1], *rng.choices(MIDDLE, k=rng.randint(0, 2))]
        with suppress(CirclekitError):  # the shapes of two operands do not fit: draw again
            return _chained([rng.choice(list(LAYERS)), *middle, rng.choice(list(LAYERS))], rng)


def _chained(bodies: list[str], rng: random.Random) -> Model:
    """Return the chain of ``bodies``, members of LAYERS and MIDDLE, with random activations."""
    lines: list[str] = []
    x = "%x"
    for n, body in enumerate(bodies):
        if body in LAYERS:
            lines.append(f"%{n}w = const f32[{LAYERS[body]}] gaussian(0, 0.5)")
        lines.append(f"%{n}b = const f32[6] gaussian(0.3, 0.5)")
        line = body.format(n=n, act=rng.choice(["NONE", "RELU"]))
        line = line.replace("%x,", f"{x},").replace("%x)", f"{x})").replace("%first", "%r0")
        lines.append(f"%r{n} = {line}")
        x = f"%r{n}"
    return circlekit.parse(f"graph main(%x: f32[1,4,4,6]) -> {x} {{\n" + "\n".join(lines) + "\n}")


def samples(seed: int) -> list[list[Array]]:
    """Return two records for a chain."""
    rng = np.random.default_rng(seed)
    return [[rng.normal(0, 1, (1, 4, 4, 6)).astype(np.float32)] for _ in range(2)]
