# SPDX-License-Identifier: Apache-2.0
"""How ONE's commands word errors of files, which scripts look for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from circlekit.errors import FileError, FormatError, ParseError

UNREADABLE = "Failed to open file"
"""Begins the message about a file that cannot be read; ONE prints it without ``ERROR:``."""


class NotWrittenError(FileError):
    """The output cannot be written, which has another exit code than an input that cannot be read."""


@contextmanager
def one_words(source: str, target: str, failed: str = "Failed to export") -> Iterator[None]:
    """Word the errors of the files ``source`` and ``target`` as ONE does; ``failed``: of the latter."""
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
