# SPDX-License-Identifier: Apache-2.0
"""Make the models and ranges for the settings that ``settings_search`` compares in trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration import Calibration, TensorStatistics, collect
from circlekit.quant.calibration.ranges import FROM_NUMBERS, Range
from circlekit.quant.choose import Ranges
from circlekit.quant.plan import Plan
from circlekit.quant.quantize import ranges_of
from circlekit.quant.techniques.equalization import equalize
from circlekit.quant.techniques.range_choice import chosen_estimators, estimators, merged_calibrations
from circlekit.quant.techniques.reader_ranges import reader_ranges

MakePlan = Callable[[Model, Ranges], Plan]
"""A function that makes a plan, without techniques, from a float model and the ranges of its tensors."""

Samples = Sequence[Sequence[Array]]
"""For each sample, arrays in the order of the graph's inputs."""

QUARTERS = 4
"""The samples are divided into this many parts, or into single samples if there are fewer.

Each part is run with the ranges from the other parts; if there are none, with its own.
"""

PER_TENSOR = "the best estimator of each tensor"
"""The value of ``Settings.estimator`` that lets ``range_choice`` choose an estimator for each tensor."""

FEW_NUMBERS = 1000
"""The range of a tensor gets a margin if calibration observed at least 2 of its numbers, but fewer than this.

For a tensor with more numbers, few numbers of later runs will be outside of the observed range.
"""

HALVES = 2
"""The samples are also divided into two halves: sample i is in half i % HALVES."""

UNSEEN = 4
"""The margin of a tensor with n observed numbers makes room for the extremes of this many times n numbers."""

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Settings:
    """The settings of one trial.

    ``strength``: the strength of the equalization, from 0 (none) to 1.
    ``estimator``: the name of a range estimator, or PER_TENSOR.
    ``widening``: the factor by which both ends of all ranges are multiplied.
    ``by_readers``: tensors get the ranges that are best for the results of their readers
    (``reader_ranges``).
    ``margin``: the ranges of tensors with few observed numbers are wider (``with_margins``), except those of
    outputs and of tensors that are moved to outputs.
    """

    strength: float = 0.0
    estimator: str = "min_max"
    widening: float = 1.0
    by_readers: bool = False
    margin: bool = False

    def __str__(self) -> str:
        parts = [f"equalization {self.strength:g}"] if self.strength else []
        parts += [f"ranges by {self.estimator}"] if self.estimator != "min_max" else []
        parts += [f"ranges times {self.widening:g}"] if self.widening != 1 else []
        parts += ["ranges chosen for the readers"] if self.by_readers else []
        parts += ["margins for small tensors"] if self.margin else []
        return ", ".join(parts) or "no equalization, ranges from minimum to maximum"


@dataclass
class Trials:
    """Makes models and ranges for settings, and keeps them for later trials.

    ``model``: the float model.  ``plan_of``: makes plans.  ``activations``: the dtype of activations; None:
    they stay float.  ``estimator``: the default range estimator.
    ``samples``: all samples, for calibration.  ``tried``: the first samples; trials are run on these.
    ``magnitudes``: for each half of the samples, the largest magnitude of each channel, by name of the
    tensor.
    The private fields keep results; their keys are strengths, or (settings, quarter).
    """

    model: Model
    plan_of: MakePlan
    activations: DType | None
    estimator: str
    samples: Samples
    tried: Samples
    magnitudes: Sequence[Mapping[str, Array]]
    _models: dict[float, Model] = field(default_factory=dict)
    _parts: dict[float, list[Calibration]] = field(default_factory=dict)
    _estimators: dict[float, list[dict[str, str]]] = field(default_factory=dict)
    _by_readers: dict[tuple[Settings, int], dict[str, Range]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._models[0.0] = self.model

    def equalized(self, strength: float) -> Model:
        """Return a copy of the model that is equalized with ``strength`` and the magnitudes of all samples.

        Return the model itself if equalization changes nothing.
        """
        if strength not in self._models:
            self._models[strength] = self._equalized(strength, self.all_magnitudes())
        return self._models[strength]

    def equalized_without(self, strength: float, half: int) -> Model:
        """Return what ``equalized`` does, with the magnitudes of the samples that are not in ``half``."""
        return self._equalized(strength, self.magnitudes[1 - half])

    def _equalized(self, strength: float, magnitudes: Mapping[str, Array]) -> Model:
        if not strength:
            return self.model
        copy = clone(self.model)
        return copy if equalize(copy, magnitudes, strength) else self.model

    def all_magnitudes(self) -> dict[str, Array]:
        """Return the largest magnitude of each channel in all samples, by name of the tensor."""
        first, second = self.magnitudes
        return {name: np.maximum(first[name], second[name]) for name in first if name in second}

    def ranges(self, settings: Settings, quarter: int) -> Ranges:
        """Return the ranges for ``settings``, from all samples but those of ``quarter``.

        Return [] if ``activations`` is None.  A single sample is never left out.  With PER_TENSOR, the
        estimators are chosen on all samples, including those of ``quarter``; one sample is too few for a
        choice, so all tensors have the default estimator.
        ``quarter``: the part of the samples to leave out, 0 to QUARTERS - 1; QUARTERS leaves out none.
        """
        if self.activations is None:
            return []
        model = self.equalized(settings.strength)
        parts = self._calibrated(settings.strength)
        calibration = merged_calibrations([part for i, part in enumerate(parts) if i != quarter] or parts)
        is_common = settings.estimator != PER_TENSOR  # all tensors have the same estimator
        estimator = settings.estimator if is_common else self.estimator
        chosen = [dict(graph) for graph in ranges_of(model, calibration, estimator, self.activations.bits)]
        if not is_common:
            functions = estimators(self.estimator, self.activations.bits)
            for index, names in enumerate(self._estimators_of(settings.strength)):
                statistics = calibration.graphs[index]
                chosen[index].update({name: functions[e](statistics[name]) for name, e in names.items()})
        factor = settings.widening
        ranges = [{name: widened(ends, factor) for name, ends in graph.items()} for graph in chosen]
        if settings.by_readers:  # this and the margin change ranges of the main graph, no others
            ranges[0].update(self._ranges_by_readers(settings, quarter))
        if settings.margin:
            outputs = self._outputs(model)
            others = {name: s for name, s in calibration.main.items() if name not in outputs}
            ranges[0].update(with_margins(ranges[0], others))
        return ranges

    @staticmethod
    def _outputs(model: Model) -> set[str]:
        """Return the names of the main graph's outputs and of the tensors that are moved to these outputs."""
        found = {value.name for value in model.main.outputs}
        for op in reversed(list(model.main)):
            if op.data_movement and found.issuperset(value.name for value in op.results):
                found.update(value.name for value in op.inputs if value is not None)
        return found

    def is_calibrated(self, strength: float) -> bool:
        """Return whether the model equalized with ``strength`` was calibrated already."""
        return strength in self._parts

    def _ranges_by_readers(self, settings: Settings, quarter: int) -> dict[str, Range]:
        """Return the result of ``reader_ranges`` for ``settings`` without margins and for ``quarter``."""
        settings = replace(settings, margin=False)
        if (settings, quarter) not in self._by_readers:
            model = self.equalized(settings.strength)
            ranges = self.ranges(replace(settings, by_readers=False), quarter)
            plan = self.plan_of(model, ranges)
            samples = [sample for i, sample in enumerate(self.tried) if i % QUARTERS != quarter] or self.tried
            self._by_readers[settings, quarter] = reader_ranges(model, plan, ranges[0], samples)
        return self._by_readers[settings, quarter]

    def _calibrated(self, strength: float) -> list[Calibration]:
        """Return one calibration, with histograms, for each quarter of the samples.

        The model is equalized with ``strength`` first.
        """
        if strength not in self._parts:
            count = min(QUARTERS, len(self.samples))
            model = self.equalized(strength)
            quarters = [self.samples[part::count] for part in range(count)]
            self._parts[strength] = [collect(model, quarter, histograms=True) for quarter in quarters]
        return self._parts[strength]

    def _estimators_of(self, strength: float) -> list[dict[str, str]]:
        """Return for each graph the name of the best estimator of each tensor, chosen on all samples.

        Return [] if there is only one sample.
        """
        if strength not in self._estimators:
            assert self.activations is not None  # the caller checked it
            parts = self._calibrated(strength)
            several = len(parts) > 1
            self._estimators[strength] = (
                chosen_estimators(parts, self.estimator, self.activations.bits) if several else []
            )
        return self._estimators[strength]


def widened(ends: Range, factor: float) -> Range:
    """Return the range ``ends`` times ``factor``, where both ends stay finite float32 numbers."""
    low, high = (min(max(end * factor, -LARGEST_FLOAT32), LARGEST_FLOAT32) for end in ends)
    return low, high


def with_margins(ranges: Mapping[str, Range], statistics: Mapping[str, TensorStatistics]) -> dict[str, Range]:
    """Return wider ranges for the tensors of which calibration observed 2 to FEW_NUMBERS - 1 numbers.

    The logits of a classifier are an example.  Other tensors are not in the result.
    The largest of n normally distributed numbers grows as sqrt(2 ln n) (Cramer, 1946, section 28.6), so the
    ranges are multiplied by sqrt(ln(UNSEEN * n) / ln(n)).
    """
    found = {}
    for name, tensor in statistics.items():
        if name in ranges and 1 < tensor.count < FEW_NUMBERS and tensor.min is not None:
            factor = np.sqrt(np.log(UNSEEN * tensor.count) / np.log(tensor.count))
            found[name] = widened(ranges[name], float(factor))
    return found


def estimated_ranges(model: Model, samples: Samples, estimator: str, bits: int) -> Ranges:
    """Calibrate ``model`` on ``samples`` and return the ranges of its tensors by ``estimator``.

    ``bits``: the number of bits of the integers that will cover the ranges.
    """
    return ranges_of(model, collect(model, samples, histograms=estimator in FROM_NUMBERS), estimator, bits)
