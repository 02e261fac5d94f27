# SPDX-License-Identifier: Apache-2.0
"""The summary of a run, and the failing inputs as files."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from circlekit.ir.text.columns import format_columns
from tools.fuzz.case import KINDS, Case
from tools.fuzz.pool import Result
from tools.fuzz.run_model import Outcome


class Tally:
    """Counts how cases ended and keeps the results of each fault.

    ``ends``: the number of cases by (kind, end and stage, error).  ``values``: the number of cases by what
    the comparison of values said.  ``faults``: {key of a fault: its results}.
    """

    def __init__(self) -> None:
        self.ends: Counter[tuple[str, str, str]] = Counter()
        self.values: Counter[str] = Counter()
        self.faults: dict[str, list[Result]] = {}
        self.slowest: Result | None = None
        self.count = 0

    def add(self, result: Result) -> None:
        outcome = result.outcome
        self.count += 1
        error = "" if outcome.is_fault else outcome.error
        self.ends[result.job.kind, f"{outcome.end} {outcome.stage}".strip(), error] += 1
        if outcome.values:
            self.values[outcome.values.partition(":")[0]] += 1
        if outcome.is_fault:
            self.faults.setdefault(outcome.key, []).append(result)
        if self.slowest is None or result.seconds > self.slowest.seconds:
            self.slowest = result

    @property
    def failed(self) -> int:
        return sum(len(results) for results in self.faults.values())

    def __str__(self) -> str:
        """Return a table with a row for each end and a column for each kind of case."""
        kinds = [kind for kind in KINDS if any(k == kind for k, _, _ in self.ends)]
        ends = sorted({(end, error) for _, end, error in self.ends})
        rows = [(end, error, *(self.ends[kind, end, error] for kind in kinds)) for end, error in ends]
        total = ("all", "", *(sum(n for key, n in self.ends.items() if key[0] == kind) for kind in kinds))
        lines = [format_columns([("end", "error", *kinds), *rows, total], left=2)]
        if self.values:
            lines.append("values: " + ", ".join(f"{n} {what}" for what, n in sorted(self.values.items())))
        if self.slowest is not None:
            lines.append(f"slowest: {self.slowest.job}, {self.slowest.seconds:.2f} s")
        return "\n".join(lines)

    def fault_lines(self) -> list[str]:
        """Return a line for each fault, the most frequent first: how often, its key, up to three cases."""
        found = sorted(self.faults.items(), key=lambda item: -len(item[1]))
        return [f"{len(rs):6} {key}  ({', '.join(str(r.job) for r in rs[:3])})" for key, rs in found]


def keep(folder: Path, case: Case, name: str, outcome: Outcome) -> Path:
    """Write the input of a fault, with a text file that says what happened; return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^A-Za-z0-9]+", "_", f"{name}_{outcome.key}")[:80]
    path = folder / (stem + case.suffix)
    path.write_bytes(case.data)
    text = f"{name}: {case.origin}, {' '.join(case.done)}\n{outcome.key}\n\n{outcome.detail}\n"
    path.with_suffix(".txt").write_text(text, encoding="utf-8", errors="backslashreplace")
    return path
