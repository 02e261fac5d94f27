# SPDX-License-Identifier: Apache-2.0
"""Compare the outputs of two models by ONE's metrics; make the lines that ONE's circle-eval-diff prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from circlekit.errors import ModelError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration.samples import checked_samples
from circlekit.quant.one.sample_data import samples_of


def _peak_to_interval(first: Array, second: Array) -> float:
    """Return the largest difference divided by the range (largest - smallest element) of ``first``.

    A range of 0 counts as 1.
    """
    interval = float(np.ptp(first))
    return float(np.abs(first - second).max()) / (interval or 1.0)


def _relative(first: Array, second: Array) -> float:
    """Return the mean of |first - second| / |first| over all elements, in percent.

    It is inf or NaN if an element of ``first`` is 0.
    """
    return float(np.abs((first - second) / first).mean()) * 100


def top_match(count: int) -> Callable[[Array, Array], float]:
    """Return a metric of two arrays: how far they agree on where their ``count`` largest elements are.

    The metric is the share of these positions, 0 to 1, that both arrays have in common.
    """

    def shared(first: Array, second: Array) -> float:
        """Return the share for two arrays."""
        a, b = (
            set(np.argsort(-array.reshape(-1), kind="stable")[:count].tolist()) for array in (first, second)
        )
        return len(a & b) / count

    return shared


METRICS: dict[str, tuple[str, str, Callable[[Array, Array], float]]] = {
    "mae": ("Mean Absolute Error (MAE)", "MAE for {} is {}", lambda a, b: float(np.abs(a - b).mean())),
    "mape": ("Mean Absolute Percentage Error (MAPE)", "MAPE for {} is {}%", _relative),
    "mpeir": ("Mean Peak Error to Interval Ratio (MPEIR)", "MPEIR for {} is {}", _peak_to_interval),
    "top1_match": (
        "Ratio of Matched Indices between Top-1 results of the models",
        "Mean Top-1 match ratio for {} is {}",
        top_match(1),
    ),
    "top5_match": (
        "Ratio of Matched Indices between Top-5 results of the models",
        "Mean Top-5 match ratio for {} is {}",
        top_match(5),
    ),
    "mse": ("Mean Squared Error (MSE)", "MSE for {} is {}", lambda a, b: float(np.square(a - b).mean())),
}
"""{metric: (heading, template of a line, formula)}.

A formula takes an output of the first model and the same output of the second model, both float64.  The line
has the name of an output, and the mean of the formula over the samples.
"""

LEAST_ELEMENTS = {"top1_match": 1, "top5_match": 5}
"""{metric: the least number of elements that it needs}; 1 for other metrics.

A metric leaves out outputs with fewer elements.
"""

NO_REAL_NUMBERS = (DType.COMPLEX64, DType.COMPLEX128, DType.STRING, DType.RESOURCE, DType.VARIANT)
"""The dtypes of outputs for which there are no metrics."""

OutputRecorder = Callable[[int, list[Array], list[Array]], None]
"""A function that gets, for each sample, its number from 0 and the outputs of the first and second model."""


def evaluate(
    first: Model, second: Model, data: str | None, form: str, metrics: Sequence[str]
) -> Iterator[str]:
    """Run both models on the same samples; yield the lines that circle-eval-diff prints.

    The outputs of ``first`` are the reference.  ``data``, ``form``: the samples and their format, see
    ``samples_of``.  ``metrics``: keys of METRICS.  Raise the errors of ``samples_of``, ``checked_samples``
    and ``compare_outputs``.
    """
    samples = checked_samples(first, samples_of(first, data, form))
    yield from compare_outputs(first, second, ((sample, sample) for sample in samples), metrics)


def compare_outputs(
    first: Model,
    second: Model,
    samples: Iterable[tuple[Sequence[Array], Sequence[Array]]],
    metrics: Sequence[str],
    recorder: OutputRecorder | None = None,
) -> Iterator[str]:
    """Run both models on ``samples``; yield the lines that circle-eval-diff prints.

    The outputs of ``first`` are the reference.
    ``samples``: one or more pairs (inputs of the first model, inputs of the second model), arrays in the
    order of the graph's inputs.
    ``metrics``: keys of METRICS.  ``recorder``: is called with the outputs for each sample.
    Raise ModelError if the models differ in the number or the shapes of their outputs.  If there are metrics,
    also raise ModelError for different dtypes, and for dtypes in NO_REAL_NUMBERS.  Raise the errors of
    ``Interpreter.run``.
    """
    outputs = first.main.outputs
    if len(outputs) != len(second.main.outputs):
        raise ModelError("Models have different output counts")
    for value, other in zip(outputs, second.main.outputs, strict=True):
        if metrics and value.dtype is not other.dtype:
            names = f"{value.name}, {other.name}"
            raise ModelError(f"Output dtype mismatch ({names}): {value.dtype.short} and {other.dtype.short}")
        if metrics and value.dtype in NO_REAL_NUMBERS:
            raise ModelError(f"%{value.name}: expected real numbers for metrics, got {value.dtype.short}")
    sums: dict[str, list[float]] = {metric: [0.0] * len(outputs) for metric in metrics}
    skipped: set[tuple[str, int]] = set()
    runs = Interpreter(first), Interpreter(second)
    count = 0
    for pair in samples:
        for run in runs:
            run.reset()  # variables get their initial values
        left, right = (run.run(list(sample)) for run, sample in zip(runs, pair, strict=True))
        _check_shapes(first, second, left, right)
        if recorder is not None:
            recorder(count, left, right)
        yield f"Evaluating {count}'th data"
        count += 1
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            for metric in metrics:
                least = LEAST_ELEMENTS.get(metric, 1)
                if a.size >= least:
                    with np.errstate(all="ignore"):  # outputs may be infinite, or 0 for mape
                        number = METRICS[metric][2](a.astype(np.float64), b.astype(np.float64))
                    sums[metric][index] += number
                elif (metric, index) not in skipped:
                    skipped.add((metric, index))
                    # spelled as in ONE
                    title = f"Top-{least}metric" if metric in LEAST_ELEMENTS else METRICS[metric][0]
                    begin = f"{title} for {outputs[index].name} is ignored"
                    yield f"{begin}, because it has elements less than {least}"
    for metric in metrics:
        heading, line, _ = METRICS[metric]
        yield heading
        for index, output in enumerate(outputs):
            if (metric, index) not in skipped:
                yield line.format(output.name, f"{sums[metric][index] / max(count, 1):g}")


def _check_shapes(first: Model, second: Model, left: Sequence[Array], right: Sequence[Array]) -> None:
    """Raise ModelError if the shape of an output differs between ``left`` and ``right``.

    ``left``, ``right``: the outputs of ``first`` and ``second``.
    """
    outputs = zip(first.main.outputs, second.main.outputs, left, right, strict=True)
    for value, other, a, b in outputs:
        if a.shape != b.shape:
            shapes = f"{list(a.shape)} and {list(b.shape)}"
            raise ModelError(f"Output shape mismatch ({value.name}, {other.name}): {shapes}")
