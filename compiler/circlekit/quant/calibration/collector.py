# SPDX-License-Identifier: Apache-2.0
"""Run a model on samples and collect the statistics of its tensors.

Whatever runs the samples, this process, several or a cluster, what each one adds is included in the order of
the samples: so the result is the same, to the bit.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from operator import length_hint
from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.graph import Model
from circlekit.ir.progress import progress
from circlekit.quant.calibration.calibration import Calibration, FilePath, observed_values
from circlekit.quant.calibration.observer import Channels, Histograms, Observations, Selection
from circlekit.quant.calibration.processes import Job
from circlekit.quant.calibration.runner import Runner
from circlekit.quant.calibration.sample_files import open_samples
from circlekit.quant.calibration.samples import Sample, Samples, checked_samples
from circlekit.quant.calibration.statistics import TensorStatistics

SECONDS_BETWEEN_SAVES = 10.0


def collect(
    model: Model,
    samples: Samples,
    *,
    channels: Channels = False,
    histograms: Histograms = False,
    runner: Runner | None = None,
    source: str = "",
    resume: Calibration | None = None,
    save_to: FilePath | None = None,
) -> Calibration:
    """Run the main graph of ``model`` on each sample; return the statistics of all float tensors.

    A process holds one sample at a time.  ``samples``: also the path of a file or folder, see
    ``sample_files``.  ``channels``, ``histograms``: the tensors with these statistics,
    see ``observer``; ranges are always there.  ``runner``: what runs the samples.  ``source``: what they are,
    for a reader of the result.  ``save_to``: the file to which the incomplete result is written from time to
    time.  ``resume``: such a result of an interrupted run; its samples are skipped.

    Raise ModelError without samples or float tensors, for a sample with NaN, or if ``resume`` is of other
    samples; ShapeError for
    one that does not fit the inputs; UnsupportedError if the engine cannot run the model; and the errors of
    ``Interpreter.run``.
    """
    if isinstance(samples, str | os.PathLike):
        samples = open_samples(samples, model)
        source = source or str(samples)
    runner = runner or Runner()
    selection = Selection.of(model, channels, histograms)
    calibration = Calibration(_without_samples(model), 0, source, runner.engine, is_complete=False)
    if not any(calibration.graphs):
        raise ModelError("the model computes no float tensor: there is nothing to calibrate")
    if resume is not None:
        _check_resumed(resume, calibration, selection)
        calibration = resume
    progress().begin("calibrating", length_hint(samples), "samples")
    jobs = _Jobs(model, samples, calibration)
    saved = time.monotonic()
    for observations in runner.observe(model, selection, jobs):
        _include(calibration, observations)
        calibration.last_sample = jobs.checksums.popleft()
        progress().advance()
        if save_to is not None and time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
            calibration.save(save_to)
            saved = time.monotonic()
    if not calibration.samples:
        raise ModelError("expected at least one sample for calibration, got none")
    calibration.is_complete = True
    return calibration


def _without_samples(model: Model) -> list[dict[str, TensorStatistics]]:
    graphs: list[dict[str, TensorStatistics]] = [{} for _ in model.graphs]
    for index, _, value in observed_values(model):
        graphs[index][value.name] = TensorStatistics()
    return graphs


def _check_resumed(resume: Calibration, fresh: Calibration, selection: Selection) -> None:
    """Raise ModelError unless ``resume`` is of the same model, engine and statistics as ``fresh``."""
    if [list(graph) for graph in resume.graphs] != [list(graph) for graph in fresh.graphs]:
        raise ModelError("the calibration to resume is of another model: its tensors differ")
    if resume.engine != fresh.engine:
        raise ModelError(f"the calibration to resume is by the engine {resume.engine}, not {fresh.engine}")
    for graph in resume.graphs:
        for name, seen in graph.items():
            has = (seen.channels is not None, seen.histogram is not None)
            if seen.count and has != (name in selection.channels, name in selection.histograms):
                raise ModelError(f"the calibration to resume has other statistics of %{name} than requested")


class _Jobs(Iterator[Job]):
    """The samples that are still to run, with numbers; ``checksums``: those of the jobs taken, in order."""

    def __init__(self, model: Model, samples: Iterable[Sample], done: Calibration) -> None:
        self.checksums: deque[int] = deque()
        self._numbered = enumerate(checked_samples(model, samples))
        for number, sample in zip(range(done.samples), (s for _, s in self._numbered), strict=False):
            progress().advance()
            if number == done.samples - 1 and _checksum(sample) != done.last_sample:
                raise ModelError(f"sample {number} is not that of the calibration to resume")

    def __next__(self) -> Job:
        number, sample = next(self._numbered)
        self.checksums.append(_checksum(sample))
        return Job(number, sample)


def _checksum(sample: Iterable[Any]) -> int:
    checksum = 0
    for array in sample:
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum) if array.size else checksum
    return checksum


def _include(calibration: Calibration, observations: Observations) -> None:
    for index, graph in enumerate(calibration.graphs):
        for name, statistics in graph.items():
            statistics.add(observations.get((index, name)))
    calibration.samples += 1
