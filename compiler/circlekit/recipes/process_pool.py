# SPDX-License-Identifier: Apache-2.0
"""Run many dredd tests in several processes; a test that crashes its process fails alone."""

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

MAX_SERIAL = 8
"""At most so many tests are run in this process: starting others would take longer."""


@dataclass(frozen=True)
class Settings:
    """``keep``: the folder that gets one folder for each test; None keeps no files."""

    keep: Path | None = None
    with_litert: bool = True
    limits: Limits = field(default_factory=limits)


def run_cases(
    cases: Sequence[Case], settings: Settings | None = None, jobs: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Yield (index of the case, its result) in any order.  ``jobs``: processes, default one per processor."""
    settings = settings or Settings()
    folders = _folders(cases, settings.keep)
    jobs = min(jobs or _processors(), len(cases))
    if jobs <= 1 or len(cases) <= MAX_SERIAL:
        for index, (case, folder) in enumerate(zip(cases, folders, strict=True)):
            yield index, _within(settings, run_case, case, folder)
        return
    left = dict(enumerate(zip(cases, folders, strict=True)))
    for index, result in _run(left, jobs, settings):
        del left[index]
        yield index, result
    for index, item in left.items():  # a test crashed its process: run each of the others in one of its own
        results = dict(_run({index: item}, 1, settings))
        yield index, results.get(index) or Result(item[0].name, failures=["the process of the test crashed"])


def _within(settings: Settings, run: Callable[..., Result], case: Case, folder: Path | None) -> Result:
    """Run one test within the limits of the calling process."""
    with limited(settings.limits.memory, settings.limits.calls):
        return run(case, folder, settings.with_litert)


Work = dict[int, tuple[Case, Path | None]]


def _run(work: Work, jobs: int, settings: Settings) -> Iterator[tuple[int, Result]]:
    """Yield the results until a process crashes."""
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that numpy's threads hold
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


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
