# SPDX-License-Identifier: Apache-2.0
"""Run many independent jobs in local processes or on a Dask cluster; a job whose process dies runs again.

A cluster (extra ``dask``) is given by the address of its scheduler.  Jobs name files by path, so the machines
of the cluster must have the same files at the same paths as this machine.
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

J = TypeVar("J")  # a job
R = TypeVar("R")  # the result of a job

LOCAL = "local"
"""The address that stands for processes on this machine."""

RETRIES = 2
"""How often a job runs again, by default, if its local process dies."""


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Return a context whose value is a client of the cluster with its scheduler at ``address``.

    The value is None if ``address`` is None or LOCAL.  Raise UnsupportedError if Dask is not installed or no
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

    ``work``: returns the result of one job, and raises nothing.
    ``lost``: gets a job without a result and the reason, and returns a result for that job.  A job has no
    result if its local process died more than ``retries`` times, or if the cluster gave the job up.  How
    often a cluster runs a job again is a setting of its scheduler, ``distributed.scheduler.allowed-failures``
    (3 by default).
    ``client``: a ``distributed.Client`` whose cluster runs the jobs; ``work`` and the jobs must then be
    picklable.  Without a client, ``processes`` forked processes run the jobs, by default one for each
    processor; on systems that cannot fork, this process runs them.
    Results must be picklable, unless this process runs the jobs.  A forked process whose result is not
    picklable dies.
    """
    if client is not None:
        yield from _on_cluster(client, work, jobs, lost)
    elif "fork" not in get_all_start_methods():
        yield from ((index, work(job)) for index, job in enumerate(jobs))
    else:
        yield from _in_processes(work, jobs, lost, processes or usable_processors(), retries)


def usable_processors() -> int:
    """Return how many processors jobs may use; 1 if this process cannot fork, and so runs all jobs itself."""
    if "fork" not in get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_processes(
    work: Callable[[J], R], jobs: Sequence[J], lost: Callable[[J, str], R], processes: int, retries: int
) -> Iterator[tuple[int, R]]:
    def run(index: int, tell: Tell) -> tuple[int, R | None, str]:
        """Return (index of the job, its result, "")."""
        with watched(Progress()):  # hides the progress inside a job: the caller shows the number of jobs done
            return index, work(jobs[index]), ""

    def report(loss: Loss[int]) -> tuple[int, R | None, str]:
        """Return (index of a job whose process died, None, how the process ended)."""
        return loss.job, None, str(loss)

    waiting = list(range(len(jobs)))
    for attempt in range(retries + 1):  # an attempt runs the jobs that were lost in the attempt before
        # no time limit; each process holds two jobs, so that it need not wait for the next one
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
    client: Any, work: Callable[[J], R], jobs: Sequence[J], lost: Callable[[J, str], R]
) -> Iterator[tuple[int, R]]:
    from distributed import as_completed  # optional dependency

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask warns of large jobs, which are expected here
        # ``pure=False``: equal jobs all run
        futures = [client.submit(_one_at_a_time, work, job, pure=False) for job in jobs]
    numbers = {future.key: index for index, future in enumerate(futures)}
    try:
        for future in as_completed(futures):
            index = numbers[future.key]
            try:
                result = future.result()
            except Exception as error:  # errors of Dask have no common base class
                result = lost(jobs[index], f"was given up by the cluster: {type(error).__name__}: {error}")
            yield index, result
    finally:
        client.cancel(futures)


_ONE_AT_A_TIME = threading.Lock()
"""The lock that makes jobs run one after the other in each worker process of a cluster.

Dask runs several jobs of a worker process at once, in threads.  Such jobs would share the standard output and
the number of BLAS threads of the process.
"""


def _one_at_a_time(work: Callable[[J], R], job: J) -> R:
    """Return ``work(job)``; first wait until no other job runs in this worker process."""
    with _ONE_AT_A_TIME, watched(Progress()):
        return work(job)
