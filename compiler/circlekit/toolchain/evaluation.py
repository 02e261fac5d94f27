# SPDX-License-Identifier: Apache-2.0
"""ONE's metrics of two models that should compute the same, in the lines that circle-eval-diff prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

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


LEAST_ELEMENTS = {"top1_match": 1, "top5_match": 5}
"""Outputs with fewer elements are left out of a metric."""

Record = Callable[[int, list[Array], list[Array]], None]
"""Called with the number of each sample and the outputs of both models."""


def evaluate(
    first: Model, second: Model, data: str | None, form: str, metrics: Sequence[str]
) -> Iterator[str]:
    """Yield lines with the ``metrics`` of the outputs of ``second`` against those of ``first``.

    ``data``, ``form``: the samples and their format; None for seeded random ones.
    """
    samples = checked_samples(first, samples_of(first, data, form))
    yield from compare_outputs(first, second, ((sample, sample) for sample in samples), metrics)


def compare_outputs(
    first: Model,
    second: Model,
    samples: Iterable[tuple[Sequence[Array], Sequence[Array]]],
    metrics: Sequence[str],
    record: Record | None = None,
) -> Iterator[str]:
    """Yield lines with the ``metrics`` of the outputs; ``samples``: the inputs of both models.

    Raise ModelError if the numbers or the shapes of the outputs differ.
    """
    outputs = first.main.outputs
    if len(outputs) != len(second.main.outputs):
        raise ModelError("Models have different output counts")
    sums: dict[str, list[float]] = {metric: [0.0] * len(outputs) for metric in metrics}
    skipped: set[tuple[str, int]] = set()
    runs = Interpreter(first), Interpreter(second)
    count = 0
    for pair in samples:
        for run in runs:
            run.reset()
        left, right = (run.run(list(sample)) for run, sample in zip(runs, pair, strict=True))
        if record is not None:
            record(count, left, right)
        count += 1
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            if a.shape != b.shape:
                names = f"({outputs[index].name}, {second.main.outputs[index].name})"
                raise ModelError(f"Output shape mismatch {names}: {list(a.shape)} and {list(b.shape)}")
            for metric in metrics:
                if a.size < LEAST_ELEMENTS.get(metric, 0):
                    skipped.add((metric, index))
                else:
                    sums[metric][index] += METRICS[metric][2](a.astype(np.float64), b.astype(np.float64))
    for metric in metrics:
        heading, line, _ = METRICS[metric]
        yield heading
        for index, (value, total) in enumerate(zip(outputs, sums[metric], strict=True)):
            if (metric, index) not in skipped:
                yield line.format(value.name, f"{total / max(count, 1):g}")
