# SPDX-License-Identifier: Apache-2.0
"""Make the chart of live activation bytes over the operators of one or two models, as SVG paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from circlekit.ir.resources.byte_sizes import format_size

WIDTH, HEIGHT = 1000, 220
"""The size of the chart in units of the drawing, which is stretched to the width of the page."""

GRID_LINES = 4
"""The number of horizontal lines of the chart above the line at 0 bytes."""


def arena_chart(series: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the chart of ``series``, which has for each model the live bytes at each operator.

    The keys of the result: ``width``, ``height``; ``paths``, an SVG path for each model with a step for each
    operator; ``grid``, the text of each horizontal line and its distance from the top; ``peaks``, the place
    of the largest step of each model, in percent of the chart from the left and from the top.
    """
    top = max([1, *(size for each in series for size in each)])
    shares = [number / GRID_LINES for number in range(GRID_LINES + 1)]
    lines = [{"y": HEIGHT * (1 - share), "text": format_size(top * share)} for share in shares]
    peaks = []
    for each in series:
        peak = max(each, default=0)
        position = each.index(peak) if each else 0
        peaks.append({"x": 100 * (position + 0.5) / (len(each) or 1), "y": 100 * (1 - peak / top)})
    paths = [_steps(each, top) for each in series]
    return {"width": WIDTH, "height": HEIGHT, "paths": paths, "grid": lines, "peaks": peaks}


def _steps(sizes: Sequence[int], top: int) -> str:
    """Return the path of one model; ``top``: the bytes at the top of the chart."""
    if not sizes:
        return ""
    width = WIDTH / len(sizes)
    parts = [f"M0 {HEIGHT}"]
    for index, size in enumerate(sizes):
        parts.append(f"V{HEIGHT * (1 - size / top):.1f}H{(index + 1) * width:.1f}")
    return "".join([*parts, f"V{HEIGHT}Z"])
