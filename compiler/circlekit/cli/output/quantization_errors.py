# SPDX-License-Identifier: Apache-2.0
"""Write the errors of a quantized model as text and as JSON types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from circlekit.equivalence.judgement.error_metrics import TOP, ErrorMetrics
from circlekit.equivalence.judgement.judge import Judgement
from circlekit.equivalence.judgement.tables import Rows, layer_rows, output_rows
from circlekit.ir.text.columns import format_columns, wrapped

MAX_PRINTED_LAYERS = 40


def judgement_lines(judgement: Judgement, columns: int, per_layer: bool) -> Iterator[str]:
    """Yield the table of the outputs, the table of the operators (only if ``per_layer``), and the findings.

    ``columns``: the width at which findings are wrapped; tables are not wrapped.
    """
    yield "quantization error of the outputs"
    yield from _aligned(output_rows(judgement), left=0)
    if per_layer and judgement.layers:
        yield ""
        yield "operators, by the error that each adds to its result"
        yield from _aligned(layer_rows(judgement, MAX_PRINTED_LAYERS), left=1)
        more = len(judgement.layers) - MAX_PRINTED_LAYERS
        if more > 0:
            yield f"... and {more} more; --csv and --json list all"
    for finding in judgement.findings:
        yield from wrapped(f"finding: {finding}", columns)


def _aligned(rows: Rows, left: int) -> Iterator[str]:
    """Yield the lines of a table; the last column has names, which may be long and are not aligned.

    ``left``: the number of columns that are aligned to the left.
    """
    names = [rows[0][-1], *(f"%{row[-1]}" for row in rows[1:])]
    lines = format_columns([row[:-1] for row in rows], left).splitlines()
    yield from (f"{line}  {name}" for line, name in zip(lines, names, strict=True))


def judgement_document(judgement: Judgement, per_layer: bool) -> dict[str, Any]:
    """Return ``judgement`` as JSON types, with None for a number that is unknown or not finite."""
    document: dict[str, Any] = {
        "outputs": [{"name": name, **_metrics(m)} for name, m in judgement.outputs.items()],
        "findings": [vars(finding) for finding in judgement.findings],
    }
    if per_layer:
        document["layers"] = [
            {
                "name": layer.value.name,
                "operator": layer.op.code,
                "added_share": layer.added_share,
                "scale": layer.scale,
                "clipped": layer.clipped,
                **_metrics(layer.error),
            }
            for layer in judgement.by_added_error()
        ]
    return document


def _metrics(metrics: ErrorMetrics) -> dict[str, float | None]:
    numbers = {
        "sqnr_db": metrics.sqnr,
        "cosine": metrics.cosine,
        "mse": metrics.mse,
        "mae": metrics.mae,
        "mpeir": metrics.mpeir,
        **{f"top_{k}": metrics.top(k) for k in TOP},
    }
    return {name: x if x is not None and math.isfinite(x) else None for name, x in numbers.items()}
