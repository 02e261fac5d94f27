# SPDX-License-Identifier: Apache-2.0
"""Tables of outcomes, with a row for each operator and kind of data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from circlekit.ir.text.columns import format_markdown
from tools.kit.case import Done, Job, Verdict

RUN_BY_LITERT = (Verdict.PASSED, Verdict.FAILED, Verdict.NOT_OURS)
"""The verdicts of cases that LiteRT runs."""


@dataclass
class Row:
    """One operator on one kind of data.  ``first``: reason and job of the first case with each verdict."""

    code: str
    label: str
    counts: Counter[Verdict] = field(default_factory=Counter)
    first: dict[Verdict, tuple[str, Job]] = field(default_factory=dict)

    def add(self, done: Done) -> None:
        self.counts[done.verdict] += 1
        self.first.setdefault(done.verdict, (done.reason, done.job))

    @property
    def compared(self) -> int:
        """The number of cases that LiteRT runs."""
        return sum(self.counts[verdict] for verdict in RUN_BY_LITERT)


def rows_of(outcomes: Iterable[Done]) -> list[Row]:
    """Return a row for each operator and kind of data, sorted."""
    rows: dict[tuple[str, str], Row] = {}
    for done in sorted(outcomes, key=lambda d: d.job):
        key = done.job.code, done.label
        rows.setdefault(key, Row(*key)).add(done)
    return [rows[key] for key in sorted(rows)]


HEAD = """# Operators

Written by `python -m tools.kit --cases {cases} --seed {seed} --table FILE`. A row is an operator on one kind
of data (`q`: quantized, `qc`: per channel; `f32 x i8q`: float data, int8 weights). It counts the random
models that LiteRT runs, and those with the results of LiteRT's reference kernels (SUM and
LOCAL_RESPONSE_NORMALIZATION: optimized kernels): integers bit for bit, floats to 1e-5 of the largest
magnitude, float16 to 1e-3.

"""


def document(rows: Sequence[Row], cases: int, seed: int) -> str:
    """Return the table of the rows that LiteRT runs as a Markdown page."""
    lines = [("operator", "data", "LiteRT runs", "equal", "remark")]
    for row in rows:
        if row.compared:
            remarks = [
                f"{row.counts[verdict]} {verdict.value}: {reason} (case {job.number})"
                for verdict, (reason, job) in row.first.items()
                if verdict in (Verdict.FAILED, Verdict.NOT_OURS)
            ]
            figures = str(row.compared), str(row.counts[Verdict.PASSED])
            lines.append((row.code, row.label, *figures, "; ".join(remarks)))
    return HEAD.format(cases=cases, seed=seed) + format_markdown(lines, left=2)
