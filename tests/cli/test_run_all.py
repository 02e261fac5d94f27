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
from circlekit.cli.run_all import run_all

NET = "graph main(%x: f32[2]) -> %y { %a = Add(%x, [0.0, 0.0]) : f32[2]\n %y = Neg(%a) : f32[2] }"


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """Return a folder with two models and one damaged file."""
    folder = tmp_path / "zoo"
    (folder / "deep").mkdir(parents=True)
    circlekit.save(circlekit.parse(NET), folder / "a.circle")
    circlekit.save(circlekit.parse(NET), folder / "deep/b.tflite")
    return folder


def results_in(path: Path) -> dict[str, dict[str, object]]:
    return {result["model"]: result for result in json.loads(path.read_text())["results"]}


def test_passes(zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (zoo / "broken.circle").write_bytes(b"no model")
    out, document = tmp_path / "out", tmp_path / "all.json"
    assert run_all(["O1", str(zoo), "-o", str(out), "--json", str(document), "-j", "2"]) == 1
    text = capsys.readouterr().out
    assert "3 models: 2 done, 1 failed" in text
    header, first, *_ = text[text.index("model ") :].splitlines()
    assert header.split() == ["model", "status", "seconds", "operators"]
    assert header.index("seconds") + len("seconds") == first.index(".", first.index("done")) + 2, (
        "to the right"
    )
    assert len(header) == len(first)
    results = results_in(document)
    assert list(results) == ["a.circle", "broken.circle", "deep/b.tflite"]
    assert (results["deep/b.tflite"]["before"], results["deep/b.tflite"]["after"]) == (2, 1)
    assert "broken.circle" in str(results["broken.circle"]["message"])
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*.*")) == ["a.circle", "deep/b.tflite"]
    assert len(circlekit.load(out / "deep/b.tflite").main) == 1


def test_command_lines(zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    line = "circle2circle --O1 {model} {out}/{stem}.opt.circle"
    assert run_all([line, str(zoo), "-o", out, "-j", "1"]) == 0
    assert len(circlekit.load(f"{out}/deep/b.opt.circle").main) == 1
    assert run_all(["ls {model}.no", str(zoo), "-o", out, "-j", "1"]) == 1
    assert "2 failed" in capsys.readouterr().out


def test_cfg_files(zoo: Path, tmp_path: Path) -> None:
    cfg = tmp_path / "opt.cfg"
    keys = "input_path={model}\noutput_path={out}/{stem}.opt.circle\nremove_unnecessary_add=True\n"
    cfg.write_text(f"[onecc]\none-optimize=True\n[one-optimize]\n{keys}")
    out = tmp_path / "out"
    (zoo / "deep/b.tflite").unlink()
    assert run_all([str(cfg), str(zoo), "-o", str(out), "-j", "1"]) == 0
    assert len(circlekit.load(out / "a.opt.circle").main) == 1


def test_a_model_that_kills_its_process(zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(model_tasks, "convert", kill)
    document = tmp_path / "all.json"
    words = ["O1", str(zoo), "-o", str(tmp_path / "out"), "--json", str(document), "--retries", "1"]
    assert run_all(words) == 1
    assert {result["status"] for result in results_in(document).values()} == {"lost"}


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
