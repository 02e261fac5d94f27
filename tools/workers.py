# SPDX-License-Identifier: Apache-2.0
"""Jobs on several processes; one that takes its process down, or never ends, has a result like others.

Workers are forked: they have all that the caller has imported and made.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

J = TypeVar("J")
R = TypeVar("R")

Tell = Callable[[Any], None]
"""Is told by a job how far it is, for when it does not come back."""


@dataclass(frozen=True)
class Loss(Generic[J]):
    """A job that did not come back.

    ``news``: what it told, in order.  ``code``: the exit code of its process; None where that was ended
    for the job took too long.
    """

    job: J
    news: tuple[Any, ...]
    code: int | None

    def __str__(self) -> str:
        return "takes too long" if self.code is None else f"takes the process down ({self.code})"


@dataclass(frozen=True)
class Workers(Generic[J, R]):
    """How to do jobs.

    ``work`` does one, in a process of its own; an exception that it lets through ends that process.
    ``lost`` is the result of one that did not come back, ``prepare`` what each process does first.
    ``seconds``: how long a job may take.  ``ahead``: how many jobs a process is given at a time, so that it
    need not wait for the next: more than one where they are short.
    """

    work: Callable[[J, Tell], R]
    lost: Callable[[Loss[J]], R]
    prepare: Callable[[], None] = faulthandler.disable
    seconds: float = 60.0
    ahead: int = 1

    def results(self, jobs: Iterable[J], processes: int) -> Iterator[R]:
        """The result of every job, in the order in which they come."""
        waiting, again = iter(jobs), list[J]()
        crew = [_Worker(self) for _ in range(processes)]
        try:
            while True:
                for worker in crew:
                    while len(worker.jobs) < self.ahead:
                        job = again.pop() if again else next(waiting, None)
                        if job is None:
                            break
                        worker.give(job)
                busy = [worker for worker in crew if worker.jobs]
                if not busy:
                    return
                ready = wait([worker.pipe for worker in busy], 1.0)
                for worker in busy:
                    yield from worker.receive() if worker.pipe in ready else worker.late()
                    if worker.is_gone:
                        again += list(worker.jobs)[::-1]
                        crew[crew.index(worker)] = _Worker(self)
        finally:
            for worker in crew:
                worker.end()


class _Worker(Generic[J, R]):
    """One process, and the jobs that it was given; ``since``: when it began with the first of them."""

    def __init__(self, how: Workers[J, R]) -> None:
        self.how = how
        context = get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, how, os.getpid()))
        self.process.start()
        theirs.close()
        self.jobs: deque[J] = deque()
        self.news: list[Any] = []
        self.since = 0.0
        self.is_gone = False

    def give(self, job: J) -> None:
        if not self.jobs:
            self.since = time.monotonic()
        self.jobs.append(job)
        with suppress(OSError):  # a process that is gone is seen when it is heard
            self.pipe.send(job)

    def receive(self) -> Iterator[R]:
        """The result that has come; none where it is news, or nothing at all."""
        try:
            is_result, content = self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            yield self._lost(self.process.exitcode)
            return
        if not is_result:
            self.news.append(content)
            return
        self._next()
        yield content

    def late(self) -> Iterator[R]:
        """The result of a job that has taken too long; none while there is time."""
        if time.monotonic() - self.since > self.how.seconds:
            self.end()
            yield self._lost(None)

    def _lost(self, code: int | None) -> R:
        self.is_gone = True
        loss = Loss(self.jobs[0], tuple(self.news), code)
        self._next()
        return self.how.lost(loss)

    def _next(self) -> None:
        self.jobs.popleft()
        self.news.clear()
        self.since = time.monotonic()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, how: Workers[Any, Any], parent: int) -> None:
    """What a worker does: one job after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for who started them
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    how.prepare()
    while True:
        while not pipe.poll(1.0):
            if os.getppid() != parent:  # it was killed, and nobody will read what is found
                return
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send((True, how.work(job, lambda news: pipe.send((False, news)))))


def quiet() -> None:
    """Nothing that this process writes on standard error is seen: libraries print what they also raise."""
    faulthandler.disable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
