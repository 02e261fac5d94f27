# SPDX-License-Identifier: Apache-2.0
"""A progress line on stderr, for long work that somebody watches."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from circlekit.cli.common import is_watched

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 0.5
"""Seconds of work that nobody needs to be told about."""


class ProgressLine:
    """Call it with the name of each step that starts; it shows once the work lasts."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown: Progress | None = None
        self._watched = is_watched(sys.stderr)

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.stop()

    def __call__(self, step: str) -> None:
        if not self._watched:
            return
        if self._shown is None:
            if time.monotonic() - self._start < PATIENCE:
                return
            self._shown = self._open()
        self._shown.update(self._shown.task_ids[0], description=step, advance=1)

    def _open(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"))
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.add_task("", total=None)
        progress.start()
        return progress
