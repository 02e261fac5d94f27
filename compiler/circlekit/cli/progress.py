# SPDX-License-Identifier: Apache-2.0
"""A progress line on the standard error output, if that is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from circlekit.cli.process import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY_SECONDS = 0.5
"""Work that is shorter shows no progress."""


class ProgressLine:
    """A context manager that is called with the name of each step that starts."""

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
            self._progress = self._open()
        self._progress.update(self._progress.task_ids[0], description=step, advance=1)

    def _open(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"))
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.add_task("", total=None)
        progress.start()
        return progress
