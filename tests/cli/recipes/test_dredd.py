# SPDX-License-Identifier: Apache-2.0
"""The dredd command: its table, its last line, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import junitparser
import pytest

from circlekit.cli.recipes.dredd import _report, _row, main
from circlekit.recipes.dredd import Result
from circlekit.recipes.dredd_cases import Case
from tests.cli.call_command import call_command

MODEL = "graph main(%x: f32[2]) -> %y {\n  %z = Relu(%x) : f32[2]\n  %y = Relu(%z) : f32[2]\n}\n"

RECIPES = Path(__file__).parents[3] / "recipes"

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
    assert capsys.readouterr().out == (
        "\n2 tests: 2 passed, 0 failed\nvalues compared in 2, LiteRT is not asked, as requested\n"
    )


def test_a_source_that_does_not_exist_is_an_error(folder: Path, capsys: Output) -> None:
    assert main([str(folder), str(folder / "nosuch"), "--no-litert"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "nosuch: cannot be read: No such file or directory" in captured.err


def test_table_of_results(folder: Path, capsys: Output) -> None:
    passes = ["--passes", "remove_redundant_activation", "--passes", "remove_dead"]
    assert main([str(folder), "--no-litert", "--all", *passes]) == 0
    head, first, second, *_ = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["status", "operators", "rules", "values", "LiteRT", "test"]
    assert (first[:4], first[-1]) == (["passed", "2", "->", "1"], "Relu_000")
    assert (second[:5], second[-1]) == (["passed", "2", "->", "1", "1"], "good")


def test_notes_stand_below_their_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    fake = "%a = FakeQuant(%x) {min: -1.0, max: 1.0, num_bits: 8} : f32[2]"
    (tmp_path / "noisy.ck").write_text(f"graph main(%x: f32[2]) -> %y {{ {fake}  %y = Neg(%a) : f32[2] }}")
    assert main([str(tmp_path), "--no-litert", "--passes", "remove_fakequant"]) == 0
    _, row, *notes = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert row.split()[-1] == "noisy"
    assert max(map(len, notes)) <= 50
    assert " ".join(" ".join(notes).split()) == (
        "values not compared: remove_fakequant changed the model by design"
    )


def test_a_line_break_in_a_name_is_escaped(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "two\nlines.ck").write_text(MODEL)
    assert main([str(tmp_path), "--no-litert", "--all"]) == 0
    assert "  two\\nlines\n" in capsys.readouterr().out


def test_failure_is_shown_with_the_model(folder: Path, capsys: Output) -> None:
    (folder / "a.lst").write_text("Add(Relu_000 PASS remove_dead)\nAdd(Relu_000 PASS remove_deed)\n")
    assert main([str(folder / "a.lst"), "--no-litert"]) == 1
    text = capsys.readouterr().out
    assert "test.rule:1:1: RELUS: op_count RELU: expected = 1, got 2\n  graph main(%x) -> %y {\n" in text
    assert "a.lst:2:1: there is no pass or pipeline 'remove_deed'; did you mean remove_dead" in text
    assert "2 tests: 0 passed, 2 failed" in text
    (folder / "a.lst").write_text("Add(Relu_000 PASS remove_dead)\n")
    assert main([str(folder / "a.lst"), "--no-litert", "--no-rules"]) == 0


def test_misspelt_pass_fails_the_command(folder: Path) -> None:
    """The message has the place, in a recipe or in either kind of list, and the nearest name."""
    texts = {
        "a.ck": MODEL + "rules { passes(O1, remove_deed) }",
        "a.lst": "eval(Relu_000 O1 remove_deed)",
        "a.tsv": "recipe\tpasses\nRelu_000\tremove_deed",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    done = call_command("dredd", *(str(folder / name) for name in texts), "--no-litert")
    assert done.returncode == 1
    for place in ("a.ck:5:9", "a.lst:1:1", "a.tsv:2:1"):
        message = f"{place}: there is no pass or pipeline 'remove_deed'; did you mean remove_dead"
        assert message in done.stdout
    assert "3 tests: 0 passed, 3 failed" in done.stdout


def test_wrong_refusal_shows_three_similar_ones(tmp_path: Path) -> None:
    """O1 refuses more than three rewrites; the nearest three are shown, each on a line up to 80 columns."""
    layer = "%1 = FullyConnected(%x, %w, %b) {act: RELU}  %y = Mul(%1, [2.0, 0.5, 1.5, 3.0])"
    constants = "%w = const f32[4,3] gaussian(0, 1)  %b = const f32[4] gaussian(0, 1)"
    rules = 'rules { passes(O1) refused("act is RELU6, expected NONE") }'
    (tmp_path / "net.ck").write_text(f"graph main(%x: f32[2,3]) -> %y {{ {constants} {layer} }}\n{rules}")
    done = call_command("dredd", str(tmp_path / "net.ck"), "--no-litert")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.endswith("refusals are:")]
    assert lines[at + 1] == "    %1: act is RELU, expected NONE"
    assert [line.startswith("    %") for line in lines[at + 1 : at + 5]] == [True, True, True, False]
    assert max(map(len, lines[at + 1 : at + 4])) <= 80


NOT_RUN = "graph main(%x: f32[2,2], %p: i32[2]) -> %y { %y = Transpose(%x, %p) : f32[2,2] }"


@pytest.mark.parametrize("block", [True, False])
def test_recipes_pass_without_litert(block: bool, folder: Path) -> None:
    """LiteRT is blocked, or refused by --no-litert; in both cases it is not imported."""
    (folder / "not_run.ck").write_text(NOT_RUN)
    reason = "sys.modules['ai_edge_litert'] = None;" if block else "sys.argv.append('--no-litert');"
    code = f"import sys; {reason} from circlekit.cli.recipes.dredd import main; code = main()"
    code += "; print(*sys.modules)"
    command = [sys.executable, "-c", f"{code}; sys.exit(code)", "-j", "1", str(folder / "good.ck")]
    command += [str(folder / "not_run.ck"), *map(str, sorted((RECIPES / "nets").glob("t*.ck")))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    *_, last, modules = done.stdout.splitlines()
    assert last.endswith("LiteRT is not installed" if block else "LiteRT is not asked, as requested")
    assert "does not run (LiteRT was not asked whether it runs there)" in " ".join(done.stdout.split())
    assert "ai_edge_litert.interpreter" not in modules.split()


def test_json_has_the_results(folder: Path) -> None:
    path = folder / "results.json"
    assert main([str(folder), "--no-litert", "--json", str(path), "-j", "1"]) == 0
    results = json.loads(path.read_text())["results"]
    assert [(r["name"], r["status"], r["failures"]) for r in results] == [
        ("Relu_000", "passed", []),
        ("good", "passed", []),
    ]


def test_keep_option_keeps_the_files(folder: Path) -> None:
    assert main([str(folder / "good.ck"), "--no-litert", "--keep", str(folder / "kept")]) == 0
    names = {path.name for path in (folder / "kept" / "good").iterdir()}
    assert {"good.circle", "good.opt.circle", "input.h5", "expected.h5", "opt.expected.h5"} <= names


def test_a_model_is_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(bytes(4) + b"TFL3" + bytes(8))
    done = call_command("dredd", str(tmp_path / "net.tflite"))
    assert done.returncode == 1
    assert "net.tflite: expected a text, got a tflite model" in done.stdout
    assert "\n1 test: 0 passed, 1 failed\n" in done.stdout


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


def test_a_row_of_the_table() -> None:
    assert _row(Result("a", notes=["n"])) == ("passed", "", "", "", "", "a")
    result = Result("a", before=3, after=1, rules=2, compared=4, litert=5)
    assert _row(result) == ("passed", "3 -> 1", "2", "4", "5", "a")
    assert _row(Result("a", failures=["f"], before=3))[:2] == ("failed", "3")


def test_junit_xml_has_the_results_of_the_tests(folder: Path, capsys: Output) -> None:
    """The package junitparser finds the same tests and reasons in the files of dredd and of pytest."""
    (folder / "bad.ck").write_text(MODEL + "rules { ops(Relu: 1) value(%q) }")
    (folder / "lost.ck").write_text("graph main(%x: f32[2]) -> %y { %y = Rel\x1bu(%x) }")
    ours, theirs = folder / "ours.xml", folder / "theirs.xml"
    assert main([str(folder), "--no-litert", "--junit", str(ours)]) == 1
    command = [sys.executable, "-m", "pytest", "-p", "circlekit.recipes.plugin", f"--junitxml={theirs}"]
    subprocess.run([*command, "--dredd-no-litert", str(folder)], capture_output=True, check=False)
    found, expected = ({test.name: test for test in _tests_of(path)} for path in (ours, theirs))
    assert list(found) == ["Relu_000", "bad", "good", "lost"]
    assert found.keys() == expected.keys()
    for name, test in found.items():
        assert test.time > 0
        reasons = [[result.message for result in one.result] for one in (test, expected[name])]
        assert [len(reason) for reason in reasons] == [name in ("bad", "lost")] * 2
        for reason, whole in zip(*reasons, strict=True):
            assert whole.startswith(reason)
    assert found["bad"].result[0].message == "ops(Relu: 1): expected 1 Relu, got 2"
    assert found["bad"].result[0].text.endswith("bad.ck:5:9: ops(Relu: 1): expected 1 Relu, got 2")
    assert "%z = Relu(%x)" in found["bad"].system_out
    assert found["lost"].result[0].message == r"unexpected character '\x1b'"
    assert found["bad"].classname.endswith(folder.name)
    (suite,) = junitparser.JUnitXml.fromfile(str(ours))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (4, 2, 0, 0)
    assert main([str(folder), "--junit", str(folder / "absent" / "x.xml")]) == 1
    assert "absent does not exist" in capsys.readouterr().err


def _tests_of(path: Path) -> Iterator[junitparser.TestCase]:
    for suite in junitparser.JUnitXml.fromfile(str(path)):
        yield from suite


def test_totals(capsys: Output) -> None:
    results = [Result("a", compared=1, litert=1), Result("b", compared=2), Result("c")]
    cases = [Case(result.name, None) for result in results]
    assert _report(cases, results, False, "") == 0
    assert capsys.readouterr().out.endswith(
        "3 tests: 3 passed, 0 failed\nvalues compared in 2, with LiteRT in 1\n"
    )
