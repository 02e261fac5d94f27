# SPDX-License-Identifier: Apache-2.0
"""Measure whole processes: time, and the memory that is theirs alone."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

POLL = 0.002
"""Seconds between two looks at the memory of a process."""


class Run(NamedTuple):
    """One process.  Wall and processor time in seconds; memory in bytes at its peak, of which
    ``anonymous`` is what the process allocated (and ``resident`` has the mapped files, too).
    """

    seconds: float
    processor: float
    resident: int
    anonymous: int
    output: str = ""


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a command to its end; CalledProcessError where that is not 0."""
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, env={**os.environ, **(environment or {})})
        anonymous = resident = 0
        while True:
            sizes = _sizes(process.pid)
            anonymous = max(anonymous, sizes.get("RssAnon", 0))
            resident = max(resident, sizes.get("VmHWM", 0))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(POLL)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it again
        out.seek(0)
        text = out.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, text)
    return Run(seconds, usage.ru_utime + usage.ru_stime, resident, anonymous, text)


def _sizes(pid: int) -> dict[str, int]:
    """The sizes that Linux tells of a process, in bytes; none elsewhere.

    What ``wait4`` tells of memory will not do: it counts that of the process before it became another.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    words = [line.replace(":", "").split() for line in lines if line.endswith(" kB")]
    return {name: int(size) * 1024 for name, size, _ in words}


def command(name: str) -> str:
    """The path of a command that this Python's environment has."""
    return str(Path(sys.executable).with_name(name))


def by_turns(
    commands: Mapping[str, Sequence[str]], rounds: int, clean: Iterable[Path] = ()
) -> dict[str, Run]:
    """The median run of each command (by time; the largest memory), all of them in turn in each round.

    Before each run the files of ``clean`` are removed, and what runs before it left unwritten is waited for.
    """
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            for path in clean:
                path.unlink(missing_ok=True)
            os.sync()
            runs[name].append(run(command))
    return {name: _median(items) for name, items in runs.items()}


def _median(runs: list[Run]) -> Run:
    return Run(
        statistics.median(r.seconds for r in runs),
        statistics.median(r.processor for r in runs),
        max(r.resident for r in runs),
        max(r.anonymous for r in runs),
        runs[-1].output,
    )


def machine() -> dict[str, Any]:
    """What the figures were made on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    model = "unknown processor"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": memory,
        "system": f"{os.uname().sysname} {os.uname().release}",
        "python": sys.version.split()[0],
    }
