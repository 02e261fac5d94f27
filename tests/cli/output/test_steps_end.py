# SPDX-License-Identifier: Apache-2.0
"""Progress that commands report: a step that announces an amount of work has done this amount at its end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli import command
from circlekit.cli.output.progress_line import ProgressLine
from tests.cli.call_command import call_command

NET = "graph main(%x: f32[2]) -> %y { %a = Neg(%x)  %b = Mul(%a, [1.0, 1.0])  %y = Abs(%b) }"


class Recorded(ProgressLine):
    """Keeps name, expected work and done work of each step in ``steps``."""

    steps: list[list[str | int]] = []

    def begin(self, step: str, total: int = 0, unit: str = "") -> None:
        self.steps.append([step, total, 0])

    def expect(self, amount: int) -> None:
        self.steps[-1][1] += amount  # type: ignore[operator]  # a number

    def advance(self, amount: int = 1, remark: str = "") -> None:
        self.steps[-1][2] += amount  # type: ignore[operator]  # a number


@pytest.mark.parametrize(
    "words",
    [
        "circlekit run net.circle",
        "circlekit run net.circle --repeat 3",
        "circlekit run net.circle --per-op",
        "circlekit run net.circle --inputs x.npz",
        "circlekit compare net.circle other.circle --inputs x.npz",
        "circlekit optimize net.circle out.circle --O1 --verify",
        "circlekit calibrate net.circle out.json --inputs x.npz",
        "circle-interpreter net.circle in out",
    ],
)
def test_the_announced_work_is_done(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circlekit.save(circlekit.parse(NET), tmp_path / "net.circle")
    circlekit.save(circlekit.parse(NET.replace("[1.0", "[1.5")), tmp_path / "other.circle")
    np.savez(tmp_path / "x.npz", x=np.ones((3, 2), np.float32))
    np.ones(2, np.float32).tofile(tmp_path / "in0")
    monkeypatch.setattr(command, "ProgressLine", Recorded)
    monkeypatch.setattr(Recorded, "steps", [])
    done = call_command(*words.split(), cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    known = [step for step in Recorded.steps if step[1]]
    assert known
    assert [step for step in known if step[1] != step[2]] == []
