# SPDX-License-Identifier: Apache-2.0
"""ONE's metrics of two models that should compute the same, in the lines that circle-eval-diff prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from circlekit.errors import ModelError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration.samples import checked_samples
from circlekit.quant.one.sample_data import samples_of


def _peak_to_interval(first: Array, second: Array) -> float:
    interval = float(np.ptp(first))
    return float(np.abs(first - second).max()) / (interval or 1.0)


def _relative(first: Array, second: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.abs((first - second) / first).mean()) * 100


def _top(count: int) -> Callable[[Array, Array], float]:
    """Return the share of the ``count`` largest elements that both arrays have in common."""

    def shared(first: Array, second: Array) -> float:
        best = (
            set(np.argsort(-array.reshape(-1), kind="stable")[:count].tolist()) for array in (first, second)
        )
        a, b = best
        return len(a & b) / count

    return shared


METRICS: dict[str, tuple[str, str, Callable[[Array, Array], float]]] = {
    "mae": ("Mean Absolute Error (MAE)", "MAE for {} is {}", lambda a, b: float(np.abs(a - b).mean())),
    "mape": ("Mean Absolute Percentage Error (MAPE)", "MAPE for {} is {}%", _relative),
    "mpeir": ("Mean Peak Error to Interval Ratio (MPEIR)", "MPEIR for {} is {}", _peak_to_interval),
    "top1_match": (
        "Ratio of Matched Indices between Top-1 results of the models",
        "Mean Top-1 match ratio for {} is {}",
        _top(1),
    ),
    "top5_match": (
        "Ratio of Matched Indices between Top-5 results of the models",
        "Mean Top-5 match ratio for {} is {}",
        _top(5),
    ),
    "mse": ("Mean Squared Error (MSE)", "MSE for {} is {}", lambda a, b: float(np.square(a - b).mean())),
}
"""The heading, the line and the formula of each metric; the mean over the samples counts."""


def evaluate(
    first: Model, second: Model, data: str | None, form: str, metrics: Sequence[str]
) -> Iterator[str]:
    """Yield lines with the ``metrics`` of the outputs of ``second`` against those of ``first``.

    ``data``, ``form``: the samples and their format; None for seeded random ones.
    """
    sums: dict[str, list[float]] = {metric: [0.0] * len(first.main.outputs) for metric in metrics}
    runs = Interpreter(first), Interpreter(second)
    count = 0
    for sample in checked_samples(first, samples_of(first, data, form)):
        count += 1
        results = []
        for run in runs:
            run.reset()
            results.append([np.asarray(array, np.float64) for array in run.run(sample)])
        for index, (a, b) in enumerate(zip(*results, strict=True)):
            if a.shape != b.shape:
                raise ModelError(f"output {index} has shape {list(a.shape)} and {list(b.shape)}")
            for metric in metrics:
                sums[metric][index] += METRICS[metric][2](a, b)
    for metric in metrics:
        heading, line, _ = METRICS[metric]
        yield heading
        for value, total in zip(first.main.outputs, sums[metric], strict=True):
            yield line.format(value.name, f"{total / max(count, 1):g}")
