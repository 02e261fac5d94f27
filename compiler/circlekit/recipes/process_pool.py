# SPDX-License-Identifier: Apache-2.0
"""Many dredd tests on several processors; one that takes its process down takes no other with it."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

from circlekit.ir.resource_limits import Limits, limited, limits
from circlekit.recipes.dredd import Result, run_case
from circlekit.recipes.dredd_cases import Case

FEW = 8
"""Tests that are not worth the start of other processes."""


@dataclass(frozen=True)
class Settings:
    """``keep``: the folder that gets one folder for each test, None to leave no file."""

    keep: Path | None = None
    with_litert: bool = True
    limits: Limits = field(default_factory=limits)


def run_cases(
    cases: Sequence[Case], settings: Settings | None = None, jobs: int | None = None
) -> Iterator[tuple[int, Result]]:
    """(index of the case, its result), as they come.  ``jobs``: processes, by default one a processor."""
    settings = settings or Settings()
    folders = _folders(cases, settings.keep)
    jobs = min(jobs or _processors(), len(cases))
    if jobs <= 1 or len(cases) <= FEW:
        for index, (case, folder) in enumerate(zip(cases, folders, strict=True)):
            yield index, _within(settings, run_case, case, folder)
        return
    left = dict(enumerate(zip(cases, folders, strict=True)))
    for index, result in _run(left, jobs, settings):
        del left[index]
        yield index, result
    for index, item in left.items():  # some test took its process down: each of the others gets its own
        results = dict(_run({index: item}, 1, settings))
        yield index, results.get(index) or Result(item[0].name, failures=["the process of the test died"])


def _within(settings: Settings, run: Callable[..., Result], case: Case, folder: Path | None) -> Result:
    """One test, in whatever process, within the limits of the one that asks for it."""
    with limited(settings.limits.memory, settings.limits.calls):
        return run(case, folder, settings.with_litert)


Work = dict[int, tuple[Case, Path | None]]


def _run(work: Work, jobs: int, settings: Settings) -> Iterator[tuple[int, Result]]:
    """The results up to where a process dies."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of numpy's threads
    with ProcessPoolExecutor(jobs, context) as pool:
        futures: dict[Future[Result], int] = {
            pool.submit(_within, settings, run_case, *item): index for index, item in work.items()
        }
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            return


def _folders(cases: Sequence[Case], keep: Path | None) -> list[Path | None]:
    """A folder for each test below ``keep``, numbered where a name is not the first of its kind."""
    if keep is None:
        return [None] * len(cases)
    seen: dict[str, int] = {}
    folders: list[Path | None] = []
    for case in cases:
        name = re.sub(r"[^\w.+-]", "_", case.name).lstrip(".") or "_"  # a list may call a test ../../x
        count = seen[name] = seen.get(name, 0) + 1
        folders.append(keep / (name if count == 1 else f"{name}.{count}"))
    return folders


def _processors() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
