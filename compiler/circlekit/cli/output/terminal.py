# SPDX-License-Identifier: Apache-2.0
"""Prepare text for terminals: wrap it, cut it, and escape control characters.

Names in an untrusted model may contain characters that control the terminal, so all output is escaped.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from circlekit.ir.text.columns import PAGE_COLUMNS, wrapped

MAX_LINE_CHARACTERS = 2000
"""A line of an error message is cut after this many characters."""


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether ``stream`` is a terminal; False for None, a standard stream that the process lacks."""
    return stream is not None and stream.isatty()


def text_columns() -> int:
    """Return the width of text in characters: the variable COLUMNS, or the terminal's width, or 80."""
    return shutil.get_terminal_size((PAGE_COLUMNS, 0)).columns


def paragraph(text: str, margin: str = "") -> list[str]:
    """Return ``text`` in lines of at most ``text_columns()`` characters; each begins with ``margin``.

    A word that is longer than a line has a line of its own.
    """
    return wrapped(text, text_columns(), margin, margin)


def printable(text: str, keep: str = "\n\t") -> str:
    """Return ``text`` with an escape for each character that is neither printable nor in ``keep``."""
    # a fast test that most texts pass
    if text.isascii() and text.replace("\n", "").isprintable() and "\n" in keep:
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def number_text(number: Any) -> str:
    """Return a number as ONE's programs print it, with C++ streams: a float has six significant digits.

    This holds for Python's float; other numbers, such as np.float32, become ``str(number)``.
    """
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def shortened(text: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """Return ``text`` with each line cut after ``limit`` characters: names in messages may be long."""
    lines = text.split("\n")
    return "\n".join(x if len(x) <= limit else f"{x[:limit]}... ({len(x)} characters)" for x in lines)


@contextmanager
def escaped_stdout(before: Callable[[], None]) -> Iterator[None]:
    """Return a context in which all text for ``sys.stdout`` is escaped (see ``printable``).

    ``before``: is called before each write, for example to hide a progress line.
    """
    stdout = sys.stdout
    sys.stdout = stdout if stdout is None else _Escaping(stdout, before)
    try:
        yield
    finally:
        sys.stdout = stdout


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Return a context in which printed text goes to stderr, because a model goes to the standard output.

    If stderr is closed, the text is dropped.
    Use it inside the context of ``escaped_stdout``; the ``before`` given there is called before each write.
    """
    stdout: Any = sys.stdout
    sys.stdout = sys.stderr if sys.stderr is None else _Escaping(sys.stderr, stdout.before)
    try:
        yield
    finally:
        sys.stdout = stdout


class _Escaping:
    """A text stream that calls ``before`` and writes the escaped text to ``stream``."""

    def __init__(self, stream: TextIO, before: Callable[[], None]) -> None:
        self.stream = stream
        self.before = before

    def write(self, text: str) -> int:
        self.before()
        return self.stream.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of ``stream``, such as ``flush`` or ``buffer``; they do not escape."""
        return getattr(self.stream, name)
