# SPDX-License-Identifier: Apache-2.0
"""Make the chart of live activation bytes over the operators of one or two models, as SVG paths.

Live bytes of an operator: the size of all activations and scratch buffers that are needed while it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from circlekit.ir.resources.byte_sizes import format_size

WIDTH, HEIGHT = 1000, 220
"""The size of the chart in units of the drawing, which is stretched to the width of the page."""

GRID_LINES = 4
"""The number of horizontal lines in the chart, without the line at 0 bytes."""


def arena_chart(series: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the chart of ``series``: for each model, the live bytes of each operator.

    The keys of the result:

    - ``width``, ``height``: of the chart, in units of the drawing;
    - ``paths``: for each model, an SVG path with a step for each operator, as high as its live bytes;
    - ``grid``: for each horizontal line its ``text`` and its distance ``y`` from the top, in units;
    - ``peaks``: for each model, the middle of its highest step (the first of several equally high steps):
      ``x`` from the left and ``y`` from the top, in percent of the chart.
    """
    top = max([1, *(size for sizes in series for size in sizes)])  # bytes at the top of the chart
    shares = [number / GRID_LINES for number in range(GRID_LINES + 1)]  # height of each line / top
    lines = [{"y": HEIGHT * (1 - share), "text": format_size(top * share)} for share in shares]
    peaks = []
    for sizes in series:
        peak = max(sizes, default=0)
        position = sizes.index(peak) if sizes else 0
        peaks.append({"x": 100 * (position + 0.5) / (len(sizes) or 1), "y": 100 * (1 - peak / top)})
    paths = [_steps(sizes, top) for sizes in series]
    return {"width": WIDTH, "height": HEIGHT, "paths": paths, "grid": lines, "peaks": peaks}


def _steps(sizes: Sequence[int], top: int) -> str:
    """Return the SVG path of one model, "" for no operators.

    ``sizes``: the live bytes of each operator.  ``top``: the bytes at the top of the chart.
    """
    if not sizes:
        return ""
    width = WIDTH / len(sizes)
    # M moves to a point, V and H draw a vertical and a horizontal line, Z closes the path
    parts = [f"M0 {HEIGHT}"]
    for index, size in enumerate(sizes):
        parts.append(f"V{HEIGHT * (1 - size / top):.1f}H{(index + 1) * width:.1f}")
    return "".join([*parts, f"V{HEIGHT}Z"])
