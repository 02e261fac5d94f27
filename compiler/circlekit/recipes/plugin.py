# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that runs recipes as tests: ``pytest -p circlekit.recipes.plugin FOLDER``.

A recipe is a model as text.  These are the tests:

- each ``test.recipe``;
- each block of rules in a ``*.ck`` recipe; a recipe without blocks is one test;
- each case of a list (a ``*.lst`` file, or a ``.tsv`` file whose first line is ``recipe<tab>passes``).

Options:

    --dredd-recipes DIR    folder with the recipes of lists, by default the list's folder; may be repeated
    --dredd-passes P,P     names of passes, to run on recipes that name none; without effect on lists
    --dredd-keep DIR       keep the files of each test in DIR/NAME; a name that occurs again gets a number
    --dredd-no-litert      do not compare with LiteRT, even if it is installed

No test is skipped.  A test whose values cannot be compared has a note with the reason.  pytest's option
``-rP`` shows the notes of tests that passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from circlekit.equivalence import litert
from circlekit.passes.engine.registry import unknown_pass
from circlekit.recipes.dredd import Result, run_case
from circlekit.recipes.dredd_cases import CK_SUFFIX, ONE_RECIPE, Case, cases_of
from circlekit.recipes.dredd_runs import folder_in

USED_FOLDERS = pytest.StashKey[set[str]]()
"""The names of the folders in ``--dredd-keep`` that tests of this run have."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("dredd", "tests of recipes")
    group.addoption("--dredd-recipes", action="append", default=[], metavar="DIR")
    group.addoption("--dredd-passes", default="", metavar="P,P")
    group.addoption("--dredd-keep", default=None, metavar="DIR")
    group.addoption("--dredd-no-litert", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    """Raise UsageError if ``--dredd-passes`` has an unknown pass."""
    unknown = next(filter(None, map(unknown_pass, _default_passes(config))), "")
    if unknown:
        raise pytest.UsageError(f"--dredd-passes: {unknown}")


def _default_passes(config: pytest.Config) -> list[str]:
    """Return the passes for recipes that name none."""
    return str(config.getoption("--dredd-passes")).replace(",", " ").split()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return [a line that says why LiteRT is not used]; [] if values are compared with LiteRT."""
    reason = litert.why_not_compared(not config.getoption("--dredd-no-litert"))
    return [f"dredd: values are not compared with LiteRT: {reason}"] if reason else []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for a recipe or a list of recipes; None for other files."""
    is_list = file_path.suffix == ".tsv" and file_path.read_bytes().startswith(b"recipe\tpasses")
    if file_path.name == ONE_RECIPE or file_path.suffix in (CK_SUFFIX, ".lst") or is_list:
        return RecipeFile.from_parent(parent, path=file_path)
    return None


class RecipeFile(pytest.File):
    """A recipe or a list of recipes."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the tests of the file; a name that occurs again gets a number: ``Add.2``."""
        seen: dict[str, int] = {}
        passes, keep = _default_passes(self.config), self.config.getoption("--dredd-keep")
        used = self.config.stash.setdefault(USED_FOLDERS, set())
        for case in cases_of(self.path, self.config.getoption("--dredd-recipes"), passes):
            count = seen[case.name] = seen.get(case.name, 0) + 1
            name = case.name if count == 1 else f"{case.name}.{count}"
            folder = None if keep is None else folder_in(Path(keep), name, used)
            yield RecipeItem.from_parent(self, name=name, case=case, folder=folder)


class RecipeItem(pytest.Item):
    """One dredd test; ``folder`` gets its files, unless it is None."""

    def __init__(self, *, case: Case, folder: Path | None, **keywords: object) -> None:
        super().__init__(**keywords)  # type: ignore[arg-type]  # the keywords are those of from_parent
        self.case, self.folder = case, folder

    def runtest(self) -> None:
        """Run the test; raise DreddFailure if it fails."""
        result = run_case(self.case, self.folder, not self.config.getoption("--dredd-no-litert"))
        for note in result.notes:
            self.add_report_section("call", "dredd", note)
        if result.failures:
            raise DreddFailure(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        """Return the failures instead of a traceback, which would show only the runner."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return (path, no line number, the name of the test with its passes)."""
        return self.path, None, f"{self.name}: {' '.join(self.case.passes)}".rstrip(": ")


class DreddFailure(Exception):
    """A test has failed.  The first line of the text is the reason; the failures with their places follow."""

    def __init__(self, result: Result) -> None:
        lines = "\n".join(result.failures).splitlines()
        rest = lines[1:] if lines[0] == result.reason else lines  # not the reason twice
        super().__init__("\n".join([result.reason, *rest]))
