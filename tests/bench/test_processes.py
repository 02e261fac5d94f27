# SPDX-License-Identifier: Apache-2.0
"""The measurement of processes, on processes with known time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench.__main__ import table
from tools.bench.processes import Run, run, run_in_turns

MIB = 1 << 20
HOLD_64_MIB = "import time; a = bytearray(b'x') * (64 << 20); time.sleep(0.1)"


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux reports the memory of a process"
)
def test_memory_is_that_of_the_process_alone() -> None:
    own = bytearray(b"x") * (128 * MIB)  # of this process, from which the measured one is forked
    held, idle = (
        run([sys.executable, "-c", HOLD_64_MIB]),
        run([sys.executable, "-c", "import time; time.sleep(0.1)"]),
    )
    assert len(own) == 128 * MIB
    assert 64 * MIB < held.anonymous_bytes < 96 * MIB
    assert idle.anonymous_bytes < 32 * MIB
    assert idle.resident_bytes < 64 * MIB
    assert held.seconds > 0.1


def test_a_failing_command_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run([sys.executable, "-c", "raise SystemExit(3)"])


def test_commands_take_turns(tmp_path: Path) -> None:
    """The target is removed before each run; a command fails if the target exists."""
    log, target = tmp_path / "log", tmp_path / "target"
    write = "import pathlib, sys; p, q = map(pathlib.Path, sys.argv[1:3]); assert not q.exists(); q.touch(); "
    add = write + "p.open('a').write(sys.argv[3])"
    commands = {name: [sys.executable, "-c", add, str(log), str(target), name] for name in "ab"}
    runs = run_in_turns(commands, 3, [target])
    assert log.read_text() == "ababab"
    assert list(runs) == ["a", "b"]


def test_the_first_command_is_the_reference() -> None:
    text = table({"cp": Run(0.5, 2 * MIB, MIB), "circle2circle": Run(0.75, 60 * MIB, 30 * MIB)}, "cp")
    assert "| circle2circle | 0.75 | 1.50 | 60 MiB | 30 MiB |" in text
