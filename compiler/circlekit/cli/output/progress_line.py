# SPDX-License-Identifier: Apache-2.0
"""Show the progress of a command on the terminal; say what an interrupted command had done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from circlekit.ir.resources.byte_sizes import display_unit, format_size
from circlekit.ir.resources.progress import Progress, progress, watched

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

R = TypeVar("R")

DELAY_SECONDS = 0.5
"""Progress is shown after this time, so nothing is shown for shorter work."""

INTERVAL_SECONDS = 0.05
"""The least time between two updates of the line within a step.  Work reports progress much more often."""

MINUTES_FROM_SECONDS = 100
"""An estimate of this many seconds or more is shown in minutes."""

ESTIMATE_FROM_FRACTION = 0.01
"""The remaining time is shown once this fraction of a step is done, and DELAY_SECONDS of it have passed."""


class ProgressLine(Progress):
    """A context manager that receives the progress reported in its context, and shows it as a line on stderr.

    ``is_shown``: whether to show the line; it may be True only if stderr is a terminal.
    """

    def __init__(self, is_shown: bool = False) -> None:
        self.is_shown = is_shown
        self._due = time.monotonic() + DELAY_SECONDS  # the time from which the line may be updated
        self._bar: Bar | None = None
        self._step, self._unit, self._remark = "", "", ""
        self._done = self._total = 0
        self._since = 0.0  # the time at which the step began
        self._files: list[str] = []
        self._watched = watched(self)

    def __enter__(self) -> ProgressLine:
        self._watched.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()
        self._watched.__exit__(kind, error, trace)

    # -- reports -------------------------------------------------------------------------------

    def begin(self, step: str, total: int = 0, unit: str = "") -> None:
        self._step, self._total, self._unit = step, total, unit
        self._done, self._remark = 0, ""
        self._since = time.monotonic()
        self._show(is_new=True)

    def expect(self, amount: int) -> None:
        self._total += amount

    def advance(self, amount: int = 1, remark: str = "") -> None:
        self._done += amount
        self._remark = remark
        self._show()

    def finish_file(self, path: str) -> None:
        self._files.append(path)

    # -- the terminal --------------------------------------------------------------------------

    def hide(self) -> None:
        """Remove the line from the terminal; it returns when the next update is due."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show(self, is_new: bool = False) -> None:
        """Update the line if an update is due, or if a new step begins while the line is on the terminal."""
        if not self.is_shown or not (self._step or self._total):
            return
        now = time.monotonic()
        is_due = now >= self._due
        if not is_due and (self._bar is None or not is_new):
            return
        if is_due:
            self._due = now + INTERVAL_SECONDS
        if self._bar is None:
            self._bar = _bar()
        (task,) = self._bar.task_ids
        total = max(self._total, self._done) if self._total else None  # None: the bar shows no fraction
        state = ", ".join(filter(None, [self._amount(), self._remark, self._estimate(now)]))
        text = "  ".join(filter(None, [state, self._step]))
        self._bar.update(task, completed=self._done, total=total, description=text, refresh=is_due)

    def _estimate(self, now: float) -> str:
        """Return the estimated time for the rest of the step, such as "12 s left"; "" if it is unknown."""
        passed = now - self._since
        if not self._total or passed < DELAY_SECONDS or self._done < self._total * ESTIMATE_FROM_FRACTION:
            return ""
        seconds = round(passed * max(self._total - self._done, 0) / self._done)
        return f"{seconds} s left" if seconds < MINUTES_FROM_SECONDS else f"{round(seconds / 60)} min left"

    # -- sentences -----------------------------------------------------------------------------

    def _amount(self) -> str:
        """Return how much of the step is done, such as "3 of 8 models", or "37 %" without a unit.

        Return "" if the total is unknown.
        """
        if not self._total:
            return ""
        done = min(self._done, self._total)
        if self._unit == "bytes":
            unit, _ = display_unit(self._total)
            shown = f"{done / unit:.1f}" if unit > 1 else str(done)
            return f"{shown} of {format_size(self._total)}"
        return f"{done} of {self._total} {self._unit}" if self._unit else f"{100 * done // self._total} %"

    def interrupted(self) -> str:
        """Return the line for an interrupted command: its step, how much is done, and the written files.

        For a step without a name, the line says how much is done, and the last remark of the work.
        """
        amount = self._amount()
        if not self._step:
            parts = [f"{amount} done" if amount else "", self._remark]
            return ": ".join(filter(None, ["interrupted", ", ".join(filter(None, parts))]))
        place = f"interrupted while {self._step}" + (f" ({amount})" if amount else "")
        return f"{place}; {self._written()}"

    def _written(self) -> str:
        if len(self._files) > 1:
            return f"{len(self._files)} files were written"
        return f"{Path(self._files[0]).name if self._files else 'no file'} was written"


def results_in_order(runs: Iterable[tuple[int, R]], has_failed: Callable[[R], bool]) -> list[R]:
    """Return the results of ``runs``, sorted by index.

    Each result advances the progress by 1, with the number of failures so far as the remark.
    ``runs``: (index, result) of each job, in the order in which the jobs end.
    """
    results: dict[int, R] = {}
    failed = 0
    for index, result in runs:
        results[index] = result
        failed += has_failed(result)
        progress().advance(1, f"{failed or 'none'} failed so far")
    return [results[index] for index in sorted(results)]


def _bar() -> Bar:
    """Return a started progress bar on the standard error."""
    from rich.console import Console  # slow to import
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    # no redirect_stdout: ``Command`` hides the bar before anything is printed
    bar = Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    bar.add_task("", total=None)
    bar.start()
    return bar
