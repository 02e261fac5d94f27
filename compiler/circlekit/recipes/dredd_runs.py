# SPDX-License-Identifier: Apache-2.0
"""Run many dredd tests in worker processes; a test that crashes its process fails alone.

The processes are forked, if the system can do that: they share what was imported before.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from multiprocessing import get_all_start_methods
from pathlib import Path

from circlekit.equivalence import litert
from circlekit.equivalence.workers import Loss, Tell, Workers
from circlekit.ir.resources.progress import Progress, watched
from circlekit.passes.engine.registry import every_pass
from circlekit.recipes.dredd import Result, run_case
from circlekit.recipes.dredd_cases import Case

MAX_LAZY_IMPORT_TESTS = 8
"""For more tests, passes and LiteRT are imported before the processes are forked, which then share them."""


def run_cases(
    cases: Sequence[Case], keep: Path | None = None, with_litert: bool = True, processes: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Yield (index of the case, its result) in any order.

    ``keep``: a folder that gets a folder with the files of each test; None keeps no files.  ``with_litert``:
    compare with LiteRT, if installed.  ``processes``: by default one per processor that this process may use.
    """
    folders = _folders(cases, keep)

    def run(index: int, tell: Tell) -> tuple[int, Result]:
        with watched(Progress()):  # progress counts tests, not their steps
            return index, run_case(cases[index], folders[index], with_litert)

    def lost(loss: Loss[int]) -> tuple[int, Result]:
        return loss.job, Result(cases[loss.job].name, failures=[f"the test {loss}"])

    if "fork" not in get_all_start_methods():
        yield from (run(index, lambda news: None) for index in range(len(cases)))
        return
    if len(cases) > MAX_LAZY_IMPORT_TESTS:
        _import_once(with_litert)
    count = min(processes or _processors(), len(cases))
    yield from Workers(run, lost, seconds=math.inf, ahead=2).results(range(len(cases)), count)


def _import_once(with_litert: bool) -> None:
    """Import what most tests need."""
    import numpy.random  # noqa: F401  # numpy itself imports it only when it is used

    every_pass()
    if with_litert and litert.is_available():
        import ai_edge_litert.interpreter  # noqa: F401  # optional dependency


def _processors() -> int:
    """Return the number of processors that this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


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
