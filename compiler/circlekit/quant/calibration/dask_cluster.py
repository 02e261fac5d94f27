# SPDX-License-Identifier: Apache-2.0
"""Observe samples on a Dask cluster (extra ``dask``).  If a worker dies, another worker runs its sample."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.quant.calibration.engine import Engine, make_engine
from circlekit.quant.calibration.observer import Observations, Selection
from circlekit.quant.calibration.processes import Answer, Job

JOBS_PER_THREAD = 2
"""The number of samples sent for each thread of the cluster: one is sent while another is computed."""


def observe_on_cluster(
    client: Any, engine: str, model: Model, selection: Selection, jobs: Iterable[Job]
) -> Iterator[Observations]:
    """Yield the statistics of each sample in the order of the samples.

    ``client``: a ``distributed.Client``.  ``engine``: the name of the engine.
    ``selection``: the tensors that get statistics per channel or a histogram.  ``jobs``: numbered samples.
    The model is the result of a task of its own.  So Dask sends it once to each worker, and can make it again
    if a worker dies.  Each worker process computes one sample at a time.
    Raise the error of the first sample that fails; UnsupportedError if ``client`` lacks a method that is
    needed; ModelError if the cluster gives up a sample.
    """
    if not all(callable(getattr(client, name, None)) for name in ("submit", "nthreads", "cancel")):
        raise UnsupportedError(f"client: expected a distributed.Client, got {type(client).__name__}")
    content = _submit(client, bytes, to_bytes(model, "circle"))
    waiting: deque[tuple[int, Any]] = deque()
    try:
        for job in jobs:
            waiting.append((job.number, _submit(client, _observe, content, engine, selection, job)))
            if len(waiting) >= JOBS_PER_THREAD * max(sum(client.nthreads().values()), 1):
                yield _result(*waiting.popleft())
        while waiting:
            yield _result(*waiting.popleft())
    finally:
        client.cancel([future for _, future in waiting])


def _submit(client: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Let the cluster call ``function``; return the future of its result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask warns of large arguments, such as the model
        return client.submit(function, *arguments, pure=False)


def _result(number: int, future: Any) -> Observations:
    """Wait for ``future`` and return the statistics of sample ``number``.

    Raise the error of the sample; ModelError if Dask fails.
    """
    try:
        answer: Answer = future.result()
    except Exception as error:  # Dask and its transport raise errors of many kinds
        raise ModelError(f"the cluster gave up sample {number}: {type(error).__name__}: {error}") from error
    if answer.error is not None:
        raise answer.error
    return answer.observations


class _Prepared:
    """The engine that a worker process keeps for the next sample; ``key``: the arguments that made it."""

    def __init__(self, content: bytes, engine: str, selection: Selection) -> None:
        self.key = (content, engine, selection)
        self.engine: Engine = make_engine(engine, load_bytes(content, "the model"), selection)


_ONE_AT_A_TIME = threading.Lock()
"""Lets the threads of a worker process run one job at a time, because jobs share an engine."""


def _observe(content: bytes, engine: str, selection: Selection, job: Job) -> Answer:
    """Run one sample in a worker process; make the engine first if the worker does not have it.

    ``content``: the bytes of the model as a circle file.  ``engine``: the name of the engine.
    """
    from distributed import get_worker  # optional dependency

    worker = get_worker()
    try:
        with _ONE_AT_A_TIME:
            prepared = getattr(worker, "circlekit_prepared", None)
            if prepared is None or prepared.key != (content, engine, selection):
                prepared = worker.circlekit_prepared = _Prepared(content, engine, selection)
            return Answer(job.number, prepared.engine.observe(job.sample))
    except CirclekitError as error:
        return Answer(job.number, {}, error.note(f"in sample {job.number}"))
