# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that runs recipes as tests: ``pytest -p circlekit.recipes.plugin FOLDER``.

A test is a ``test.recipe``, a ``*.ck`` file or each block of rules in it, or a line of a list (``test.lst``,
or a ``.tsv`` file whose first line is ``recipe<tab>passes``).

    --dredd-recipes DIR    folder of the recipes that lists name, by default the list's; may be repeated
    --dredd-passes P,P     passes for recipes that name none
    --dredd-keep DIR       keep the files of each test in DIR/NAME
    --dredd-no-litert      do not compare with LiteRT, even if it is installed

No test is skipped.  Notes on what was not compared are shown with ``-rP``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from circlekit.equivalence import litert
from circlekit.passes.engine.registry import unknown_pass
from circlekit.recipes.dredd import Result, run_case
from circlekit.recipes.dredd_cases import ONE_RECIPE, TEXT, Case, cases_of


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dredd", "tests of recipes")
    group.addoption("--dredd-recipes", action="append", default=[], metavar="DIR")
    group.addoption("--dredd-passes", default="", metavar="P,P")
    group.addoption("--dredd-keep", default=None, metavar="DIR")
    group.addoption("--dredd-no-litert", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    unknown = next(filter(None, map(unknown_pass, _passes_for_all(config))), "")
    if unknown:
        raise pytest.UsageError(f"--dredd-passes: {unknown}")


def _passes_for_all(config: pytest.Config) -> list[str]:
    return str(config.getoption("--dredd-passes")).replace(",", " ").split()


def pytest_report_header(config: pytest.Config) -> list[str]:
    reason = litert.why_not_compared(not config.getoption("--dredd-no-litert"))
    return [f"dredd: values are not compared with LiteRT: {reason}"] if reason else []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    is_list = file_path.suffix == ".tsv" and file_path.read_bytes().startswith(b"recipe\tpasses")
    if file_path.name == ONE_RECIPE or file_path.suffix in (TEXT, ".lst") or is_list:
        return RecipeFile.from_parent(parent, path=file_path)
    return None


class RecipeFile(pytest.File):
    """A recipe or a list of recipes."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the tests of the file; repeated names get a number."""
        seen: dict[str, int] = {}
        passes = _passes_for_all(self.config)
        for case in cases_of(self.path, self.config.getoption("--dredd-recipes"), passes):
            count = seen[case.name] = seen.get(case.name, 0) + 1
            name = case.name if count == 1 else f"{case.name}.{count}"
            yield RecipeItem.from_parent(self, name=name, case=case)


class RecipeItem(pytest.Item):
    """One dredd test."""

    def __init__(self, *, case: Case, **keywords: object) -> None:
        super().__init__(**keywords)  # type: ignore[arg-type]  # what from_parent hands on
        self.case = case

    def runtest(self) -> None:
        keep = self.config.getoption("--dredd-keep")
        folder = None if keep is None else Path(keep) / self.name
        result = run_case(self.case, folder, not self.config.getoption("--dredd-no-litert"))
        for note in result.notes:
            self.add_report_section("call", "dredd", note)
        if result.failures:
            raise DreddFailure(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        """Return the failures; a traceback would show only the runner.  The first line is in the summary."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.name}: {' '.join(self.case.passes)}".rstrip(": ")


class DreddFailure(Exception):
    """A failed test; its text is the reason in one line, then the failures with their places."""

    def __init__(self, result: Result) -> None:
        lines = "\n".join(result.failures).splitlines()
        super().__init__("\n".join([result.reason, *lines[lines[0] == result.reason :]]))
