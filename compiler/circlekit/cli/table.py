# SPDX-License-Identifier: Apache-2.0
"""The table at the end of a command: the model before and after."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from circlekit.cli.common import is_watched
from circlekit.ir.text import print_op
from circlekit.passes.report import Report
from circlekit.rewrite.base import Refusal

Row = tuple[str, str, str]


def print_report(report: Report) -> None:
    """By rich on a terminal, else as plain columns."""
    kinds, totals = _kinds(report), _totals(report)
    if is_watched(sys.stdout):
        _print_rich(kinds, totals)
    else:
        _print_plain([("", "before", "after"), *kinds, *totals])
    for note in report.notes:
        print(f"note: {note}")
    if report.verified:
        print("verified: the outputs before and after every pass are equal")


def print_refusals(name: str, refusals: Sequence[Refusal]) -> None:
    """Every near miss: the operator as text, below it the sentence."""
    if not refusals:
        print(f"{name} finds nothing here that it was close to rewriting")
        return
    places = "1 place" if len(refusals) == 1 else f"{len(refusals)} places"
    print(f"{name} was close to rewriting {places}:")
    for refusal in refusals:
        print(f"  {print_op(refusal.op)}\n    {refusal.sentence}")


def _kinds(report: Report) -> list[Row]:
    before, after = report.before.ops, report.after.ops
    return [
        (kind, _number(before.get(kind, 0)), _number(after.get(kind, 0)))
        for kind in sorted({*before, *after})
    ]


def _totals(report: Report) -> list[Row]:
    before, after = report.before, report.after
    return [
        ("operators", _number(before.op_count), _number(after.op_count)),
        ("file size, bytes", _number(before.file_size), _number(after.file_size)),
        ("parameters", _number(before.parameters), _number(after.parameters)),
        ("MACs", _number(before.macs), _number(after.macs)),
    ]


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _print_plain(rows: list[Row]) -> None:
    first, second, third = (max(len(row[i]) for row in rows) for i in range(3))
    for name, before, after in rows:
        print(f"{name:{first}}  {before:>{second}}  {after:>{third}}")


def _print_rich(kinds: list[Row], totals: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "before", "after")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in kinds:
        table.add_row(*row)
    table.add_section()
    for row in totals:
        table.add_row(*row)
    Console().print(table)
