# SPDX-License-Identifier: Apache-2.0
"""Progress on a pseudo terminal, and interrupted commands, as processes."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from circlekit.cli.output import progress_line
from circlekit.cli.output.progress_line import ProgressLine
from tools.sweep import sweep

HELD = """
import signal, sys, time
from circlekit.cli import command
from circlekit.cli.output import progress_line
from {module} import main

class Held(progress_line.ProgressLine):
    def begin(self, step, total=0, unit=""):
        super().begin(step, total, unit)
        self.advance(0)

    def advance(self, amount=1, remark=""):
        super().advance(amount, remark)
        if (self._step, str(self._done)) == (sys.argv[1], sys.argv[2]):
            print("held", flush=True)
            time.sleep(10)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a process in a shell's background
progress_line.DELAY_SECONDS = progress_line.INTERVAL_SECONDS = 0
command.ProgressLine = Held
sys.exit(main(sys.argv[3:]))
"""
"""A program that runs a command.  At a certain progress, the command stops and waits for a signal.

Arguments: the step in which to stop, how much of the step is done then, and the arguments of the command.
"""


def interrupt(module: str, step: str, done: int, *arguments: str) -> str:
    """Run a command on a terminal, and interrupt it and its children; return what it wrote there."""
    command = [sys.executable, "-c", HELD.format(module=module), step, str(done), *arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    ours, theirs = pty.openpty()
    pipe = subprocess.PIPE
    with (
        ThreadPoolExecutor(1) as reader,
        subprocess.Popen(
            command, stdout=pipe, stderr=theirs, env=environment, text=True, start_new_session=True
        ) as process,
    ):
        os.close(theirs)
        shown = reader.submit(written_to, ours)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == ""
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):  # no child is left
        os.killpg(process.pid, 0)
    return shown.result()


def written_to(terminal: int) -> str:
    """Return what was written to a terminal before its other end was closed, without control sequences."""
    written = b""
    with suppress(OSError):  # on Linux, the error means that the other end was closed
        while part := os.read(terminal, 1 << 16):
            written += part
    os.close(terminal)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode())


@pytest.mark.parametrize("step", ["verifying remove_unnecessary_mul", "writing out.circle"])
def test_an_interrupted_conversion_shows_its_steps_and_writes_nothing(step: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.ck", tmp_path / "out.circle"
    ops = "%w = const f32[786432] constant(1.0)  %z = Mul(%x, [1.0])  %y = Add(%z, %w)"
    source.write_text(f"graph main(%x: f32[1]) -> %y {{ {ops} }}\n")
    target.write_text("as before")
    words = [str(source), str(target), "--remove_unnecessary_mul", "--verify"]
    shown = interrupt("circlekit.cli.circle2circle", step, 0, *words)
    amount = " (0.0 of 3.0 MiB)" if step.startswith("writing") else ""
    assert shown.splitlines()[-1] == f"interrupted while {step}{amount}; no file was written"
    assert re.search(rf"━.*{step}", shown), shown
    assert re.search(r"━.* \d+ %, \d+ (s|min) left  running the original", shown), shown
    assert target.read_text() == "as before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.ck", "out.circle"]


def test_an_interrupted_dredd_says_what_is_done(tmp_path: Path) -> None:
    model = "graph main(%x: f32[2]) -> %y { %y = Neg(%x) }\n"
    for number in range(6):
        (tmp_path / f"m{number}.ck").write_text(model + ("rules { ops(Neg: 0) }" if number < 3 else ""))
    shown = interrupt("circlekit.cli.recipes.dredd", "", 5, str(tmp_path), "--no-litert", "-j", "1")
    assert re.search(r"━.* 0 of 6 recipes", shown), shown
    assert shown.splitlines()[-1] == "interrupted: 5 of 6 recipes done, 3 failed so far"


# -- sentences ---------------------------------------------------------------------------------


def test_the_time_left_and_the_line_of_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    line = ProgressLine(False)
    line.begin("writing m.circle", 3 << 30, "bytes")
    line.advance(3 << 28)
    assert line._estimate(100.1) == ""  # too early
    assert line._estimate(110.0) == "30 s left"  # a quarter took 10 s
    assert line._estimate(160.0) == "3 min left"  # a quarter took 60 s
    line.finish_file("/a/m.circle")
    assert line.interrupted() == "interrupted while writing m.circle (0.8 of 3.0 GiB); m.circle was written"
    line.begin("writing m.circle", 1048545, "bytes")  # of 1024 KiB, rounded
    assert "(0.0 of 1.0 MiB)" in line.interrupted()
    line.begin("running the original")
    line.finish_file("/a/n.circle")
    assert line.interrupted() == "interrupted while running the original; 2 files were written"
    line.expect(30)
    line.advance(10)
    assert line.interrupted() == "interrupted while running the original (33 %); 2 files were written"
    assert line._estimate(101.0) == "2 s left"  # a third took 1 s
    line.begin("at the limits", 100)
    line.advance(1)
    assert line._estimate(100.5) == "50 s left"  # the earliest estimate: 99 * 0.5 s, rounded
    line.advance(49)  # half is done
    assert [line._estimate(100.0 + passed) for passed in (99, 100)] == ["99 s left", "2 min left"]


def test_an_interrupted_sweep_goes_on_to_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    with sweep(5, "cases") as line:
        for number in line.each(range(5)):
            if number == 2:
                raise KeyboardInterrupt
    assert capsys.readouterr().err == "interrupted: 2 of 5 cases done\n"
    assert line.exit_code(True) == 130
    with sweep(2, "cases") as line:
        assert list(line.each(range(2))) == [0, 1]
    assert [line.exit_code(failed) for failed in (False, True)] == [0, 1]


def test_the_line_is_updated_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is written after DELAY_SECONDS, then after each INTERVAL_SECONDS.

    A new step changes the text of the bar at once, but does not write it (``refresh`` is False).
    """
    clock = [100.0]
    written: list[bool] = []

    class Bar:
        task_ids = (0,)

        def update(self, task: int, refresh: bool, **columns: object) -> None:
            written.append(refresh)

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(progress_line, "_bar", Bar)
    line = ProgressLine(True)

    def after(seconds: float, step: str = "") -> list[bool]:
        """Report progress after so many seconds; return ``refresh`` of each update of the bar."""
        clock[0] += seconds
        written.clear()
        if step:
            line.begin(step)
        else:
            line.advance()
        return [*written]

    delay, interval = progress_line.DELAY_SECONDS, progress_line.INTERVAL_SECONDS
    assert after(0, "first") == []
    assert after(delay / 2) == []
    assert after(delay / 2) == [True]
    assert after(interval / 2) == []
    assert after(0, "second") == [False]
    assert after(interval / 2) == [True]
    assert after(interval * 2) == [True]
    assert after(0) == []
