# SPDX-License-Identifier: Apache-2.0
"""Progress and reports on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from circlekit.cli.command import is_terminal, printable, terminal
from circlekit.ir.text.lines import print_op
from circlekit.passes.engine.optimization_report import Report, Row
from circlekit.rewrite.base import Refusal

if TYPE_CHECKING:
    from rich.progress import Progress


DELAY_SECONDS = 0.5
"""Progress is shown only for work that takes longer."""


class ProgressLine:
    """A context manager that shows progress on a terminal; call it with the name of each step that starts."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._enabled = is_terminal(sys.stderr)

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, step: str) -> None:
        if not self._enabled:
            return
        if self._progress is None:
            if time.monotonic() - self._start < DELAY_SECONDS:
                return
            from rich.console import Console  # slow to import
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"))
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.add_task("", total=None)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], description=step, advance=1)


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
