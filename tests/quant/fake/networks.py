# SPDX-License-Identifier: Apache-2.0
"""Small networks for fake quantization, and functions that return lines of their text."""

from __future__ import annotations

import numpy as np

import circlekit

# data for %x, the input of ``network``
X = np.linspace(-1, 1, 2 * 4 * 4 * 3, dtype=np.float32).reshape(2, 4, 4, 3)


def network(body: str, inputs: str = "%x: f32[2,4,4,3]", outputs: str = "%z") -> circlekit.Model:
    """Return a model of the lines ``body``.  Its constants: %w and %v, weights of 3 channels; %b, a bias."""
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(3, 1, 1, 3)).round(3).tolist() for _ in range(2)]
    return circlekit.parse(f"""
graph main({inputs}) -> {outputs} {{
  %w = const f32[3,1,1,3] {weights[0]}
  %v = const f32[3,1,1,3] {weights[1]}
  %b = const f32[3] [0.1, -0.2, 0.3]
{body}
}}
""")


def conv(result: str, source: str = "%x", weights: str = "%w", act: str = "NONE") -> str:
    """Return a line that computes ``result`` by a Conv2D."""
    return f"  {result} = Conv2D({source}, {weights}, %b) {{act: {act}}} : f32[2,4,4,3]\n"


def call(result: str, expression: str, act: str = "") -> str:
    """Return a line that computes ``result`` by ``expression``, an operator with operands."""
    return f"  {result} = {expression} {f'{{act: {act}}}' if act else ''} : f32[2,4,4,3]\n"
