# SPDX-License-Identifier: Apache-2.0
"""Models and samples for the tests of mixed precision."""

from __future__ import annotations

from typing import Any

import numpy as np

import circlekit
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import plan_model, ranges_of


def random_samples(*shape: int, count: int = 4, seed: int = 7) -> list[list[np.ndarray]]:
    """Return ``count`` samples for a model with one input of ``shape``."""
    rng = np.random.default_rng(seed)
    return [[rng.normal(size=shape).astype(np.float32)] for _ in range(count)]


SAMPLES = random_samples(4, 8)


def chain(spread: float) -> circlekit.Model:
    """Return four fully connected layers; one column of the second has weights ``spread`` times as large."""
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(8, 8)).round(3) for _ in range(4)]
    weights[1][:, 0] *= spread
    lines = [
        f"  %y{i + 1} = FullyConnected(%y{i}, {w.tolist()}, {[0.0] * 8}) : f32[4,8]"
        for i, w in enumerate(weights)
    ]
    return circlekit.parse("graph main(%y0: f32[4,8]) -> %y4 {\n" + "\n".join(lines) + "\n}")


def planned(model: circlekit.Model) -> Plan:
    return plan_model(model, "int8", ranges_of(model, circlekit.calibrate(model, SAMPLES)))


def sqnr(
    model: circlekit.Model, other: circlekit.Model, samples: list[Any] = SAMPLES, index: int = 0
) -> float:
    """Return the SQNR in dB of output ``index`` of ``other``, over all samples."""
    pairs = [(circlekit.run(model, x)[index], circlekit.run(other, x)[index]) for x in samples]
    signal = sum(float(np.square(a).sum()) for a, _ in pairs)
    return float(10 * np.log10(signal / sum(float(np.square(a - b).sum()) for a, b in pairs)))


def spectrogram() -> circlekit.Model:
    """Return layer, square, logarithm, layer: int8 makes small squares equal, but their logarithms differ."""
    rng = np.random.default_rng(7)
    first, last = rng.normal(size=(32, 64)).round(2).tolist(), rng.normal(size=(4, 32)).round(2).tolist()
    return circlekit.parse(f"""
graph main(%x: f32[1,64]) -> %z {{
  %a = FullyConnected(%x, {first}) : f32[1,32]
  %s = Square(%a) : f32[1,32]
  %p = Add(%s, 1.0e-7) : f32[1,32]
  %l = Log(%p) : f32[1,32]
  %z = FullyConnected(%l, {last}) : f32[1,4]
}}
""")
