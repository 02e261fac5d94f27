# SPDX-License-Identifier: Apache-2.0
"""Run a command: its limits, its exit code, and what it prints to a terminal."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from circlekit.cli.arguments import Parser
from circlekit.errors import CirclekitError
from circlekit.ir.resource_limits import limited

FAILED, INTERRUPTED, BROKEN_PIPE = 1, 130, 141
"""Exit codes; the last two are those that shells use for the signals INT and PIPE."""

MAX_LINE_CHARACTERS = 2000


def run_command(
    parser: Callable[[], Parser], argv: Sequence[str] | None, command: Callable[[argparse.Namespace], int]
) -> int:
    """Parse ``argv``, by default the arguments of the process, run ``command``, and return the exit code.

    An error is printed as its message, without a traceback.
    """
    verbose = False
    try:
        arguments = parser().parse_args(argv)
        verbose = arguments.verbose
        limits = getattr(arguments, "max_memory", None), getattr(arguments, "max_calls", None)
        with limited(*limits), _escaped_stdout():
            code = command(arguments)
        return _flush_stdout(code)
    except SystemExit as exit:
        return _flush_stdout(exit.code if isinstance(exit.code, int) else FAILED)
    except OSError as error:  # errors of files are FileErrors, mostly; this is the standard output
        if error.filename is None:
            return _report_stdout(error)
        print(f"error: {printable(str(error.filename))}: {error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # a fault in circlekit ends with a message and an exit code too
        _print_error(error, verbose)
        return FAILED


def _flush_stdout(code: int) -> int:
    """Return ``code``, or the exit code for output, a help page too, that cannot be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return _report_stdout(error)
    return code


def _report_stdout(error: OSError) -> int:
    """Report that the standard output failed; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit fails again
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    print(f"error: cannot write to the standard output: {error.strerror or error}", file=sys.stderr)
    return FAILED


def _print_error(error: Exception, verbose: bool) -> None:
    if verbose:
        traceback.print_exception(error)
    if isinstance(error, CirclekitError):
        text = str(error)
    elif isinstance(error, MemoryError):
        text = f"out of memory ({error or 'an allocation failed'}); --max-memory sets a limit"
    else:
        text = f"internal error, please report: {type(error).__name__}: {error}"
    print(f"error: {shortened(printable(text))}", file=sys.stderr)


# -- terminals ---------------------------------------------------------------------------------


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a person reads ``stream``; a process may have been started without it."""
    return stream is not None and stream.isatty()


def terminal() -> TextIO:
    """Return the standard output without escaping, for output that contains control sequences on purpose."""
    stream: Any = sys.stdout
    return stream.stream if isinstance(stream, _Escaping) else stream


def printable(text: str, kept: str = "\n\t") -> str:
    """Escape characters that could control a terminal, and those that cannot be encoded, except ``kept``.

    Names in a model come from its author and may contain anything.
    """
    if text.isascii() and text.replace("\n", "").isprintable() and "\n" in kept:
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """Cut every line of ``text`` after ``limit`` characters; shapes and names may be of any length."""
    lines = text.split("\n")
    return "\n".join(x if len(x) <= limit else f"{x[:limit]}... ({len(x)} characters)" for x in lines)


@contextmanager
def _escaped_stdout() -> Iterator[None]:
    """Escape what is printed inside, as ``printable`` does."""
    stdout = sys.stdout
    sys.stdout = stdout if stdout is None else _Escaping(stdout)
    try:
        yield
    finally:
        sys.stdout = stdout


class _Escaping:
    """A text stream that escapes what is written to ``stream``."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
