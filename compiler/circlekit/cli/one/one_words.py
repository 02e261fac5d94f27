# SPDX-License-Identifier: Apache-2.0
"""ONE's words for errors of files: users' scripts search the output of ONE's commands for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from circlekit.errors import FileError, FormatError, ParseError

UNREADABLE = "Failed to open file"
"""The begin of the message about a file that cannot be read; ONE prints it without ``ERROR:``."""


class NotWrittenError(FileError):
    """The output cannot be written.  Its exit code differs from that of an input that cannot be read."""


@contextmanager
def one_words(source: str, target: str, failed: str = "Failed to export") -> Iterator[None]:
    """Give errors of the block inside ONE's words.

    ``source``, ``target``: the file that the block reads and the one that it writes, or ``""`` for none.
    ``failed``: the begin of the message about ``target``.  Raise FileError if ``source`` cannot be read,
    FormatError if it is no model, NotWrittenError if ``target`` cannot be written.
    """
    try:
        yield
    except FileError as error:
        reason = error.message.removeprefix(f"{source}: ")
        if reason != error.message or "cannot be read" in reason:
            raise FileError(f"{UNREADABLE}: {source}: {reason}", *error.where) from None
        raise NotWrittenError(f"{failed} {target!r}: {error.message.removeprefix(f'{target}: ')}") from None
    except (FormatError, ParseError) as error:
        reason = error.message.removeprefix(f"{source}: ")
        raise FormatError(f"Invalid input file {source!r}: {reason}", *error.where) from None
