# SPDX-License-Identifier: Apache-2.0
"""Run a model on samples and collect the statistics of its tensors.

Samples are run in this process, in several processes or on a cluster.  The statistics are always added in the
order of the samples, so that the result is the same in all three cases, bit for bit.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import length_hint
from pathlib import Path

from circlekit.errors import ModelError, ShapeError, counted
from circlekit.io.write.file_writer import require_directory
from circlekit.ir.array_bytes import chunks, digest
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import progress
from circlekit.ir.text import print_graph
from circlekit.ir.value import Array, Value
from circlekit.quant.calibration.calibration import (
    Calibration,
    FilePath,
    inner_names,
    keeps_state,
    make_names_distinct,
    observed_values,
)
from circlekit.quant.calibration.calibration_file import check_path
from circlekit.quant.calibration.observer import Channels, Histograms, Observations, Selection
from circlekit.quant.calibration.processes import Job
from circlekit.quant.calibration.runner import Runner
from circlekit.quant.calibration.sample_files import open_samples
from circlekit.quant.calibration.samples import Sample, Samples, checked_samples
from circlekit.quant.calibration.statistics import Observation, TensorStatistics

SECONDS_BETWEEN_SAVES = 10.0
"""The time between two writes of the file from which an interrupted run can be continued."""


def collect(
    model: Model,
    samples: Samples,
    *,
    channels: Channels = False,
    histograms: Histograms = False,
    runner: Runner | None = None,
    source: str = "",
    state: FilePath | None = None,
) -> Calibration:
    """Run the main graph of ``model`` on each sample; return the statistics of all float tensors.

    First give distinct names to the tensors of ``model``, in place (see ``make_names_distinct``).

    ``samples``: the samples, or the path of a file or folder with samples; each process has only a few of
    them in memory.
    ``channels``, ``histograms``: the tensors that get statistics per channel, and those that get a histogram
    (see ``observer``).  Every tensor gets a range.
    ``runner``: how the samples are run; None: ``Runner()``.
    ``source``: a text that says where the samples come from; by default, the path if ``samples`` is one.
    ``state``: a .json or .npz file to which the result is written every SECONDS_BETWEEN_SAVES and at the end.
    If an interrupted run left this file, it has the statistics of the first samples, which are not run again.

    Raise ModelError if there are no samples or no float tensors, or if the file ``state`` exists but cannot
    be continued, for one of these reasons:

    - it is complete;
    - its model, engine, channels or histograms are not those of this run, or its statistics are of other
      samples than the first ones of this run;
    - the model keeps state between runs (``keeps_state``).

    Raise ShapeError if a tensor with statistics per channel changes its number of channels; FileError if
    ``state`` has another extension than .json and .npz, lies in a directory that does not exist, or cannot be
    written.
    Raise the errors of ``make_names_distinct``, of ``checked_samples`` for wrong samples, of ``Selection.of``
    for wrong ``channels`` or ``histograms``, of ``Calibration.load`` for ``state``, and of
    ``Runner.observe``.
    """
    if isinstance(samples, str | os.PathLike):
        samples = open_samples(samples, model)
        source = source or str(samples)
    if state is not None:
        check_path(state)  # before samples are run for nothing
        require_directory(Path(state))
    runner = runner or Runner()
    make_names_distinct(model)
    selection = Selection.of(model, channels, histograms)
    calibration = Calibration(_empty_statistics(model), 0, source, runner.engine, is_complete=False)
    if not any(calibration.graphs):
        raise ModelError("the model computes no float tensor: there is nothing to calibrate")
    if state is not None:
        calibration.setup_checksum = _setup_checksum(model, selection)
        if Path(state).exists():
            calibration = _resumed(state, model, calibration)
    progress().begin("calibrating", length_hint(samples), "samples")
    jobs = _Jobs(model, samples, calibration)
    saved = time.monotonic()
    for observations in runner.observe(model, selection, jobs):
        _include(calibration, observations)
        calibration.samples_checksum = jobs.checksums.popleft()
        progress().advance()
        if state is not None and time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
            calibration.save(state)
            saved = time.monotonic()
    if not calibration.samples:
        raise ModelError("expected at least one sample for calibration, got none")
    calibration.is_complete = True
    calibration.setup_checksum = calibration.samples_checksum = 0
    if state is not None:
        calibration.save(state)
    return calibration


def _empty_statistics(model: Model) -> list[dict[str, TensorStatistics]]:
    """Return for each graph the statistics of its tensors before any sample, by name."""
    graphs: list[dict[str, TensorStatistics]] = [{} for _ in model.graphs]
    for index, _, value in observed_values(model):
        graphs[index][value.name] = TensorStatistics()
    for index, _, name in inner_names(model):
        graphs[index][name] = TensorStatistics()
    return graphs


def _resumed(state: FilePath, model: Model, fresh: Calibration) -> Calibration:
    """Return the calibration in the file ``state``, which an interrupted run left.

    ``fresh``: the calibration of ``model`` in this run, without samples.
    Raise ModelError if ``model`` keeps state, or if ``state`` is complete or belongs to another model,
    engine, channels or histograms.  ``_Jobs`` checks the samples.
    """
    name = os.fspath(state)
    if keeps_state(model):
        raise ModelError(
            f"{name} exists, but no calibration of a model that keeps state between runs can be continued: "
            "delete the file"
        )
    resumed = Calibration.load(state)
    if resumed.is_complete:
        raise ModelError(f"{name} is complete: there is nothing to resume")
    if resumed.engine != fresh.engine:
        raise ModelError(f"{name}: expected a calibration by {fresh.engine}, got one by {resumed.engine}")
    tensors, expected = ([list(graph) for graph in item.graphs] for item in (resumed, fresh))
    if tensors != expected or resumed.setup_checksum != fresh.setup_checksum:
        raise ModelError(
            f"{name} belongs to a run of another model (or of this model before a change), or with other "
            "channels or histograms; to begin again, delete the file"
        )
    return resumed


class _Jobs(Iterator[Job]):
    """Iterates over the samples to run: all that an interrupted run has not run yet.

    ``done``: the calibration of the interrupted run; one without samples if there was no such run.
    ``__init__`` skips the samples of ``done``.  It raises ModelError if there are fewer samples than in
    ``done``, or if the skipped samples are not those of ``done``.
    ``checksums``: for each sample that was yielded but not yet added to the statistics, the checksum of this
    and all earlier samples, in order.  The caller removes the first one when it adds a sample.
    """

    def __init__(self, model: Model, samples: Iterable[Sample], done: Calibration) -> None:
        self.checksums: deque[int] = deque()
        self._checksum = 0
        self._numbered = enumerate(checked_samples(model, samples))
        skipped = 0
        for _, sample in islice(self._numbered, done.samples):
            progress().advance()
            self._checksum = _checksum(sample, self._checksum)
            skipped += 1
        expected = f"expected {counted(done.samples, 'sample')} as in the interrupted run"
        if skipped < done.samples:
            raise ModelError(f"{expected}, got only {skipped}")
        if self._checksum != done.samples_checksum:
            raise ModelError(f"{expected}, got other samples; to begin again, delete the file of that run")

    def __next__(self) -> Job:
        number, sample = next(self._numbered)
        self._checksum = _checksum(sample, self._checksum)
        self.checksums.append(self._checksum)
        return Job(number, sample)


def _checksum(sample: Iterable[Array], checksum: int) -> int:
    """Return a checksum (CRC-32) of the shapes and elements of ``sample``.

    ``checksum``: the checksum of the samples before, which becomes part of the result.
    """
    for array in sample:
        checksum = zlib.crc32(repr(array.shape).encode(), checksum)
        # strings are Python objects: the array has only their addresses
        pieces = [repr(array.tolist()).encode()] if array.dtype == object else chunks(array)
        for piece in pieces:
            checksum = zlib.crc32(piece, checksum)
    return checksum


def _setup_checksum(model: Model, selection: Selection) -> int:
    """Return a checksum (CRC-32) of ``selection`` and of the graphs of ``model``.

    It covers all that ``print_graph`` writes: names, operators, attributes, types and constants; so not the
    description and the metadata of the model.  Large constants are not copied.
    """

    def hashed(value: Value) -> tuple[str, int] | None:
        """Return the hash of a constant as the name of a data file, which ``print_graph`` writes for it."""
        return None if value.data is None else (digest(value.data).hex(), 0)

    channels = sorted((name, int(axis)) for name, axis in selection.channels.items())
    texts = [repr((channels, sorted(selection.histograms)))]
    texts += [print_graph(graph, hashed) for graph in model.graphs]
    return zlib.crc32("\n".join(texts).encode("utf-8", "surrogatepass"))


def _include(calibration: Calibration, observations: Observations) -> None:
    """Add ``observations``, the statistics of the next sample, to ``calibration``.

    Raise ShapeError if a tensor with statistics per channel has another number of channels than before.
    """
    for index, graph in enumerate(calibration.graphs):
        for name, statistics in graph.items():
            _add(statistics, observations.get((index, name)), f"for %{name}, in sample {calibration.samples}")
    calibration.samples += 1


def _add(statistics: TensorStatistics, seen: Observation | None, place: str) -> None:
    """Add ``seen`` to ``statistics``; ``place``: what to append to the message of an error."""
    try:
        statistics.add(seen)
    except ShapeError as error:
        raise error.note(place) from None
