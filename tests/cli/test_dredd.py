# SPDX-License-Identifier: Apache-2.0
"""The dredd command: its table, its last line, its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.cli.dredd import _row, main
from circlekit.recipes.dredd import Result

MODEL = "graph main(%x: f32[2]) -> %y {\n  %z = Relu(%x) : f32[2]\n  %y = Relu(%z) : f32[2]\n}\n"

Output = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.ck").write_text(MODEL + "rules { total(at_most(2)) }")
    (tmp_path / "Relu_000").mkdir()
    (tmp_path / "Relu_000" / "test.recipe").write_text(MODEL)
    (tmp_path / "Relu_000" / "test.rule").write_text("RULE RELUS $(op_count RELU) '=' 1\n")
    return tmp_path


def test_passing_cases_exit_with_zero(folder: Path, capsys: Output) -> None:
    assert main([str(folder), "--no-litert"]) == 0
    text = capsys.readouterr().out
    assert text == (
        "\n2 tests: 2 passed, 0 failed, 0 with passes that do not exist; "
        "values compared in 2, with LiteRT in 0\n"
    )


def test_table_of_results(folder: Path, capsys: Output) -> None:
    assert main([str(folder), "--no-litert", "--all", "--passes", "remove_redundant_activation"]) == 0
    head, first, second, *_ = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["test", "status", "operators", "rules", "values", "LiteRT", "notes"]
    assert first[:5] == ["Relu_000", "passed", "2", "->", "1"]
    assert second[:6] == ["good", "passed", "2", "->", "1", "1"]


def test_failure_is_shown_with_the_model(folder: Path, capsys: Output) -> None:
    (folder / "a.lst").write_text("Add(Relu_000 PASS remove_dead)\nAdd(Relu_000 PASS fold_moon)\n")
    assert main([str(folder / "a.lst"), "--no-litert"]) == 1
    text = capsys.readouterr().out
    assert "test.rule:1:1: RELUS: op_count RELU: expected = 1, got 2\n  graph main(%x) -> %y {\n" in text
    assert "no pass is named fold_moon" in text
    assert "2 tests: 0 passed, 1 failed, 1 with passes that do not exist" in text
    assert main([str(folder / "a.lst"), "--no-litert", "--no-rules"]) == 0


def test_keep_option_keeps_the_files(folder: Path) -> None:
    assert main([str(folder / "good.ck"), "--no-litert", "--keep", str(folder / "kept")]) == 0
    names = {path.name for path in (folder / "kept" / "good").iterdir()}
    assert {"good.circle", "good.opt.circle", "input.h5", "expected.h5", "opt.expected.h5"} <= names


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["/absent.lst"], 1, "/absent.lst"),
        (["-j", "0", "x"], 2, "argument -j: expected an integer above 0, got '0'"),
        ([], 2, "list_or_folder"),
        (["x", "--kep", "y"], 2, "unknown flag --kep"),
    ],
)
def test_wrong_usage(arguments: list[str], code: int, message: str, capsys: Output) -> None:
    assert main(arguments) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("length", "shown"), [(110, "n" * 110), (111, "n" * 107 + "...")])
def test_a_row_of_the_table(length: int, shown: str) -> None:
    assert _row(Result("a", notes=["n" * length])) == ("a", "passed", "", "", "", "", shown)
    result = Result("a", missing=["x", "y"], notes=["z"], before=3, after=1, rules=2, compared=4, litert=5)
    assert _row(result) == ("a", "missing", "3 -> 1", "2", "4", "5", "no pass is named x, y; z")
    assert _row(Result("a", failures=["f"], before=3))[1:3] == ("failed", "3")
