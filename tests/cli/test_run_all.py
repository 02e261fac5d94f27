# SPDX-License-Identifier: Apache-2.0
"""circlekit run-all: passes, command lines and cfg files on the models of a folder."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import circlekit
from circlekit.cli import model_tasks
from circlekit.cli.run_all import _print, run_all

NET = "graph main(%x: f32[2]) -> %y { %a = Add(%x, [0.0, 0.0]) : f32[2]\n %y = Neg(%a) : f32[2] }"


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """Return a folder with two models, one of them in a folder below."""
    folder = tmp_path / "zoo"
    (folder / "deep").mkdir(parents=True)
    circlekit.save(circlekit.parse(NET), folder / "a.circle")
    circlekit.save(circlekit.parse(NET), folder / "deep/b.tflite")
    return folder


def results_in(path: Path) -> dict[str, dict[str, object]]:
    return {result["model"]: result for result in json.loads(path.read_text())["results"]}


def test_passes_run_on_every_model_of_a_folder(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (zoo / "broken.circle").write_bytes(b"no model")
    out, document = tmp_path / "out", tmp_path / "all.json"
    assert run_all(["O1", str(zoo), "-o", str(out), "--json", str(document), "-j", "2"]) == 1
    text = capsys.readouterr().out
    assert "3 models: 2 done, 1 failed" in text
    header, first, *_ = text[text.index("model ") :].splitlines()
    assert header.split() == ["model", "status", "seconds", "operators"]
    assert header.index("seconds") + len("seconds") == first.index(".", first.index("done")) + 2, (
        "seconds are aligned to the right"
    )
    assert len(header) == len(first)
    results = results_in(document)
    assert list(results) == ["a.circle", "broken.circle", "deep/b.tflite"]
    assert (results["deep/b.tflite"]["before"], results["deep/b.tflite"]["after"]) == (2, 1)
    assert "broken.circle" in str(results["broken.circle"]["message"])
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*.*")) == ["a.circle", "deep/b.tflite"]
    assert len(circlekit.load(out / "deep/b.tflite").main) == 1


def test_the_place_of_the_json_document_is_checked_before_the_models_run(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["O1", str(zoo), "-o", str(out), "-j", "1", "--json"]
    assert run_all([*words, str(tmp_path / "missing/all.json")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not out.exists()
    assert run_all([*words, str(out / "all.json")]) == 0  # in a folder that the command makes


def test_a_command_line_runs_on_every_model(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    line = "circle2circle --O1 {model} {out}/{stem}.opt.circle"
    assert run_all([line, str(zoo), "-o", out, "-j", "1"]) == 0
    assert len(circlekit.load(f"{out}/deep/b.opt.circle").main) == 1
    assert run_all(["ls {model}.no", str(zoo), "-o", out, "-j", "1"]) == 1
    assert "2 failed" in capsys.readouterr().out


def test_a_command_may_write_a_model_to_the_standard_output(zoo: Path, tmp_path: Path) -> None:
    line = "circlekit optimize {model} -o - --format circle"
    assert run_all([line, str(zoo), "-o", str(tmp_path / "out"), "-j", "1"]) == 0


def test_a_cfg_file_runs_on_every_model(zoo: Path, tmp_path: Path) -> None:
    cfg = tmp_path / "opt.cfg"
    keys = "input_path={model}\noutput_path={out}/{stem}.opt.circle\nremove_unnecessary_add=True\n"
    cfg.write_text(f"[onecc]\none-optimize=True\n[one-optimize]\n{keys}")
    out = tmp_path / "out"
    (zoo / "deep/b.tflite").unlink()
    assert run_all([str(cfg), str(zoo), "-o", str(out), "-j", "1"]) == 0
    assert len(circlekit.load(out / "a.opt.circle").main) == 1


def test_models_of_one_name_and_two_formats_have_cfg_files_of_their_own(zoo: Path, tmp_path: Path) -> None:
    circlekit.save(circlekit.parse(NET), zoo / "a.tflite")
    cfg = tmp_path / "opt.cfg"
    keys = "input_path={model}\noutput_path={out}/{name}.opt.circle\nremove_unnecessary_add=True\n"
    cfg.write_text(f"[onecc]\none-optimize=True\n[one-optimize]\n{keys}")
    out = tmp_path / "out"
    assert run_all([str(cfg), str(zoo), "-o", str(out), "-j", "1"]) == 0
    assert {path.name for path in out.glob("*.cfg")} == {"a.circle.cfg", "a.tflite.cfg"}


def test_a_model_that_kills_its_process(zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(model_tasks, "convert", kill)
    document = tmp_path / "all.json"
    words = ["O1", str(zoo), "-o", str(tmp_path / "out"), "--json", str(document), "--retries", "1"]
    assert run_all(words) == 1
    assert {result["status"] for result in results_in(document).values()} == {"lost"}


@pytest.mark.parametrize("words", [["false {model}"], ["O1", "--scheduler", "nonsense"]])
def test_a_folder_of_results_that_stays_empty_is_removed(words: list[str], zoo: Path, tmp_path: Path) -> None:
    assert run_all([*words, str(zoo), "-o", str(tmp_path / "new" / "out")]) == 1
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    assert run_all([*words, str(zoo), "-o", str(tmp_path / "old")]) == 1
    assert list((tmp_path / "old").iterdir()) == []


def test_faults(zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.cfg").write_text("[onecc]\n")
    (tmp_path / "empty").mkdir()
    out = str(tmp_path / "out")
    for words, message in (
        (["O1", str(tmp_path / "empty"), "-o", out], "found none"),
        (["O1", str(tmp_path / "no"), "-o", out], "no such folder"),
        (["O1", str(zoo), "-o", str(zoo)], "another folder"),
        ([str(tmp_path / "no.cfg"), str(zoo), "-o", out], "expected {model}"),
    ):
        assert run_all(words) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("", "expected names of passes, got ''"),
        ("remove_deed", "there is no pass or pipeline 'remove_deed'; did you mean remove_dead"),
        ("echo '{model}", "No closing quotation"),
    ],
)
def test_a_wrong_pipeline_is_wrong_usage(
    pipeline: str, message: str, zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_all([pipeline, str(zoo), "-o", str(tmp_path / "out")]) == 2
    assert f"argument pipeline: {message}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def task(folder: Path, kind: str, pipeline: str, model: str = "my net.circle") -> model_tasks.TaskResult:
    """Run a task on NET, saved as ``folder``/``model``.  The task writes its results to ``folder``/out.

    The default name of the model has a space.
    """
    circlekit.save(circlekit.parse(NET), folder / model)
    (folder / "out").mkdir(exist_ok=True)
    found = model_tasks.run_task(model_tasks.Task(str(folder / model), str(folder / "out"), kind, pipeline))
    assert found.model == str(folder / model)
    assert 0 <= found.seconds < 600
    return found


def test_a_task_of_passes(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('passes = ["remove_unnecessary_add"]\n')
    for words in ("remove-unnecessary-add", " remove_dead, remove_unnecessary_add", str(tmp_path / "p.toml")):
        found = task(tmp_path, "passes", words)
        assert (found.status, found.before, found.after) == (model_tasks.DONE, 2, 1)
        assert len(circlekit.load(tmp_path / "out/my net.circle").main) == 1
    assert task(tmp_path, "passes", "remove_deed").status == model_tasks.FAILED


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("true", "done", ""),
        ("false", "failed", "exit code 1"),
        ("sh -c 'echo told; exit 3'", "failed", "told"),
        ("sh -c 'echo told'", "done", "told"),
        ("sh -c 'echo told >&2'", "done", "told"),
        ("cat {model}.none", "failed", "No such file"),
        ("cp {model} {out}/{stem}.copy", "done", ""),
        ("cp {out}/../{name} {out}/{stem}.copy", "done", ""),
        ("cp '{out}/../{name}' \"{out}/{stem}.copy\"", "done", ""),
        ("no-such-program {model}", "failed", "no-such-program: No such file or directory"),
        ("circle2circle {model} {out}/{name}", "done", ""),
        ("circle2circle {model}.none {out}/{name}", "failed", "Failed to open file"),
    ],
)
def test_a_task_of_a_command(line: str, status: str, message: str, tmp_path: Path) -> None:
    found = task(tmp_path, "command", line)
    assert found.status == status
    assert message in found.message
    assert bool(found.message) == bool(message)
    copy, source = tmp_path / "out/my net.copy", tmp_path / "my net.circle"
    assert copy.exists() == ("copy" in line)
    assert not copy.exists() or copy.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("model", ["{out}.circle", "{name} {stem}.circle", "{model}.circle"])
def test_braces_in_the_name_of_a_model_are_no_placeholders(tmp_path: Path, model: str) -> None:
    assert task(tmp_path, "command", "cp {model} {out}/{stem}.copy", model).status == "done"
    copy = tmp_path / "out" / model.replace(".circle", ".copy")
    assert copy.read_bytes() == (tmp_path / model).read_bytes()


def test_the_last_lines_of_a_command_are_kept(tmp_path: Path) -> None:
    count = model_tasks.MAX_OUTPUT_LINES
    for printed in (count, count + 1):
        lines = task(tmp_path, "command", f"seq {printed}").message.splitlines()
        assert lines == [str(n) for n in range(printed - count + 1, printed + 1)]


def test_a_defect_is_a_failure_of_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(model_tasks, "convert", fail)
    found = task(tmp_path, "passes", "O1")
    assert (found.status, found.message) == ("failed", "internal error: ZeroDivisionError: odd")


def test_the_printed_table(capsys: pytest.CaptureFixture[str]) -> None:
    results = [
        model_tasks.TaskResult("a", before=3),
        model_tasks.TaskResult("b", model_tasks.FAILED, message="broken"),
        model_tasks.TaskResult("c", before=3, after=1, message="told"),
    ]
    _print(results)
    _, a, b, c, *rest = capsys.readouterr().out.splitlines()
    assert (a.split(), b.split()) == (["a", "done", "0.0", "3"], ["b", "failed", "0.0"])
    assert c.endswith("3 -> 1")
    assert rest == ["", "b: broken", "", "3 models: 2 done, 1 failed"]


def test_only_files_with_the_extensions_of_models_are_run(zoo: Path, tmp_path: Path) -> None:
    """The results of an earlier run, in a folder below, are not run either."""
    (zoo / "notes.txt").write_text("none")
    (zoo / "folder.circle").mkdir()
    for _ in range(2):
        document = tmp_path / "all.json"
        assert run_all(["O1", str(zoo), "-o", str(zoo / "out"), "--json", str(document), "-j", "1"]) == 0
        assert list(results_in(document)) == ["a.circle", "deep/b.tflite"]
    assert json.loads(document.read_text())["schema"] == 1
