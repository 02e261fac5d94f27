# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin, run by another pytest: in a process of its own, or in this one by pytester."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import circlekit.recipes.plugin  # noqa: F401  # here, because pytester would import numpy a second time

pytest_plugins = ["pytester"]

MODEL = "graph main(%x: f32[2]) -> %y {\n  %z = Relu(%x) : f32[2]\n  %y = Relu(%z) : f32[2]\n}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.ck").write_text(MODEL + "rules { total(2) } rules { total(2) passes(remove_dead) }")
    (tmp_path / "misspelt.ck").write_text(MODEL + "rules { passes(remove_deed) }")
    (tmp_path / "bad.ck").write_text(MODEL + "rules { ops(Relu: 1) }")
    (tmp_path / "Relu_000").mkdir()
    (tmp_path / "Relu_000" / "test.recipe").write_text(MODEL)
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "test.lst").write_text("Add(Relu_000 PASS remove_dead)\neval(Relu_000 O1)\n")
    (tmp_path / "lists" / "numbers.tsv").write_text("one\ttwo\n1\t2\n")
    return tmp_path


def run_pytest(folder: Path, *flags: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "circlekit.recipes.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *flags, "."], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_recipes_and_lists_are_collected(folder: Path) -> None:
    flags = ["-v", "-rf", "--dredd-recipes", str(folder), "--dredd-keep", str(folder / "kept")]
    code, text = run_pytest(folder, *flags)
    assert code == 1
    for name, outcome in [
        ("good.ck::good-1", "PASSED"),
        ("good.ck::good-2", "PASSED"),
        ("misspelt.ck::misspelt", "FAILED"),
        ("bad.ck::bad", "FAILED"),
        ("Relu_000/test.recipe::Relu_000", "PASSED"),
        ("lists/test.lst::Relu_000 ", "PASSED"),
        ("lists/test.lst::Relu_000.2", "PASSED"),
    ]:
        (line,) = [x for x in text.splitlines() if x.startswith(name) and "%" in x]
        assert outcome in line
    assert "misspelt.ck:5:9: there is no pass or pipeline 'remove_deed'; did you mean remove_dead" in text
    assert "ops(Relu: 1): expected 1 Relu, got 2" in text
    summary = [line for line in text.splitlines() if line.startswith("FAILED")]
    assert summary[0].startswith("FAILED bad.ck::bad - ops(Relu: 1): expected 1 Relu, got 2")
    assert summary[1].startswith("FAILED misspelt.ck::misspelt - there is no pass or pipeline 'remove_deed'")
    assert "Traceback" not in text
    assert "2 failed, 5 passed" in text
    kept = {path.parent.name for path in (folder / "kept").glob("*/Relu_000.opt.circle")}
    assert kept == {"Relu_000", "Relu_000.2", "Relu_000.2.2"}, "expected a folder for each of the three tests"


def test_without_litert(folder: Path) -> None:
    """With the flag, LiteRT is not even imported, and the header says that LiteRT is not asked."""
    code = "import sys, pytest; code = pytest.main(sys.argv[1:]); print(*sys.modules); sys.exit(code)"
    flags = ["-p", "circlekit.recipes.plugin", "-p", "no:cacheprovider", "--dredd-no-litert", "good.ck"]
    command = [sys.executable, "-c", code, *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "dredd: values are not compared with LiteRT: LiteRT is not asked, as requested" in done.stdout
    assert "2 passed" in done.stdout
    assert "ai_edge_litert.interpreter" not in done.stdout.splitlines()[-1].split()


def test_passes_option_applies_to_recipes_without_passes(folder: Path, pytester: pytest.Pytester) -> None:
    (folder / "bad.ck").unlink()
    (folder / "lists" / "test.lst").unlink()
    (folder / "dead.ck").write_text(MODEL.replace("}", "  %u = Relu(%x)\n}") + "rules { total(2) }")
    flags = ["-p", "circlekit.recipes.plugin", "-rs", "--dredd-passes", "remove_dead"]
    result = pytester.runpytest_inprocess(*flags, folder)
    result.assert_outcomes(passed=4, failed=1)  # good twice, dead and Relu_000; misspelt
    result = pytester.runpytest_inprocess(*flags[:-1], "remove_deed", folder)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --dredd-passes: *'remove_deed'; did you mean remove_dead*"])
