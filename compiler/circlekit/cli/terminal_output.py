# SPDX-License-Identifier: Apache-2.0
"""Reports on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from circlekit.cli.command import is_terminal, printable, terminal
from circlekit.ir.text.lines import print_op
from circlekit.passes.engine.optimization_report import Report, Row
from circlekit.rewrite.base import Refusal


def print_report(report: Report) -> None:
    """Print a table of the model before and after (with borders on a terminal), and the notes."""
    if is_terminal(sys.stdout):
        _print_drawn(*report.rows())
    else:
        print(report)
    for note in report.notes:
        print(f"note: {note}")
    if report.verified:
        print(*report.verdicts(), sep="\n")


def print_refusals(name: str, refusals: Sequence[Refusal]) -> None:
    """Print each near miss: the operator as text, and below it why the pass ``name`` did not apply."""
    if not refusals:
        print(f"{name} found no near miss")
        return
    if any(refusal.is_partial for refusal in refusals):
        print(f"{name} found no near miss; the closest partial matches are:")
    else:
        places = "1 place" if len(refusals) == 1 else f"{len(refusals)} places"
        print(f"{name} almost matched in {places}:")
    for refusal in refusals:
        print(f"  {print_op(refusal.op)}\n    {refusal.sentence}")


def _print_drawn(kinds: list[Row], totals: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def cells(row: Row) -> list[Text]:
        return [Text(printable(cell, "")) for cell in row]  # Text, because names may look like markup

    table = Table("", "before", "after")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in kinds:
        table.add_row(*cells(row))
    table.add_section()
    for row in totals:
        table.add_row(*cells(row))
    Console(file=terminal()).print(table)
