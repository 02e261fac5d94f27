# SPDX-License-Identifier: Apache-2.0
"""Run many independent jobs in local processes or on a Dask cluster; a job whose worker dies runs again.

A cluster (extra ``dask``) is given by the address of its scheduler.  Its workers must see the same files.
"""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_all_start_methods
from typing import Any, TypeVar

from circlekit.equivalence.workers import Loss, Tell, Workers
from circlekit.errors import UnsupportedError
from circlekit.ir.resources.progress import Progress, watched

J = TypeVar("J")
R = TypeVar("R")

LOCAL = "local"
"""The address that stands for processes on this machine."""

RETRIES = 2
"""How often a job runs again if its process or worker dies."""


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Return a context with a client of the cluster whose scheduler is at ``address``.

    The client is None if ``address`` is None or LOCAL.  Raise UnsupportedError if Dask is not installed or no
    scheduler answers.
    """
    if address is None or address == LOCAL:
        yield None
        return
    try:
        from distributed import Client  # optional dependency
    except ImportError:
        raise UnsupportedError("Dask is not installed: pip install 'circlekit[dask]'") from None
    try:
        client = Client(address)
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        yield client


def run_jobs(
    work: Callable[[J], R],
    jobs: Sequence[J],
    lost: Callable[[J, str], R],
    *,
    client: Any = None,
    processes: int | None = None,
    retries: int = RETRIES,
) -> Iterator[tuple[int, R]]:
    """Yield (index of the job, its result) for each job exactly once, in any order.

    ``work``: returns the result of one job, and raises nothing.  ``lost``: returns the result of a job whose
    process died more than ``retries`` times or that the cluster gave up; it gets the job and the reason.
    ``client``: a ``distributed.Client`` whose cluster runs the jobs; ``work`` and the jobs must then be
    picklable.  Without a client, ``processes`` forked processes run the jobs, by default one for each
    processor; on systems that cannot fork, this process runs them.
    """
    if client is not None:
        yield from _on_cluster(client, work, jobs, lost, retries)
    elif "fork" not in get_all_start_methods():
        yield from ((index, work(job)) for index, job in enumerate(jobs))
    else:
        yield from _in_processes(work, jobs, lost, processes or usable_processors(), retries)


def usable_processors() -> int:
    """Return how many processors this process may use; 1 on systems that cannot fork."""
    if "fork" not in get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_processes(
    work: Callable[[J], R], jobs: Sequence[J], lost: Callable[[J, str], R], processes: int, retries: int
) -> Iterator[tuple[int, R]]:
    # ``run`` and ``report`` return (index of a job, its result, ""), or (index, None, how the job was lost)
    def run(index: int, tell: Tell) -> tuple[int, R | None, str]:
        with watched(Progress()):  # the caller counts jobs, not their steps
            return index, work(jobs[index]), ""

    def report(loss: Loss[int]) -> tuple[int, R | None, str]:
        return loss.job, None, str(loss)

    waiting = list(range(len(jobs)))
    for attempt in range(retries + 1):
        workers = Workers(run, report, seconds=math.inf, ahead=2)
        again = []
        for index, result, reason in workers.results(waiting, min(processes, len(waiting))):
            if not reason:
                yield index, result  # type: ignore[misc]  # only a lost job has no result
            elif attempt == retries:
                yield index, lost(jobs[index], reason)
            else:
                again.append(index)
        waiting = sorted(again)
        if not waiting:
            return


def _on_cluster(
    client: Any, work: Callable[[J], R], jobs: Sequence[J], lost: Callable[[J, str], R], retries: int
) -> Iterator[tuple[int, R]]:
    from distributed import as_completed  # optional dependency

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask warns of large jobs, which are expected here
        futures = [client.submit(_one_at_a_time, work, job, pure=False, retries=retries) for job in jobs]
    numbers = {future.key: index for index, future in enumerate(futures)}
    try:
        for future in as_completed(futures):
            index = numbers[future.key]
            try:
                result = future.result()
            except Exception as error:  # Dask raises errors of many kinds
                result = lost(jobs[index], f"was given up by the cluster: {type(error).__name__}: {error}")
            yield index, result
    finally:
        client.cancel(futures)


_ONE_AT_A_TIME = threading.Lock()
"""The lock of a worker process, whose jobs share its standard output and its number of BLAS threads."""


def _one_at_a_time(work: Callable[[J], R], job: J) -> R:
    """Return ``work(job)``; wait until no other job runs in this worker process."""
    with _ONE_AT_A_TIME, watched(Progress()):
        return work(job)
