# SPDX-License-Identifier: Apache-2.0
"""The measuring of processes, on processes that are known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench.files import Row
from tools.bench.measure import by_turns, machine, run
from tools.bench.page import page
from tools.bench.startup import Start

MIB = 1 << 20
HOLD = "import time; a = bytearray(b'x') * (64 << 20); time.sleep(0.1); print('held')"
IDLE = "import time; time.sleep(0.1)"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory of a process")
def test_memory_is_that_of_the_process_alone() -> None:
    before = bytearray(b"x") * (128 * MIB)  # of this process, from which the measured one is forked
    held, idle = (
        run([sys.executable, "-c", HOLD]),
        run([sys.executable, "-c", "import time; time.sleep(0.1)"]),
    )
    assert len(before) == 128 * MIB
    assert held.output == "held\n"
    assert 64 * MIB < held.anonymous < 96 * MIB
    assert idle.anonymous < 32 * MIB
    assert idle.resident < 64 * MIB
    assert held.seconds > 0.1


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run([sys.executable, "-c", "raise SystemExit(3)"])


def test_commands_take_turns(tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "target"
    write = "import pathlib, sys; p, q = map(pathlib.Path, sys.argv[1:3]); assert not q.exists(); q.touch(); "
    add = write + "p.open('a').write(sys.argv[3])"
    commands = {name: [sys.executable, "-c", add, str(log), str(target), name] for name in "ab"}
    runs = by_turns(commands, 3, [target])
    assert log.read_text() == "ababab"
    assert list(runs) == ["a", "b"]


def test_the_page_has_every_row() -> None:
    rows = [
        Row(100 * MIB, "cp", 0.5, 1.0, 2 * MIB, MIB),
        Row(100 * MIB, "circle2circle", 0.75, 1.5, 60 * MIB, 30 * MIB),
    ]
    text = page(machine(), "python -m tools.bench", rows, [Start("circle2circle --help", 0.2, 2.5, 20 * MIB)])
    assert "| 100 MiB | circle2circle | 0.75 | 1.50 | 60 MiB | 30 MiB |" in text
    assert "| circle2circle --help | 0.20 | 2.50 | 20 MiB |" in text
