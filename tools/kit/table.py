# SPDX-License-Identifier: Apache-2.0
"""The outcomes of many cases: rows by operator and kind of data, for a terminal and for the docs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from circlekit.ir.op import REGISTRY
from tools.kit.families import FAMILIES
from tools.kit.oracle import Verdict
from tools.kit.pool import Done, Job


@dataclass
class Row:
    """One operator on one kind of data.  ``first``: of each verdict but PASSED, a reason and its case."""

    code: str
    label: str
    counts: Counter[Verdict] = field(default_factory=Counter)
    first: dict[Verdict, tuple[str, Job]] = field(default_factory=dict)
    runs: int = 0
    """Cases that circlekit runs and LiteRT does not."""

    def add(self, done: Done) -> None:
        verdict, reason, runs = done.outcome
        self.counts[verdict] += 1
        if verdict is Verdict.NOT_LITERT and runs:
            self.runs += 1
        if verdict is not Verdict.PASSED:
            self.first.setdefault(verdict, (reason, done.job))

    @property
    def compared(self) -> int:
        """Cases that LiteRT runs."""
        return sum(n for verdict, n in self.counts.items() if verdict is not Verdict.NOT_LITERT)


def rows_of(outcomes: Iterable[Done]) -> list[Row]:
    rows: dict[tuple[str, str], Row] = {}
    for done in sorted(outcomes, key=lambda d: d.job):
        key = done.job.code, done.label
        rows.setdefault(key, Row(*key)).add(done)
    return [rows[key] for key in sorted(rows)]


COLUMNS = (Verdict.PASSED, Verdict.FAILED, Verdict.NOT_OURS, Verdict.NOT_LITERT)


def terminal(rows: Sequence[Row], all_reasons: bool) -> str:
    """A line for each row, and below it why cases did not pass; what LiteRT lacks for ``all_reasons``."""
    lines = [f"{'operator':32}{'data':14}{'passed':>8}{'failed':>8}{'not ours':>10}{'not LiteRT':>12}"]
    for row in rows:
        figures = [row.counts[v] for v in COLUMNS]
        lines.append(
            f"{row.code:32}{row.label:14}{figures[0]:>8}{figures[1]:>8}{figures[2]:>10}{figures[3]:>12}"
        )
        for verdict, (reason, job) in row.first.items():
            if all_reasons or verdict is not Verdict.NOT_LITERT:
                lines.append(f"    {verdict.value}: {reason}  (case {job.number} of seed {job.seed})")
    return "\n".join([*lines, summary(rows)])


def summary(rows: Sequence[Row]) -> str:
    total: Counter[Verdict] = sum((row.counts for row in rows), Counter())
    compared = sum(row.compared for row in rows)
    share = 100 * total[Verdict.PASSED] / compared if compared else 100.0
    others = ", ".join(f"{total[v]} {v.value}" for v in COLUMNS[1:])
    return f"{total[Verdict.PASSED]} of the {compared} cases that LiteRT runs pass, {share:.2f} %: {others}"


HEAD = """# Operators

What the interpreter runs; `python -m tools.kit --cases {cases} --seed {seed} --table FILE` found it.
A row is an operator on one kind of data (`q`: quantized; `f32 x i8`: float data, int8 weights), with the
number of models of that operator, drawn at random, whose results are those of LiteRT's reference kernels:
integers bit for bit, floats to 1e-5 of the largest magnitude (of the sums, where an activation cuts them
down or they cancel; cells with layer normalization to 1e-4, those with 8-bit weights, which quantize their
states anew, to 2e-2, float16 to 1e-3).  What LiteRT does not define is not drawn; `tools/kit` says where.

| operator | data | LiteRT runs | equal | remark |
| --- | --- | ---: | ---: | --- |
"""


def document(rows: Sequence[Row], cases: int, seed: int) -> str:
    """docs/measured/operators.md: every operator that has a class, whether or not there are cases of it."""
    lines = [_document_row(row) for row in rows if row.compared or row.runs]
    shown = {row.code for row in rows if row.compared or row.runs}
    for code in REGISTRY:
        if code not in shown:
            remark = (
                "LiteRT lacks it" if code in FAMILIES else "not compared by the kit, has tests of its own"
            )
            lines.append(f"| {code} | | | | {remark} |")
    return HEAD.format(cases=cases, seed=seed) + "\n".join(sorted(lines)) + "\n"


def _document_row(row: Row) -> str:
    remarks = [
        f"{row.counts[verdict]} {verdict.value}: {row.first[verdict][0]}"
        for verdict in (Verdict.FAILED, Verdict.NOT_OURS)
        if row.counts[verdict]
    ]
    if not row.compared:
        remarks.append("LiteRT lacks it")
    remark = "; ".join(remarks).replace("|", "/")
    return f"| {row.code} | {row.label} | {row.compared} | {row.counts[Verdict.PASSED]} | {remark} |"
