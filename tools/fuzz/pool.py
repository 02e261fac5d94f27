# SPDX-License-Identifier: Apache-2.0
"""Runs many cases in processes that may hang, die or run out of memory without ending the run.

Workers are forked from a process that has everything imported and all seeds at hand.  A case has seconds
of processor time, after which an exception ends it where it is; one that does not even end then is killed,
as its worker's memory is bounded: allocations beyond the bound fail.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tools.fuzz.case import Job, make_case
from tools.fuzz.runner import FAULT, Outcome, Overtime, Run
from tools.fuzz.seeds import Seeds

MEMORY = 1 << 30
"""Bytes of address space of a worker, its code and everything imported included."""

SECONDS = 5.0
"""Processor time of a case."""

WALL = 60.0
"""Seconds without a sign of life after which a worker is killed: waiting counts here, for others too."""

BATCH = 100
"""Cases that a worker gets at a time."""

VALUES_EACH = 8
"""Of the structured cases, one in so many is compared by value."""


@dataclass
class Result:
    """How a case ended, and the seconds of processor time that it took."""

    job: Job
    outcome: Outcome
    seconds: float


def run_case(job: Job, seeds: Seeds) -> Result:
    """One case in this process, within its time."""
    case = make_case(job, seeds)
    with_values = job.kind == "structured" and job.number % VALUES_EACH == 0
    started = time.process_time()
    run = Run()
    with deadline(SECONDS * (4 if with_values else 1)):
        outcome = run.outcome(case.data, case.is_text, with_values)
    return Result(job, outcome, time.process_time() - started)


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


@dataclass
class Worker:
    """One process, and what it was given.  ``current``: shared memory with the number of its case."""

    process: Any
    pipe: Connection
    current: Any
    batch: list[Job] = field(default_factory=list)
    seen: int = -1
    since: float = 0.0

    def stalled(self) -> bool:
        """Whether it has been on one case for too long."""
        number = self.current.value
        if number != self.seen:
            self.seen, self.since = number, time.monotonic()
        return bool(self.batch) and time.monotonic() - self.since > WALL


Work = Callable[[Job], Result]


def run_jobs(jobs: Sequence[Job], seeds: Seeds, processes: int) -> Iterator[Result]:
    """The results of ``jobs`` in any order; one for each, whatever happens."""
    yield from run_all(jobs, lambda job: run_case(job, seeds), processes)


def run_all(jobs: Sequence[Job], work: Work, processes: int) -> Iterator[Result]:
    """``work`` on every job in processes of its own."""
    todo = [list(jobs[i : i + BATCH]) for i in range(0, len(jobs), BATCH)][::-1]
    workers = [_start(work) for _ in range(min(processes, len(todo)))]
    try:
        while todo or any(w.batch for w in workers):
            for worker in workers:
                if not worker.batch and todo:
                    _give(worker, todo.pop())
            ready = wait([w.pipe for w in workers if w.batch], 1.0)
            for number, worker in enumerate(workers):
                if worker.pipe in ready:
                    try:
                        yield from worker.pipe.recv()
                        worker.batch = []
                        continue
                    except EOFError:
                        yield from _lost(worker, todo, "died")
                elif worker.stalled():
                    yield from _lost(worker, todo, "hangs")
                else:
                    continue
                workers[number] = _start(work)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _start(work: Work) -> Worker:
    context = get_context("fork")
    ours, theirs = context.Pipe()
    current = context.RawValue("q", -1)
    process = context.Process(target=_serve, args=(theirs, current, work, os.getpid()), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours, current)


def _give(worker: Worker, batch: list[Job]) -> None:
    worker.batch = batch
    worker.current.value = -1
    worker.seen, worker.since = -1, time.monotonic()
    worker.pipe.send(batch)


def _lost(worker: Worker, todo: list[list[Job]], how: str) -> Iterator[Result]:
    """End a worker that hangs or is gone; its cases are run anew but for the one that it was at."""
    worker.process.kill()
    worker.process.join()
    at = worker.current.value
    if at >= 0:
        code = worker.process.exitcode
        yield Result(worker.batch[at], Outcome(FAULT, "process", how, f"exit code {code}"), WALL)
    rest = worker.batch[: max(at, 0)] + worker.batch[at + 1 :]
    todo += [[job] for job in rest[: max(at, 0)]] + ([rest[max(at, 0) :]] if rest[max(at, 0) :] else [])


def _serve(pipe: Connection, current: Any, work: Work, parent: int) -> None:
    """What a worker does: batch after batch."""
    bound_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for who started them
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        while not pipe.poll(1.0):
            if os.getppid() != parent:  # it was killed, and nobody will read what is found
                return
        try:
            batch = pipe.recv()
        except EOFError:
            return
        results = []
        for number, job in enumerate(batch):
            current.value = number
            results.append(work(job))
        pipe.send(results)
