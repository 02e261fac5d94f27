# SPDX-License-Identifier: Apache-2.0
"""Cases on several processes; one that takes its process down is an outcome like others."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from tools.kit.families import draw_case
from tools.kit.oracle import Outcome, Verdict, judge

TIME_LIMIT = 30.0
"""Seconds after which a case counts as one that hangs."""


class Job(NamedTuple):
    code: str
    seed: int
    number: int


class Done(NamedTuple):
    job: Job
    label: str
    outcome: Outcome


def run_here(job: Job, tell: Any = lambda *message: None) -> Done:
    """One case, in this process."""
    case = draw_case(*job)
    tell("label", case.label)
    return Done(job, case.label, judge(case, lambda name: tell("phase", name)))


def run_all(jobs: Sequence[Job], processes: int = 2) -> Iterator[Done]:
    """The outcome of every job, in the order in which they come."""
    waiting = iter(jobs)
    idle = [_Worker() for _ in range(processes)]
    busy: list[_Worker] = []
    while True:
        while idle and (job := next(waiting, None)) is not None:
            worker = idle.pop()
            worker.take(job)
            busy.append(worker)
        if not busy:
            break
        ready = wait([worker.pipe for worker in busy], timeout=1.0)
        for worker in list(busy):
            if worker.is_late():
                worker.kill()
            elif worker.pipe not in ready:
                continue
            done = worker.receive()
            if done is None:
                continue
            yield done
            busy.remove(worker)
            idle.append(worker if worker.process.is_alive() else _Worker())
    for worker in idle:
        worker.kill()


class _Worker:
    """A process that runs one case after the other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.job: Job | None = None
        self.label, self.phase, self.started = "?", "", 0.0

    def take(self, job: Job) -> None:
        self.job, self.label, self.phase, self.started = job, "?", "drawing", time.monotonic()
        self.pipe.send(job)

    def is_late(self) -> bool:
        return time.monotonic() - self.started > TIME_LIMIT

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def receive(self) -> Done | None:
        """The outcome, None while there is only news of the way to it."""
        try:
            kind, content = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            return self._lost()
        if kind == "done":
            return Done(*content)
        setattr(self, kind, content)
        return None

    def _lost(self) -> Done:
        self.process.join()
        assert self.job is not None
        what = "takes too long" if self.is_late() else f"takes the process down ({self.process.exitcode})"
        verdict = Verdict.NOT_LITERT if self.phase == "LiteRT" else Verdict.FAILED
        return Done(self.job, self.label, Outcome(verdict, f"{self.phase} {what}", runs=False))


def _serve(pipe: Connection) -> None:
    label = "?"

    def tell(kind: str, content: str) -> None:
        nonlocal label
        label = content if kind == "label" else label
        pipe.send((kind, content))

    faulthandler.disable()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)  # LiteRT prints what its exceptions say anyway
    while True:
        job, label = pipe.recv(), "?"
        try:
            done = run_here(job, tell)
        except Exception as error:  # whatever it is, it is a failure of this case
            done = Done(job, label, Outcome(Verdict.FAILED, f"{type(error).__name__}: {error}"[:300]))
        pipe.send(("done", done))
