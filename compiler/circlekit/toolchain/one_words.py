# SPDX-License-Identifier: Apache-2.0
"""Errors about files in ONE's words, because scripts search the output of ONE's commands for these words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from circlekit.errors import FileError, FormatError, ParseError

UNREADABLE = "Failed to open file"
"""The first words of the message about a file that cannot be read; ONE prints no ``ERROR:`` before it."""

INVALID = "Invalid input file"
"""The first words of the message about a file that is not a valid model."""


class NotWrittenError(FileError):
    """The output cannot be written.  The exit code differs from that for an input that cannot be read."""


@contextmanager
def one_words(source: str, target: str, failed: str = "Failed to export") -> Iterator[None]:
    """Return a context that replaces errors about files by errors with ONE's messages.

    ``source``: the path that the context reads.  ``target``: the path that it writes.  ``""``: no path.
    ``failed``: the first words of the message about ``target``.

    - A FormatError or ParseError becomes a FormatError if there is a ``source``.
    - A FileError that begins with ``source`` or says "cannot be read" becomes another FileError.
    - Any other FileError becomes a NotWrittenError.

    The last two rules guess which path a FileError is about.  It may be wrong: if both paths are
    equal, a failed write becomes a FileError; if the standard input is closed, the error becomes a
    NotWrittenError.
    """
    try:
        yield
    except FileError as error:
        reason = error.message.removeprefix(f"{source}: ")
        if reason != error.message or "cannot be read" in reason:
            place = f"{source}: " if source else ""
            raise FileError(f"{UNREADABLE}: {place}{reason}", *error.where) from None
        reason = error.message.removeprefix(f"{target}: ")
        raise NotWrittenError(f"{failed} {target!r}: {reason}", *error.where) from None
    except (FormatError, ParseError) as error:
        if not source:
            raise
        reason = error.message.removeprefix(f"{source}: ")
        raise FormatError(f"{INVALID} {source!r}: {reason}", *error.where) from None
