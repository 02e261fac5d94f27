# SPDX-License-Identifier: Apache-2.0
"""Run a model on samples and collect the statistics of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sized

from circlekit.errors import ModelError
from circlekit.ir.graph import Model
from circlekit.ir.progress import progress
from circlekit.quant.calibration.calibration import Calibration, observed_values
from circlekit.quant.calibration.interpreter_engine import InterpreterEngine
from circlekit.quant.calibration.observer import Channels, Histograms, Observations, Selection
from circlekit.quant.calibration.samples import Sample, checked_samples
from circlekit.quant.calibration.statistics import TensorStatistics


def collect(
    model: Model,
    samples: Iterable[Sample],
    *,
    channels: Channels = False,
    histograms: Histograms = False,
    source: str = "",
) -> Calibration:
    """Run the main graph of ``model`` on each sample; return the statistics of all float tensors.

    One sample is in memory at a time.  ``channels``, ``histograms``: see ``observer``; plain ranges are
    always there.  ``source``: what the samples are, for a reader of the result.

    Raise ModelError without samples or for one with NaN, ShapeError for one that does not fit the inputs, and
    the errors of ``Interpreter.run``.
    """
    engine = InterpreterEngine(model, Selection.of(model, channels, histograms))
    calibration = Calibration([{} for _ in model.graphs], source=source, engine=engine.name)
    for index, _, value in observed_values(model):
        calibration.graphs[index][value.name] = TensorStatistics()
    progress().begin("calibrating", len(samples) if isinstance(samples, Sized) else 0, "samples")
    for sample in checked_samples(model, samples):
        _add(calibration, engine.observe(sample))
        progress().advance()
    if not calibration.samples:
        raise ModelError("expected at least one sample for calibration, got none")
    return calibration


def _add(calibration: Calibration, observations: Observations) -> None:
    """Include the next sample; samples come in their order, so that sums are added in one order only."""
    for index, graph in enumerate(calibration.graphs):
        for name, statistics in graph.items():
            statistics.add(observations.get((index, name)))
    calibration.samples += 1
