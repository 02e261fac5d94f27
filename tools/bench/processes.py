# SPDX-License-Identifier: Apache-2.0
"""Run commands as processes and measure their time and their own memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 0.002
"""Interval between two looks at the memory of a process."""


class Run(NamedTuple):
    """One process: wall time in seconds, peak memory in bytes.

    ``anonymous_bytes`` is what the process allocated; ``resident_bytes`` includes mapped files.
    """

    seconds: float
    resident_bytes: int
    anonymous_bytes: int


def run(command: Sequence[str]) -> Run:
    """Run a command to its end; raise CalledProcessError if its exit code is not 0."""
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out)
        anonymous = resident = 0
        while process.poll() is None:
            sizes = _memory_of(process.pid)
            anonymous = max(anonymous, sizes.get("RssAnon", 0))
            resident = max(resident, sizes.get("VmHWM", 0))
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - start
        out.seek(0)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, out.read())
    return Run(seconds, resident, anonymous)


def _memory_of(pid: int) -> dict[str, int]:
    """Return what Linux reports about the memory of a process, in bytes; nothing on other systems.

    ``wait4`` is not used because it includes the memory of the parent before ``exec``.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    words = [line.replace(":", "").split() for line in lines if line.endswith(" kB")]
    return {name: int(size) * 1024 for name, size, _ in words}


def command_path(name: str) -> str:
    """Return the path of a command in the environment of this Python."""
    return str(Path(sys.executable).with_name(name))


def run_in_turns(
    commands: Mapping[str, Sequence[str]], rounds: int, clean: Iterable[Path] = ()
) -> dict[str, Run]:
    """Run all commands in each round; return each command's median time and largest memory.

    Before each run the files in ``clean`` are removed and pending writes are flushed.
    """
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            for path in clean:
                path.unlink(missing_ok=True)
            os.sync()
            runs[name].append(run(command))
    return {
        name: Run(
            statistics.median(r.seconds for r in items),
            max(r.resident_bytes for r in items),
            max(r.anonymous_bytes for r in items),
        )
        for name, items in runs.items()
    }


def machine() -> str:
    """Describe the machine in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    system = f"{os.uname().sysname} {os.uname().release}"
    return f"{os.cpu_count()} cores, {memory} GiB, {system}, Python {sys.version.split()[0]}"
