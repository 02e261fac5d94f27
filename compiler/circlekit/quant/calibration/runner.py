# SPDX-License-Identifier: Apache-2.0
"""Run samples with an engine (circlekit or LiteRT): in this process, in several, or on a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from circlekit.equivalence.fleet import usable_processors
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.ir.graph import Model
from circlekit.quant.calibration.calibration import keeps_state
from circlekit.quant.calibration.dask_cluster import observe_on_cluster
from circlekit.quant.calibration.engine import make_engine
from circlekit.quant.calibration.observer import Observations, Selection
from circlekit.quant.calibration.processes import Job, observe_in_processes

SECONDS_ALONE = 0.5
"""If no number of processes is given, this process runs samples alone for this time.

If samples are left, other processes are then started.  For less work, starting them takes more time than they
save.
"""


@dataclass(frozen=True)
class Runner:
    """How samples are run.

    ``engine``: the program that runs the model, ``circlekit`` or ``litert``.
    ``processes``: the number of processes; None: as many as there are processors, if the samples take longer
    than SECONDS_ALONE.
    ``client``: a ``distributed.Client``; if not None, its cluster runs the samples, and ``processes`` has no
    effect.
    A model that computes one step of a sequence per run (``keeps_state``) is always run in this process, and
    ``client`` has no effect: each sample continues from the state that the sample before left.  For any other
    model, each sample begins with the initial state, so neither ``processes`` nor ``client`` changes the
    statistics.
    """

    engine: str = "circlekit"
    processes: int | None = None
    client: Any = None

    def observe(self, model: Model, selection: Selection, jobs: Iterator[Job]) -> Iterator[Observations]:
        """Yield the statistics of each sample in the order of the samples.

        ``selection``: the tensors with statistics per channel or a histogram.  ``jobs``: numbered samples.
        Raise the error of the first sample that fails; ModelError if the cluster gives up a sample, if the
        process that runs a sample crashes or is killed, or if ``engine`` is not a text.  Raise LimitError if
        the tensors in LiteRT would take more memory than allowed.  Raise UnsupportedError in these cases:

        - The engine is unknown or cannot run ``model``.
        - ``client`` is not a client.
        - No cluster runs the samples, and ``processes`` is neither None nor an integer of at least 1.
        """
        is_ordered = keeps_state(model)  # each sample needs the state that the previous sample left
        if self.client is not None and not is_ordered:
            yield from observe_on_cluster(self.client, self.engine, model, selection, jobs)
            return
        engine = make_engine(self.engine, model, selection)
        processes = usable_processors() if self.processes is None else self.processes
        if not isinstance(processes, int | np.integer) or processes < 1:
            raise UnsupportedError(f"processes: expected an integer of at least 1, got {processes!r}")
        processes = 1 if is_ordered else int(processes)
        if self.processes is None or processes == 1:
            start = time.monotonic()
            for job in jobs:
                try:
                    yield engine.observe(job.sample)
                except CirclekitError as error:
                    raise error.note(f"in sample {job.number}") from None
                if processes > 1 and time.monotonic() - start > SECONDS_ALONE:
                    break
        # the samples that are left in ``jobs``; none if the loop above ended without ``break``
        yield from observe_in_processes(engine, jobs, processes)
