# SPDX-License-Identifier: Apache-2.0
"""Runs many cases in processes that may hang, die or run out of memory without ending the run.

A case has seconds of processor time, after which an exception ends it where it is; one that does not even
end then is killed.  The memory of its process is bounded: allocations beyond the bound fail.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.fuzz.case import Case, Job, make_case
from tools.fuzz.other_files import STEPS, OtherRun
from tools.fuzz.runner import FAULT, Outcome, Overtime, Run
from tools.fuzz.seeds import Seeds
from tools.workers import Loss, Tell, Workers

MEMORY = 1 << 30
"""Bytes of address space of a worker, its code and everything imported included."""

SECONDS = 5.0
"""Processor time of a case."""

WALL = 60.0
"""Seconds without a sign of life after which a worker is killed: waiting counts here, for others too."""

AHEAD = 20
"""Cases that a worker gets at a time."""

VALUES_EACH = 8
"""Of the structured cases, one in so many is compared by value."""


@dataclass
class Result:
    """How a case ended, the seconds of processor time that it took, and the most memory by then.

    ``memory``: bytes that the process of the case had at most, in this case or one before.
    """

    job: Job
    outcome: Outcome
    seconds: float
    memory: int = 0


def run_case(job: Job, seeds: Seeds) -> Result:
    """One case in this process, within its time."""
    case = make_case(job, seeds)
    with_values = job.kind == "structured" and job.number % VALUES_EACH == 0
    started = time.process_time()
    with deadline(SECONDS * (4 if with_values else 1)):
        outcome = outcome_of(case, with_values)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Result(job, outcome, time.process_time() - started, memory)


def outcome_of(case: Case, with_values: bool) -> Outcome:
    if case.kind in STEPS:
        return OtherRun().outcome_of(case)
    return Run().outcome(case.data, case.is_text, with_values)


class deadline:  # noqa: N801  # it reads as a statement
    """``with deadline(5):`` raises Overtime inside after five seconds of processor time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGPROF, _over)
        signal.setitimer(signal.ITIMER_PROF, self.seconds, 0.5)  # again, should something have caught it

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _over(number: int, frame: object) -> None:
    raise Overtime


def bound_memory() -> None:
    """Let allocations fail that would make this process larger than MEMORY.

    Where it was forked from a large one (that of a test run), it may grow by half of that.
    """
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = max(MEMORY, size + MEMORY // 2)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# -- processes ---------------------------------------------------------------------------------


def run_jobs(jobs: Sequence[Job], seeds: Seeds, processes: int) -> Iterator[Result]:
    """The results of ``jobs`` in any order; one for each, whatever happens."""
    return run_all(jobs, lambda job, tell: run_case(job, seeds), processes)


def run_all(jobs: Sequence[Job], work: Callable[[Job, Tell], Result], processes: int) -> Iterator[Result]:
    """``work`` on every job in processes of its own."""
    return Workers(work, _lost, bound_memory, WALL, AHEAD).results(jobs, processes)


def _lost(loss: Loss[Job]) -> Result:
    how = "hangs" if loss.code is None else "died"
    return Result(loss.job, Outcome(FAULT, "process", how, f"exit code {loss.code}"), WALL)
