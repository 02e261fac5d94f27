# SPDX-License-Identifier: Apache-2.0
"""The table of a run, and the inputs that failed as files with what is needed to see them fail again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tools.fuzz.case import KINDS, Case
from tools.fuzz.pool import Result
from tools.fuzz.runner import FAULT, Outcome


class Tally:
    """Counts ends, keeps the first case of each fault."""

    def __init__(self) -> None:
        self.ends: Counter[tuple[str, str, str]] = Counter()
        self.values: Counter[str] = Counter()
        self.faults: dict[str, list[Result]] = {}
        self.slowest: Result | None = None
        self.memory = 0
        self.count = 0

    def add(self, result: Result) -> None:
        outcome = result.outcome
        self.count += 1
        what = "" if outcome.is_fault else outcome.what
        self.ends[result.job.kind, f"{outcome.end} {outcome.stage}".strip(), what] += 1
        if outcome.values:
            self.values[outcome.values.partition(":")[0]] += 1
        if outcome.is_fault:
            self.faults.setdefault(outcome.key, []).append(result)
        self.memory = max(self.memory, result.memory)
        if self.slowest is None or result.seconds > self.slowest.seconds:
            self.slowest = result

    def add_all(self, results: Iterable[Result]) -> None:
        for result in results:
            self.add(result)

    @property
    def failed(self) -> int:
        return sum(len(results) for results in self.faults.values())

    def lines(self) -> list[str]:
        """The table: how cases ended, a row for each end, a column for each kind of case."""
        kinds = [kind for kind in KINDS if any(k == kind for k, _, _ in self.ends)]
        rows = sorted({(end, what) for _, end, what in self.ends}, key=_order)
        out = [f"{'end':34} {'error':18} " + " ".join(f"{kind:>12}" for kind in kinds)]
        for end, what in rows:
            counts = " ".join(f"{self.ends[kind, end, what]:12}" for kind in kinds)
            out.append(f"{end:34} {what:18} {counts}")
        totals = [sum(n for (k, _, _), n in self.ends.items() if k == kind) for kind in kinds]
        out.append(f"{'all':34} {'':18} " + " ".join(f"{n:12}" for n in totals))
        if self.values:
            out.append("values: " + ", ".join(f"{n} {what}" for what, n in sorted(self.values.items())))
        if self.slowest is not None:
            out.append(f"slowest: {self.slowest.job}, {self.slowest.seconds:.2f} s of processor time")
            out.append(f"memory of a process at most: {self.memory >> 20} MiB")
        return out

    def fault_lines(self) -> list[str]:
        out = []
        for key, results in sorted(self.faults.items(), key=lambda item: -len(item[1])):
            jobs = ", ".join(str(r.job) for r in sorted(results, key=lambda r: str(r.job))[:3])
            out.append(f"{len(results):6} {key}  ({jobs})")
        return out

    def details(self) -> list[str]:
        """What happened, once for each fault."""
        return [results[0].outcome.detail for results in self.faults.values()]


def _order(row: tuple[str, str]) -> tuple[int, str, str]:
    end, what = row
    return (0 if end.startswith("saved") else 2 if end.startswith(FAULT) else 1, end, what)


def keep(folder: Path, case: Case, name: str, outcome: Outcome) -> Path:
    """Write the input of a fault, and beside it what happened."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^A-Za-z0-9]+", "_", f"{name}_{outcome.key}")[:80]
    path = folder / (stem + case.suffix)
    path.write_bytes(case.data)
    for beside, data in case.beside:
        path.with_name(f"{stem}.{beside}").write_bytes(data)
    made = f"{name}: {case.origin}, {' '.join(case.done)}"
    path.with_suffix(".txt").write_text(
        f"{made}\n{outcome.key}\n\n{outcome.detail}\n", encoding="utf-8", errors="backslashreplace"
    )
    return path
