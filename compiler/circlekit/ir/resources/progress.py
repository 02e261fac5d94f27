# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: which step runs, how much of it is done, and which files are complete.

A function that takes long reports to the object that ``progress()`` returns.  A command or a caller of the
API receives these reports by an object of its own, which it sets with ``watched``; without one they are
ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

P = TypeVar("P", bound="Progress")


class Progress:
    """Receives reports and ignores them.  A watcher is a subclass that overrides the methods."""

    def begin(self, step: str, total: int = 0, unit: str = "") -> None:
        """Start a step, as in "verifying fuse_gelu".

        ``total``: the amount of its work, 0 if unknown.  ``unit``: "bytes", "recipes", or "" if the numbers
        mean nothing to a user.
        """

    def expect(self, amount: int) -> None:
        """Add to the total of the step."""

    def advance(self, amount: int = 1, remark: str = "") -> None:
        """Add to the work that is done.  ``remark``: a text to show beside it, such as "2 failed"."""

    def finish_file(self, path: str) -> None:
        """Report that a file is complete, under its final name."""


class Forwarded(Progress):
    """Forwards reports to the outer watcher; ``place``, as in "of net.circle (3 of 9)", follows each step."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.outer = progress()

    def begin(self, step: str, total: int = 0, unit: str = "") -> None:
        self.outer.begin(f"{step} {self.place}", total, unit)

    def expect(self, amount: int) -> None:
        self.outer.expect(amount)

    def advance(self, amount: int = 1, remark: str = "") -> None:
        self.outer.advance(amount, remark)

    def finish_file(self, path: str) -> None:
        self.outer.finish_file(path)


_PROGRESS: ContextVar[Progress] = ContextVar("circlekit_progress", default=Progress())  # noqa: B039  # has no state


def progress() -> Progress:
    """Return the object to report to: the watcher of the innermost ``watched`` block."""
    return _PROGRESS.get()


@contextmanager
def watched(watcher: P) -> Iterator[P]:
    """Let the work inside this block report to ``watcher``."""
    token = _PROGRESS.set(watcher)
    try:
        yield watcher
    finally:
        _PROGRESS.reset(token)
