# SPDX-License-Identifier: Apache-2.0
"""The table at the end of a command: the model before and after."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from circlekit.cli.common import is_watched, printable, terminal
from circlekit.ir.text.lines import print_op
from circlekit.passes.engine.report import Report, Row
from circlekit.rewrite.base import Refusal


def print_report(report: Report) -> None:
    """By rich on a terminal, else as plain columns."""
    if is_watched(sys.stdout):
        _print_rich(*report.rows())
    else:
        print(report)
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
    if any(refusal.is_partial for refusal in refusals):
        print(f"{name} was not close to rewriting anything; what came closest:")
    else:
        print(f"{name} was close to rewriting {places}:")
    for refusal in refusals:
        print(f"  {print_op(refusal.op)}\n    {refusal.sentence}")


def _print_rich(kinds: list[Row], sums: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def cells(row: Row) -> list[Text]:
        return [Text(printable(cell, "")) for cell in row]  # not as markup: the names are the model's

    table = Table("", "before", "after")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in kinds:
        table.add_row(*cells(row))
    table.add_section()
    for row in sums:
        table.add_row(*cells(row))
    Console(file=terminal()).print(table)
