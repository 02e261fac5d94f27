# SPDX-License-Identifier: Apache-2.0
"""Observe samples in several processes; the result does not depend on the number of processes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from circlekit.equivalence.workers import Loss, Tell, Workers
from circlekit.errors import CirclekitError, ModelError
from circlekit.ir.value import Array
from circlekit.quant.calibration.engine import Engine
from circlekit.quant.calibration.observer import Observations


class Job(NamedTuple):
    """A sample (one array for each graph input, in their order) and its number, counted from 0."""

    number: int
    sample: list[Array]


class Answer(NamedTuple):
    """The result of the job ``number``: the statistics, or an ``error`` if the job failed."""

    number: int
    observations: Observations
    error: CirclekitError | None = None


def observe_in_processes(engine: Engine, jobs: Iterable[Job], processes: int) -> Iterator[Observations]:
    """Yield the statistics of each sample in the order of the samples; a process holds one sample at a time.

    ``jobs``: in the order of their numbers, without gaps.  The worker processes are forked from this process,
    so each has a copy of ``engine``.
    Raise the error of the first sample that fails; ModelError if its process crashed or was killed.
    """

    def work(job: Job, tell: Tell) -> Answer:
        """Run one sample in a worker process; ``tell``, for reports of progress, is not used."""
        try:
            return Answer(job.number, engine.observe(job.sample))
        except CirclekitError as error:
            return Answer(job.number, {}, error.note(f"in sample {job.number}"))

    def lost(loss: Loss[Job]) -> Answer:
        """Return the answer for a sample whose process ended before the sample was finished."""
        what = f"sample {loss.job.number} {loss}; if memory is short, use fewer processes"
        return Answer(loss.job.number, {}, ModelError(what))

    workers = Workers(work, lost, seconds=math.inf)
    early: dict[int, Answer] = {}  # answers that came before the answer of an earlier sample
    numbered = iter(jobs)
    first = next(numbered, None)
    if first is None:
        return
    following = first.number
    for answer in workers.results(chain([first], numbered), processes):
        early[answer.number] = answer
        while following in early:
            ready = early.pop(following)
            if ready.error is not None:
                raise ready.error
            yield ready.observations
            following += 1
