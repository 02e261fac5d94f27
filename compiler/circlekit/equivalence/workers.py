# SPDX-License-Identifier: Apache-2.0
"""Run jobs in worker processes, so that a job that crashes or never ends does not stop other jobs."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

J = TypeVar("J")  # a job
R = TypeVar("R")  # the result of a job

POLL_SECONDS = 1.0
"""The longest wait before the caller checks time limits, and before a worker checks that its parent lives."""

Tell = Callable[[Any], None]
"""A function that a job calls to report its progress, with any object; ``Loss.news`` has these objects."""


@dataclass(frozen=True)
class Loss(Generic[J]):
    """A job that has no result, because its process ended first.

    ``news``: the reports of the job, in order.  ``code``: the exit code of the process, -N after signal N;
    None if the caller ended the process because the job exceeded the time limit.
    """

    job: J
    news: tuple[Any, ...]
    code: int | None

    def __str__(self) -> str:
        if self.code is None:
            return "exceeds the time limit"
        names = {each.value: each.name for each in signal.Signals}  # not of every real-time signal
        end = names.get(-self.code, f"signal {-self.code}") if self.code < 0 else f"exit code {self.code}"
        return f"ends the process ({end})"


@dataclass(frozen=True)
class Workers(Generic[J, R]):
    """The settings of worker processes; ``results`` runs jobs in them.

    ``work``: runs one job; an exception that it does not catch ends the process.
    ``lost``: gets the ``Loss`` of a job, and returns what ``results`` then yields for this job.
    ``prepare``: is called at the start of each process.
    ``seconds``: the time limit of a job.
    ``ahead``: the number of jobs that a process holds at a time, the running one included; with more than
    one, the process need not wait for the next job when a short job ends.
    """

    work: Callable[[J, Tell], R]
    lost: Callable[[Loss[J]], R]
    prepare: Callable[[], None] = faulthandler.disable
    seconds: float = 60.0
    ahead: int = 1

    def results(self, jobs: Iterable[J], processes: int) -> Iterator[R]:
        """Yield the result of each job, in any order.

        ``processes``: the largest number of processes, 1 or more; one is started when there is a job for it.
        A job must not be None.  Jobs, results and reports are pickled.  If the iteration ends early, all
        processes are killed.
        """
        # ``repeated``: jobs whose process ended during another job; the last one is given out again first
        waiting, repeated = iter(jobs), list[J]()
        workers: list[_Worker[J, R]] = []

        def next_job() -> J | None:
            return repeated.pop() if repeated else next(waiting, None)

        try:
            while True:
                while len(workers) < processes and (job := next_job()) is not None:
                    workers.append(_Worker(self))
                    workers[-1].give(job)
                for worker in workers:
                    while len(worker.jobs) < self.ahead and (job := next_job()) is not None:
                        worker.give(job)
                busy = [worker for worker in workers if worker.jobs]
                if not busy:
                    return
                ready = wait([worker.pipe for worker in busy], POLL_SECONDS)
                now = time.monotonic()  # a result may arrive while the caller uses the one that is yielded
                for worker in busy:
                    yield from worker.receive() if worker.pipe in ready else worker.check_time(now)
                    if worker.has_ended:
                        repeated += list(worker.jobs)[::-1]
                        workers.remove(worker)
        finally:
            for worker in workers:
                worker.end()


class _Worker(Generic[J, R]):
    """One process and the jobs that it holds.

    ``jobs``: the first one runs, the others wait.  ``since``: the time at which the first job began.
    ``news``: the reports of the first job so far.
    ``has_ended``: whether the process was lost.
    """

    def __init__(self, settings: Workers[J, R]) -> None:
        self.settings = settings
        context = multiprocessing.get_context("fork")  # a forked process has ``work`` without pickling
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, settings.work, settings.prepare, os.getpid())
        self.process = context.Process(target=_serve, args=arguments)
        with _interrupts_blocked(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns that a fork copies no threads; workers need none
            self.process.start()
        theirs.close()
        self.jobs: deque[J] = deque()
        self.news: list[Any] = []
        self.since = 0.0
        self.has_ended = False

    def give(self, job: J) -> None:
        """Send ``job`` to the process, which runs it after the jobs that it holds."""
        if not self.jobs:
            self.since = time.monotonic()
        self.jobs.append(job)
        with suppress(OSError):  # receive() notices that the process has ended
            self.pipe.send(job)

    def receive(self) -> Iterator[R]:
        """Receive one message: yield a result, or keep a report.

        If the process has ended, or sent the report after the time limit, yield the result of the lost job.
        """
        try:
            is_result, content, sent = self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            yield self._lost(self.process.exitcode)
            return
        if not is_result:
            self.news.append(content)
            yield from self.check_time(sent)
            return
        self._next()
        yield content

    def check_time(self, now: float) -> Iterator[R]:
        """If the first job exceeds the time limit at ``now``, end the process and yield the job's result."""
        if now - self.since > self.settings.seconds:
            self.end()
            yield self._lost(None)

    def _lost(self, code: int | None) -> R:
        """Return the result that stands for the first job.  ``code``: see ``Loss``."""
        self.has_ended = True
        loss = Loss(self.jobs[0], tuple(self.news), code)
        self._next()
        return self.settings.lost(loss)

    def _next(self) -> None:
        """Note that the first job is done and the next one begins."""
        self.jobs.popleft()
        self.news.clear()
        self.since = time.monotonic()

    def end(self) -> None:
        """Kill the process and close its pipe."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(
    pipe: Connection, work: Callable[[Any, Tell], Any], prepare: Callable[[], None], parent: int
) -> None:
    """Run one job after the other in a worker process.

    Send (True, result, time) for each job, and (False, news, time) for each report of a job.  SIGINT stays
    blocked, as it was at the fork.
    """

    def send(is_result: bool, content: Any) -> None:
        pipe.send((is_result, content, time.monotonic()))

    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the handler that the caller may have set
    prepare()
    while True:
        while not pipe.poll(POLL_SECONDS):
            if os.getppid() != parent:  # the parent was killed
                return
        try:
            job = pipe.recv()
        except EOFError:
            return
        send(True, work(job, lambda news: send(False, news)))


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Return a context in which SIGINT is blocked for this thread.

    A process that is forked in this context never handles the signal; its parent does.
    """
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def silence_stderr() -> None:
    """Discard the standard error of this process, where libraries print the errors that they also raise."""
    faulthandler.disable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
