# SPDX-License-Identifier: Apache-2.0
"""Text for terminals: the width of lines, and text from models without control sequences."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from circlekit.ir.text.columns import PAGE_COLUMNS

MAX_LINE_CHARACTERS = 2000
"""Longer lines of error messages are cut."""


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether ``stream`` is a terminal; it is None if the process was started without that stream."""
    return stream is not None and stream.isatty()


def text_columns() -> int:
    """Return the width of text in columns: of the terminal, 80 without one; COLUMNS overrides it."""
    return shutil.get_terminal_size((PAGE_COLUMNS, 0)).columns


def printable(text: str, keep: str = "\n\t") -> str:
    """Escape characters that could control a terminal or cannot be encoded, except those in ``keep``.

    Names in a model come from its author and may contain anything.
    """
    if text.isascii() and text.replace("\n", "").isprintable() and "\n" in keep:
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def number_text(number: Any) -> str:
    """Format a number as C++ streams do: floats with six significant digits."""
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def shortened(text: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """Cut every line of ``text`` after ``limit`` characters; shapes and names may be of any length."""
    lines = text.split("\n")
    return "\n".join(x if len(x) <= limit else f"{x[:limit]}... ({len(x)} characters)" for x in lines)


@contextmanager
def escaped_stdout(before: Callable[[], None]) -> Iterator[None]:
    """Inside this context, escape what is written to the standard output (see ``printable``).

    ``before`` is called before something is written.
    """
    stdout = sys.stdout
    sys.stdout = stdout if stdout is None else _Escaping(stdout, before)
    try:
        yield
    finally:
        sys.stdout = stdout


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Inside this context, everything that is printed goes to stderr: the standard output takes a model."""
    stdout: Any = sys.stdout
    sys.stdout = _Escaping(sys.stderr, stdout.before)
    try:
        yield
    finally:
        sys.stdout = stdout


class _Escaping:
    """A text stream that escapes what is written to ``stream``, and calls ``before`` first."""

    def __init__(self, stream: TextIO, before: Callable[[], None]) -> None:
        self.stream = stream
        self.before = before

    def write(self, text: str) -> int:
        self.before()
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
