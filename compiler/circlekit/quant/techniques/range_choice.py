# SPDX-License-Identifier: Apache-2.0
"""Choose the range estimator of each tensor by the noise on samples from which it got no numbers.

A narrow range rounds finely but clips; how much it clips of other samples can only be seen on other samples.
So for each tensor every estimator gets the samples without a part, and the noise of rounding and clipping
together is counted on the histogram of this part.  Where the reader saturates (SOFTMAX, LOGISTIC, TANH:
operators whose results have fixed scales), large numbers matter little: there the noise is that of the
reader's result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from circlekit.interp.evaluate import evaluate
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.core import Op
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration import Calibration, TensorStatistics
from circlekit.quant.calibration.histogram import Histogram
from circlekit.quant.calibration.ranges import Range, estimate_range, min_max, mse
from circlekit.quant.parameters import asymmetric, symmetric

LARGEST_NOISE_SHARE = 0.98
"""Another estimator than the first is chosen if it lowers the noise of a tensor to less than this share."""

SHRINKAGES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2)
"""Parts of the range that are tried for operands of operators that saturate."""

Estimators = Mapping[str, Callable[[TensorStatistics], Range]]


def estimators(first: str, bits: int) -> Estimators:
    """Return what is tried for each tensor; ``first``: the name of the estimator that is kept by default."""

    def widened(factor: float) -> Callable[[TensorStatistics], Range]:
        def estimate(statistics: TensorStatistics) -> Range:
            low, high = estimate_range(statistics, first)
            return low * factor, high * factor

        return estimate

    return {
        first: widened(1.0),
        f"{first} times 1.1": widened(1.1),
        f"{first} times 1.25": widened(1.25),
        "mse": lambda statistics: mse(statistics, bits, steps=40),
    }


def chosen_estimators(parts: Sequence[Calibration], first: str, bits: int) -> list[dict[str, str]]:
    """Return the best estimator of each tensor, for each graph; ``parts``: of disjoint samples."""
    tried = estimators(first, bits)
    found: list[dict[str, str]] = []
    for index, graph in enumerate(parts[0].graphs):
        names: dict[str, str] = {}
        for name in graph:
            statistics = [part.graphs[index][name] for part in parts]
            if any(s.histogram is None or s.min is None for s in statistics):
                continue  # computed in some samples only
            noise = _noise_of(statistics, tried, bits)
            best = min(noise, key=lambda n: noise[n])
            names[name] = best if noise[best] < LARGEST_NOISE_SHARE * noise[first] else first
        found.append(names)
    return found


def _noise_of(parts: Sequence[TensorStatistics], tried: Estimators, bits: int) -> dict[str, float]:
    total = dict.fromkeys(tried, 0.0)
    for index, held in enumerate(parts):
        others = merged([part for i, part in enumerate(parts) if i != index])
        assert held.histogram is not None  # the caller has looked
        for name, estimate in tried.items():
            total[name] += noise_power(held.histogram, estimate(others), bits)
    return total


def noise_power(histogram: Histogram, ends: Range, bits: int) -> float:
    """Return the sum of the squared errors of the numbers when they are rounded and clipped to a range."""
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    centers = histogram.centers
    clipped = np.clip(centers, low, high)
    inside = float(histogram.counts[clipped == centers].sum())
    outside = float((histogram.counts * np.square(centers - clipped)).sum())
    return inside * float((high - low) / (2**bits - 1)) ** 2 / 12 + outside


def merged(parts: Sequence[TensorStatistics]) -> TensorStatistics:
    """Return the statistics of several parts of the samples together, without those of channels."""
    out = TensorStatistics()
    for part in parts:
        out.count += part.count
        out.minima += part.minima
        out.maxima += part.maxima
        if part.min is not None and part.max is not None:
            out.min = part.min if out.min is None else min(out.min, part.min)
            out.max = part.max if out.max is None else max(out.max, part.max)
        if part.histogram is not None:
            out.histogram = part.histogram if out.histogram is None else out.histogram.merged(part.histogram)
    return out


def merged_calibrations(parts: Sequence[Calibration]) -> Calibration:
    """Return the calibration on all samples of ``parts``."""
    graphs = [
        {name: merged([part.graphs[index][name] for part in parts]) for name in graph}
        for index, graph in enumerate(parts[0].graphs)
    ]
    return Calibration(graphs, sum(part.samples for part in parts))


def saturated_ranges(
    model: Model, samples: Sequence[Sequence[Array]], calibration: Calibration, dtype: DType
) -> dict[str, Range]:
    """Return narrower ranges for operands of operators that saturate, where these help."""
    wanted = {name: op for name, op in _saturating(model, dtype) if name in calibration.main}
    seen: dict[str, list[Array]] = {name: [] for name in wanted}
    if not wanted:
        return {}

    def on_value(name: str, array: Array) -> None:
        if name in seen:
            seen[name].append(array.copy())

    interpreter = Interpreter(model)
    for sample in samples:
        interpreter.run(sample, on_value=on_value)
    found = {}
    for name, op in wanted.items():
        low, high = min_max(calibration[name])
        noise = {part: _noise_after(op, seen[name], low * part, high * part, dtype) for part in SHRINKAGES}
        best = min(noise, key=lambda part: noise[part])
        if noise[best] < LARGEST_NOISE_SHARE * noise[1.0]:
            found[name] = low * best, high * best
    return found


def _saturating(model: Model, dtype: DType) -> Iterator[tuple[str, Op]]:
    for op in model.main:
        rule, value = op.quantization_rule, op.inputs[0] if op.inputs else None
        if rule is None or dtype not in rule.fixed or value is None or len(op.inputs) != 1:
            continue
        if value.use_count == 1 and not value.is_const and not model.main.is_input(value):
            yield value.name, op


def _noise_after(op: Op, arrays: Sequence[Array], low: float, high: float, dtype: DType) -> float:
    """Return the squared error of the results of ``op`` when its operand is quantized to a range."""
    scale, zero_point = (asymmetric if dtype.bits == 8 else symmetric)(low, high, dtype)
    smallest, largest = dtype.limits
    noise = 0.0
    for array in arrays:
        steps = np.clip(np.rint(array / np.float32(scale)), smallest - zero_point, largest - zero_point)
        rounded = np.asarray(steps * np.float32(scale), np.float32)
        wanted, actual = (evaluate(op, [a])[0].astype(np.float64) for a in (array, rounded))
        noise += float(np.square(wanted - actual).sum())
    return noise
