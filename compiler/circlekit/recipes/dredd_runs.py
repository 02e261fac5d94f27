# SPDX-License-Identifier: Apache-2.0
"""Run many dredd tests in several processes; a test that crashes its process fails alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from circlekit.ir.resource_limits import Limits, limited, limits
from circlekit.recipes.dredd import Result, run_case
from circlekit.recipes.dredd_cases import Case

MAX_SERIAL = 8
"""Up to this many tests run in the calling process, since starting other processes would take longer."""

Job = tuple[int, Case, Path | None]
"""Index of the test, the test, the folder for its files."""


def run_cases(
    cases: Sequence[Case], keep: Path | None = None, with_litert: bool = True, processes: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Yield (index of the case, its result) in any order.

    ``keep``: a folder for the files, with a folder for each test; None keeps no files.  ``processes``: by
    default one per processor that this process may use.
    """
    jobs: list[Job] = list(zip(range(len(cases)), cases, _folders(cases, keep), strict=True))
    if not processes:
        has_affinity = hasattr(os, "sched_getaffinity")
        processes = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    work = partial(_run_job, with_litert, limits())
    if processes <= 1 or len(cases) <= MAX_SERIAL:
        yield from map(work, jobs)
        return
    while jobs:
        with _pool(processes) as pool:
            futures = {pool.submit(work, job): job for job in jobs}
            for future in as_completed(futures):
                if not isinstance(future.exception(), BrokenProcessPool):
                    yield future.result()
        unfinished = [job for f, job in futures.items() if isinstance(f.exception(), BrokenProcessPool)]
        # The test that crashed is among the first ones: a pool hands out one test to each process, and queues
        # as many tests and one more.
        suspects, jobs = unfinished[: 2 * processes + 1], unfinished[2 * processes + 1 :]
        yield from (_run_alone(work, job) for job in suspects)


def _pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of new processes: a fork would copy locks that numpy's threads hold."""
    return ProcessPoolExecutor(processes, get_context("spawn"))


def _run_alone(work: Callable[[Job], tuple[int, Result]], job: Job) -> tuple[int, Result]:
    """Run a test in a process of its own."""
    with _pool(1) as pool:
        try:
            return pool.submit(work, job).result()
        except BrokenProcessPool:
            return job[0], Result(job[1].name, failures=["the process of the test crashed"])


def _run_job(with_litert: bool, limits: Limits, job: Job) -> tuple[int, Result]:
    """Run one test within the limits of the calling process."""
    index, case, folder = job
    with limited(limits.memory, limits.calls):
        return index, run_case(case, folder, with_litert)


def _folders(cases: Sequence[Case], keep: Path | None) -> list[Path | None]:
    """Return a folder below ``keep`` for each test; repeated names get a number."""
    if keep is None:
        return [None] * len(cases)
    seen: dict[str, int] = {}
    folders: list[Path | None] = []
    for case in cases:
        name = re.sub(r"[^\w.+-]", "_", case.name).lstrip(".") or "_"  # a name in a list may be ../../x
        count = seen[name] = seen.get(name, 0) + 1
        folders.append(keep / (name if count == 1 else f"{name}.{count}"))
    return folders
