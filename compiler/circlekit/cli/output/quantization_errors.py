# SPDX-License-Identifier: Apache-2.0
"""Show a ``Judgement``, the errors of a quantized model, as lines of text or as a document for JSON.

A judgement has metrics of each output against the float model, the error of each layer (an operator and its
result), and findings (sentences about probable faults, such as clipped elements).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from circlekit.equivalence.judgement.error_metrics import TOP, ErrorMetrics
from circlekit.equivalence.judgement.judge import Judgement
from circlekit.equivalence.judgement.judgement_tables import Rows, layer_rows, output_rows
from circlekit.errors import counted
from circlekit.ir.text.columns import format_columns, wrapped

MAX_PRINTED_LAYERS = 40
"""The table of operators has at most this many rows."""


def judgement_lines(judgement: Judgement, columns: int, per_layer: bool) -> Iterator[str]:
    """Yield the table of the outputs, the table of the operators, and the findings.

    ``per_layer``: whether to show the table of the operators.
    ``columns``: the width in characters at which findings are wrapped; tables are not wrapped.
    """
    yield "quantization error of the outputs"
    yield from _aligned(output_rows(judgement), left=0)
    if per_layer and judgement.layers:
        yield ""
        yield "operators, by the error that each adds to its result"
        yield from _aligned(layer_rows(judgement, MAX_PRINTED_LAYERS), left=1)
        more = len(judgement.layers) - MAX_PRINTED_LAYERS
        if more > 0:
            yield f"... and {counted(more, 'more operator')}; --csv and --json list all"
    for finding in judgement.findings:
        yield from wrapped(f"finding: {finding}", columns)


def _aligned(rows: Rows, left: int) -> Iterator[str]:
    """Yield the lines of a table.

    The last cell of a row is the name of a value.  Names may be long, so they stand unaligned at the ends of
    the lines, with ``%`` before each.  ``left``: the number of columns that are aligned to the left.
    """
    header = rows[0]
    names = [header[-1], *(f"%{row[-1]}" for row in rows[1:])]
    lines = format_columns([row[:-1] for row in rows], left).splitlines()
    yield from (f"{line}  {name}" for line, name in zip(lines, names, strict=True))


def judgement_document(judgement: Judgement, per_layer: bool) -> dict[str, Any]:
    """Return ``judgement`` as a dict for JSON; docs/guide/data.md describes the keys.

    ``per_layer``: whether to list the layers, the largest added error first.
    """
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
    """Return the metrics by their keys in the document; None for a metric that is unknown or not finite."""
    numbers = {
        "sqnr_db": metrics.sqnr,
        "cosine": metrics.cosine,
        "mse": metrics.mse,
        "mae": metrics.mae,
        "mpeir": metrics.mpeir,
        **{f"top_{k}": metrics.top(k) for k in TOP},
    }
    return {name: x if x is not None and math.isfinite(x) else None for name, x in numbers.items()}
