# SPDX-License-Identifier: Apache-2.0
"""Run many dredd tests in forked processes or on a cluster; a crash of a process fails only its test.

A dredd test runs passes on the model of a recipe and checks the result.  On systems that cannot fork, this
process runs the tests.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from circlekit.equivalence import litert
from circlekit.equivalence.fleet import run_jobs
from circlekit.passes.engine.registry import every_pass
from circlekit.recipes.dredd import Result, run_case
from circlekit.recipes.dredd_cases import Case

MAX_LAZY_IMPORT_TESTS = 8
"""For more tests than this, passes and LiteRT are imported before the processes are forked.

Then each process has them already.  For few tests, it is faster if each process imports only what it needs.
"""


def run_cases(
    cases: Sequence[Case],
    keep: Path | None = None,
    with_litert: bool = True,
    processes: int | None = None,
    client: Any = None,
) -> Iterator[tuple[int, Result]]:
    """Run the tests; yield (index of the case, its result), in any order.

    ``keep``: the folder in which each test gets a folder for its files; None: no files are kept.
    ``with_litert``: compare with LiteRT, if it is installed.
    ``processes``: the number of processes; None: one for each processor that this process may use.
    ``client``: a ``distributed.Client``, to run on its cluster; its workers must see the recipes' files.
    """
    used: set[str] = set()
    tests = [
        Test(case, None if keep is None else folder_in(keep, case.name, used), with_litert) for case in cases
    ]
    if client is not None:
        tests = [test.with_absolute_paths() for test in tests]
    elif len(cases) > MAX_LAZY_IMPORT_TESTS:
        _import_once(with_litert)
    # retries=0: a test that crashes a local process would crash it again
    yield from run_jobs(run_test, tests, _lost, client=client, processes=processes, retries=0)


class Test(NamedTuple):
    """A case, the folder that gets its files, and whether to compare with LiteRT."""

    case: Case
    folder: Path | None
    with_litert: bool

    def with_absolute_paths(self) -> Test:
        """Return the test with absolute paths, for a process with another working directory."""
        recipe = None if self.case.recipe is None else self.case.recipe.absolute()
        folder = None if self.folder is None else self.folder.absolute()
        return Test(replace(self.case, recipe=recipe), folder, self.with_litert)


def run_test(test: Test) -> Result:
    """Run one test; nothing is raised."""
    return run_case(*test)


def _lost(test: Test, reason: str) -> Result:
    """Return the result of a test that crashed its process or that a cluster gave up.

    ``reason``: a predicate, such as "was killed by signal 9".
    """
    return Result(test.case.name, failures=[f"the test {reason}"])


def _import_once(with_litert: bool) -> None:
    """Import the modules that most tests need."""
    import numpy.random  # noqa: F401  # numpy imports it only when it is used

    every_pass()
    if with_litert and litert.is_available():
        import ai_edge_litert.interpreter  # noqa: F401  # optional dependency


def folder_in(keep: Path, test: str, used: set[str]) -> Path:
    """Return a folder inside of ``keep`` for the files of a test; add its name to the names ``used``.

    The folder has the name of the test, without leading dots and with ``_`` in place of characters such as
    ``/``.  If this name is used, a number is added: ``Add.2``.
    """
    name = re.sub(r"[^\w.+-]", "_", test).lstrip(".") or "_"  # a name in a list may be ../../x
    numbered = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(2)))
    free = next(candidate for candidate in numbered if candidate not in used)
    used.add(free)
    return keep / free
