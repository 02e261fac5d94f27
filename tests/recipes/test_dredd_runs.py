# SPDX-License-Identifier: Apache-2.0
"""Many dredd tests at once, in processes.  Processes share imports; each test has a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from circlekit.equivalence import litert
from circlekit.recipes import dredd_runs
from circlekit.recipes.dredd import PASSED, Result, run_case
from circlekit.recipes.dredd_cases import Case, cases_of
from tests.recipes.breaking import die
from tests.recipes.test_dredd import MODEL


def many(folder: Path, count: int) -> list[Case]:
    for index in range(count):
        (folder / f"m{index:02}.ck").write_text(MODEL)
    return cases_of(folder)


@pytest.mark.parametrize("processes", [1, 2])
def test_results_are_independent_of_the_number_of_processes(processes: int, tmp_path: Path) -> None:
    cases = many(tmp_path, 4)
    found = dict(dredd_runs.run_cases(cases, tmp_path / "kept", False, processes))
    assert [found[i].name for i in range(len(cases))] == [c.name for c in cases]
    assert [found[i] for i in range(len(cases))] == [run_case(case, None, False) for case in cases]
    assert (tmp_path / "kept" / "m03" / "m03.circle").exists()


@pytest.mark.parametrize("processes", [1, 2])
def test_case_that_crashes_its_process_fails_alone(
    processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = tmp_path / "attempts"

    def die_for_m01(case: Case, folder: Path | None, with_litert: bool) -> Result:
        if case.name != "m01":
            return run_case(case, folder, with_litert)
        with attempts.open("a") as file:
            file.write("x")
        return die()

    cases = many(tmp_path, 8)  # more than the processes get at once
    monkeypatch.setattr(dredd_runs, "run_case", die_for_m01)
    found = dict(dredd_runs.run_cases(cases, None, False, processes))
    assert len(found) == len(cases)
    assert {found[i].name for i in range(len(cases)) if found[i].failures} == {"m01"}
    assert found[1].failures == ["the test ends the process (SIGABRT)"]
    assert attempts.read_text() == "x"


IMPORTS = """
import sys
from circlekit.recipes import dredd_runs
from circlekit.recipes.dredd_cases import cases_of

def run_case(*arguments, run=dredd_runs.run_case):
    before = {*sys.modules}
    result = run(*arguments)
    result.notes = [*({*sys.modules} - before)]
    return result

dredd_runs.run_case = run_case
for _, result in dredd_runs.run_cases(cases_of(sys.argv[1]), processes=2):
    print(result.status, *result.notes)
"""


def test_processes_of_many_tests_share_their_imports(tmp_path: Path) -> None:
    """No test imports a module in its process: importing in each process would take longer than the tests."""
    for number in range(dredd_runs.MAX_LAZY_IMPORT_TESTS + 1):
        (tmp_path / f"m{number}.ck").write_text(MODEL + "rules { passes(O1) }")
    command = [sys.executable, "-c", IMPORTS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{PASSED}\n" * (dredd_runs.MAX_LAZY_IMPORT_TESTS + 1)


@pytest.mark.parametrize(("is_wanted", "is_available"), [(False, False), (False, True), (True, False)])
def test_litert_is_imported_only_if_it_is_wanted_and_installed(
    is_wanted: bool, is_available: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litert, "is_available", lambda: is_available)
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)  # an import of it fails
    dredd_runs._import_once(is_wanted)


def test_cases_of_equal_name_get_separate_folders(tmp_path: Path) -> None:
    (tmp_path / "m.ck").write_text(MODEL)
    cases = cases_of(tmp_path) * 2
    assert [r.status for _, r in dredd_runs.run_cases(cases, tmp_path / "kept")] == [PASSED, PASSED]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["m", "m.2"]


def test_folders_of_tests_have_different_names(tmp_path: Path) -> None:
    used: set[str] = set()
    folders = [dredd_runs.folder_in(tmp_path, name, used) for name in ("m", "m", "m.2", "m", "a/b", "a_b")]
    assert folders == [tmp_path / name for name in ("m", "m.2", "m.2.2", "m.3", "a_b", "a_b.2")]


@pytest.mark.parametrize("path", [None, Path("folder")])
def test_paths_for_a_process_with_another_working_directory(path: Path | None) -> None:
    test = dredd_runs.Test(Case("model", path), path, with_litert=False).with_absolute_paths()
    absolute = None if path is None else Path.cwd() / "folder"
    assert (test.case.recipe, test.folder) == (absolute, absolute)
