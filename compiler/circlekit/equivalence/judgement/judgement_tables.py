# SPDX-License-Identifier: Apache-2.0
"""Make tables of a ``Judgement``, the errors of a quantized model, as rows of text.

The first row is the header, the last column has names.
"""

from __future__ import annotations

import math

from circlekit.equivalence.judgement.error_metrics import TOP, ErrorMetrics
from circlekit.equivalence.judgement.judge import Judgement
from circlekit.equivalence.judgement.layer_errors import LayerError

Rows = list[list[str]]


def output_rows(judgement: Judgement) -> Rows:
    """Return a row for each output."""
    header = ["SQNR dB", "cosine", "MSE", "MAE", "MPEIR", *(f"top-{k}" for k in TOP), "output"]
    return [header, *([*_output_cells(metrics), name] for name, metrics in judgement.outputs.items())]


def layer_rows(judgement: Judgement, limit: int) -> Rows:
    """Return a row for each of the ``limit`` operators that add most error, the largest error first."""
    header = ["operator", "added dB", "SQNR dB", "rmse/scale", "clipped", "result"]
    layers = judgement.by_added_error()[:limit]
    return [header, *([layer.op.code, *_layer_cells(layer), layer.value.name] for layer in layers)]


def _output_cells(metrics: ErrorMetrics) -> list[str]:
    shares = [metrics.top(k) for k in TOP]
    return [
        _decibels(metrics.sqnr),
        "-" if metrics.cosine is None else f"{metrics.cosine:.6f}",
        f"{metrics.mse:.3g}",
        f"{metrics.mae:.3g}",
        "-" if metrics.mpeir is None else f"{metrics.mpeir:.4f}",
        *("-" if share is None else f"{share:.1%}" for share in shares),
    ]


def _layer_cells(layer: LayerError) -> list[str]:
    share, scale = layer.added_share, layer.scale
    return [
        f"{10 * math.log10(share):.1f}" if share else "-",
        _decibels(layer.error.sqnr),
        f"{layer.error.mse**0.5 / scale:.2f}" if scale else "-",
        f"{layer.clipped:.2%}" if layer.clipped else "-",
    ]


def _decibels(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f}"
