# SPDX-License-Identifier: Apache-2.0
"""Report the progress of long work: the step that runs, how much of it is done, the files that are complete.

A function that takes a long time calls the methods of the object that ``progress()`` returns.  To receive
these reports, a command or a caller of the API sets its own object with ``watched``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

P = TypeVar("P", bound="Progress")


class Progress:
    """Ignores all reports.  A watcher is a subclass that overrides the methods."""

    def begin(self, step: str, total: int = 0, unit: str = "") -> None:
        """Start a step, such as "verifying fuse_gelu".

        ``total``: the amount of its work, 0 if unknown.  ``unit``: the unit of that amount, such as "bytes"
        or "recipes", or "" if the amounts mean nothing to a user.
        """

    def expect(self, amount: int) -> None:
        """Add ``amount`` to the total work of the step."""

    def advance(self, amount: int = 1, remark: str = "") -> None:
        """Add ``amount`` to the work that is done.  ``remark``: a text to show, such as "2 failed"."""

    def finish_file(self, path: str) -> None:
        """Report that a file is complete.  ``path``: its final name, not that of a temporary file."""


class Forwarder(Progress):
    """Forwards reports to the watcher that is set when this object is made.

    ``place``: a text to append to the name of each step, such as "of net.circle (3 of 9)".
    """

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
    """Return the object that gets the reports of this thread: the watcher of its innermost ``watched`` block.

    Outside of such a block, as in a new thread, the object ignores reports.
    """
    return _PROGRESS.get()


@contextmanager
def watched(watcher: P) -> Iterator[P]:
    """Return a context in which work reports to ``watcher``."""
    token = _PROGRESS.set(watcher)
    try:
        yield watcher
    finally:
        _PROGRESS.reset(token)
