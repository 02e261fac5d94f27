# SPDX-License-Identifier: Apache-2.0
"""Run cases within limits of time and memory, in worker processes."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from circlekit.equivalence.workers import Loss, Tell, Workers
from tools.fuzz.case import Case, Job, make_case
from tools.fuzz.run_model import FAULT, ModelRun, Outcome, TimeLimitExceeded
from tools.fuzz.seeds import Seeds
from tools.fuzz.verifier import compare_verifiers

MEMORY_BYTES = 1 << 30
"""Address space of a worker, including its code and imports."""

CASE_SECONDS = 5.0
"""Limit of the processor time of a case; four times this if values are compared."""

WALL_SECONDS = 60.0
"""Time after which a worker that does not answer is killed."""

CASES_AHEAD = 20
"""How many cases a worker holds at a time, the running one included, so that it need not wait for cases."""

VALUES_EVERY = 8
"""In one of VALUES_EVERY structured cases, values are compared."""


@dataclass
class Result:
    """How a case ended.  ``seconds``: processor time, or WALL_SECONDS if the worker was lost."""

    job: Job
    outcome: Outcome
    seconds: float


def run_case(job: Job, seeds: Seeds) -> Result:
    """Run one case in this process, within its time limit."""
    case = make_case(job, seeds)
    with_values = job.kind == "structured" and job.number % VALUES_EVERY == 0
    started = time.process_time()
    with time_limit(CASE_SECONDS * (4 if with_values else 1)):
        is_for_verifiers = job.kind == "verifier"
        outcome = compare_verifiers(case.data) if is_for_verifiers else outcome_of(case, with_values)
    return Result(job, outcome, time.process_time() - started)


def outcome_of(case: Case, with_values: bool) -> Outcome:
    return ModelRun().outcome(case.data, case.suffix, with_values)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimitExceeded inside the block after ``seconds`` of processor time."""

    def raise_it(number: int, frame: object) -> None:
        raise TimeLimitExceeded

    signal.signal(signal.SIGPROF, raise_it)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.5)  # repeated, in case something catches it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def limit_memory() -> None:
    """Limit the address space of this process.

    The limit is MEMORY_BYTES, or the present size plus half of MEMORY_BYTES if this sum is larger.
    """
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = max(MEMORY_BYTES, size + MEMORY_BYTES // 2)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_jobs(jobs: Sequence[Job], seeds: Seeds, processes: int) -> Iterator[Result]:
    """Yield one result for each job, in any order."""
    return run_all(jobs, lambda job, tell: run_case(job, seeds), processes)


def run_all(jobs: Sequence[Job], work: Callable[[Job, Tell], Result], processes: int) -> Iterator[Result]:
    """Yield what ``work`` returns for each job; a lost worker process is a fault."""
    return Workers(work, _lost, limit_memory, WALL_SECONDS, CASES_AHEAD).results(jobs, processes)


def _lost(loss: Loss[Job]) -> Result:
    how = "hangs" if loss.code is None else "died"
    return Result(loss.job, Outcome(FAULT, "process", how, f"exit code {loss.code}"), WALL_SECONDS)
