# SPDX-License-Identifier: Apache-2.0
"""A command of the user tests whether a reduced model still shows the fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import circlekit.ops  # noqa: F401  # declares the operators of the text
from circlekit.equivalence.delta_debugging import ShowsFault, write_model
from circlekit.errors import FileError
from circlekit.ir.text import parse_model

MODEL = parse_model("graph main(%x: f32[1]) -> %y { %y = Relu(%x) }")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["look", "-v"], ["look", "-v", "net.ck"]),
        (["look", "{}", "-o", "{}.out"], ["look", "net.ck", "-o", "net.ck.out"]),
    ],
)
def test_the_path_of_the_model_replaces_braces_or_is_the_last_word(
    words: list[str], line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran: list[list[str]] = []

    def run(words: list[str], **keywords: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(words)
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert ShowsFault(words, Path("net.ck"))(MODEL)
    assert ran == [line]


def test_the_exit_code_decides(tmp_path: Path) -> None:
    look = "import sys; sys.exit('Relu' not in open(sys.argv[1]).read())"
    command = ShowsFault([sys.executable, "-c", look], tmp_path / "net.ck")
    assert command(MODEL) is True
    assert command(parse_model("graph main(%x: f32[1]) -> %y { %y = Neg(%x) }")) is False
    assert command.runs == 2


def test_a_command_that_takes_too_long_says_no(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert ShowsFault(sleep, tmp_path / "net.ck", timeout=0.1)(MODEL) is False


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot run no-such-command: No such file"):
        ShowsFault(["no-such-command"], tmp_path / "net.ck")(MODEL)


@pytest.mark.parametrize(("name", "magic"), [("a.tflite", b"TFL3"), ("a.circle", b"CIR0")])
def test_the_extension_says_the_format(name: str, magic: bytes, tmp_path: Path) -> None:
    write_model(MODEL, tmp_path / name)
    assert (tmp_path / name).read_bytes()[4:8] == magic
    write_model(MODEL, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text().startswith("model circle")
