# SPDX-License-Identifier: Apache-2.0
"""An installation as ONE lays it out, in a folder of its own, and a small model beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from circlekit.api.models import parse
from circlekit.io.write.save import to_bytes
from circlekit.toolchain.onecc import onecc

MODEL = """
graph main(%x: f32[1,4,4,2]) -> %z {
  %w = const f32[3,1,1,2] gaussian(0, 1)
  %b = const f32[3] gaussian(0, 1)
  %y = Conv2D(%x, %w, %b)                : f32[1,4,4,3]
  %m = Mul(%y, [2.0, 3.0, 0.5])          : f32[1,4,4,3]
  %z = Add(%m, [1.0, -1.0, 0.0])         : f32[1,4,4,3]
}
"""

PROGRAM = """#!/bin/sh
[ "$1" = fail ] && { echo "broken" >&2; exit 7; }
echo "$(basename "$0") $* $VARIABLE" > called.txt
echo "$(basename "$0") $*"
"""


@cache
def model_bytes() -> bytes:
    """Return MODEL as the bytes of a circle file."""
    return to_bytes(parse(MODEL))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with net.tflite, which is a circle file in spite of its name.

    For onecc, the commands are in the sibling folder ``bin``, which is empty (see ``program``).
    """
    folder = tmp_path / "work"
    for name in ("work", "bin", "target", "optimization"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin/onecc")])
    (folder / "net.tflite").write_bytes(model_bytes())
    return folder


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], None]:
    """Return a function that puts a program with a given name beside the commands."""

    def put(name: str) -> None:
        path = tmp_path / "bin" / name
        path.write_text(PROGRAM)
        path.chmod(0o755)

    return put


@pytest.fixture
def run(work: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs onecc and returns the exit code and what it printed."""

    def call(words: Sequence[str], cfg: str = "", name: str = "test.cfg") -> tuple[int, str, str]:
        if cfg:
            (work / name).write_text(cfg)
        code = onecc([*words, *(["-C", name] if cfg else [])])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call
