# SPDX-License-Identifier: Apache-2.0
"""Seeds on several processes; one that takes its process down, or never ends, is a finding like others."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tools.random_graphs.battery import Finding, Result, examine

TIME_LIMIT = 600.0
"""Seconds after which a seed counts as one that hangs, on a machine that does much else."""


def examine_all(seeds: Sequence[int], passes: Sequence[str], jobs: int) -> Iterator[Result]:
    """The result of every seed, in the order in which they come."""
    waiting = iter(seeds)
    idle = [_Worker(passes) for _ in range(jobs)]
    busy: list[_Worker] = []
    while True:
        while idle and (seed := next(waiting, None)) is not None:
            worker = idle.pop()
            worker.take(seed)
            busy.append(worker)
        if not busy:
            break
        ready = wait([worker.pipe for worker in busy], timeout=1.0)
        for worker in list(busy):
            if worker.is_late():
                worker.stop()
            elif worker.pipe not in ready:
                continue
            result = worker.receive()
            if result is None:
                continue
            yield result
            busy.remove(worker)
            if worker.process.is_alive():
                idle.append(worker)
            else:
                worker.stop()
                idle.append(_Worker(passes))
    for worker in idle:
        worker.stop()


class _Worker:
    """A process that examines one seed after the other."""

    def __init__(self, passes: Sequence[str]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.folder = Path(tempfile.mkdtemp(prefix="random_graphs"))
        self.process = context.Process(target=_serve, args=(other, self.folder, passes), daemon=True)
        self.process.start()
        other.close()
        self.seed, self.phase, self.started = 0, "", 0.0

    def take(self, seed: int) -> None:
        self.seed, self.phase, self.started = seed, "making", time.monotonic()
        self.pipe.send(seed)

    def is_late(self) -> bool:
        return time.monotonic() - self.started > TIME_LIMIT

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self) -> Result | None:
        """The result, None while there is only news of the way to it."""
        try:
            found = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            result = Result(self.seed)
            if self.phase != "LiteRT":  # which may abort on what it does not like
                what = "hangs" if self.is_late() else f"takes the process down ({self.process.exitcode})"
                result.findings.append(Finding(self.seed, "lost", (self.phase,), "", f"{self.phase} {what}"))
            return result
        if isinstance(found, Result):
            return found
        self.phase = found
        return None


def _serve(pipe: Connection, folder: Path, passes: Sequence[str]) -> None:
    faulthandler.disable()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)  # LiteRT prints what its exceptions say anyway
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        try:
            result = examine(seed, folder, pipe.send, passes)
        except Exception as error:  # a mistake of the tool, or a model that cannot even be printed
            place = traceback.format_exc(limit=-3)[-400:]
            what = f"{type(error).__name__}: {error}"
            result = Result(
                seed, findings=[Finding(seed, f"tool {type(error).__name__}", (), "", what + place)]
            )
        pipe.send(result)
