# SPDX-License-Identifier: Apache-2.0
"""A command: arguments in, exit code out; errors end with one line."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from circlekit.cli.arguments import Parser
from circlekit.cli.one.one_words import UNREADABLE, NotWrittenError
from circlekit.cli.output.progress_line import ProgressLine
from circlekit.cli.output.terminal import escaped_stdout, is_terminal, printable, shortened
from circlekit.errors import CirclekitError, FileError, FormatError
from circlekit.ir.resources.resource_limits import limited

FAILED, INTERRUPTED, BROKEN_PIPE = 1, 130, 141
"""Exit codes; the last two are those that shells use for the signals INT and PIPE."""

ONE_HEADING = "ERROR"
"""Begins the errors of ONE's commands."""


@dataclass(frozen=True)
class OneCodes:
    """Exit codes of a command of ONE: for failed work, for a file that cannot be read, for wrong usage.

    The defaults are those of most of its commands: an exception ends with 255.
    """

    failed: int = 255
    unread: int = 1
    usage: int = 255


@dataclass(frozen=True)
class Command:
    """A command: its arguments, and what it does with them.

    ``positionals``: the positional arguments, for the usage.  ``declare`` adds all arguments to a parser.
    ``run`` returns the exit code.  ``format``: for commands that exist once per file format (circlechef,
    tflchef), circle or tflite; ``run`` finds it in the arguments.  ``limits``: whether the command takes
    limits of memory and calls.  ``one``: the exit codes if this is a command of ONE; its errors and wrong
    usage are then reported as ONE does.
    """

    name: str
    description: str
    positionals: str
    declare: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]
    format: str = ""
    limits: bool = True
    one: OneCodes | None = None

    def parser(self) -> Parser:
        """Return a parser; its result has ``refuse``: a function that reports wrong usage and exits."""
        usage = None if self.one is None else self.one.usage
        parser = Parser(self.name, self.description, self.positionals, usage)
        parser.set_defaults(refuse=parser.error, max_memory=None, max_calls=None)
        if self.limits:
            parser.add_limits()
        if self.format:
            parser.set_defaults(format=self.format)
        self.declare(parser)
        return parser

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run with the arguments ``argv``, by default those of the process; return the exit code.

        An error is printed as its message, without a traceback.
        """
        verbose = False
        progress = ProgressLine()
        try:
            arguments = self.parser().parse_args(argv)
            verbose = arguments.verbose
            progress.is_shown = is_terminal(sys.stderr) and not getattr(arguments, "quiet", False)
            with limited(arguments.max_memory, arguments.max_calls), escaped_stdout(progress.hide), progress:
                code = self.run(arguments)
            return _flush_stdout(code)
        except SystemExit as exit:
            return _flush_stdout(exit.code if isinstance(exit.code, int) else FAILED)
        except OSError as error:  # without a file name, it is the standard output that failed
            if error.filename is None:
                return _report_stdout(error)
            return self._report(error, verbose)
        except KeyboardInterrupt:
            print(printable(progress.interrupted()), file=sys.stderr)
            return INTERRUPTED
        except Exception as error:  # a fault in circlekit ends with a message and an exit code too
            return self._report(error, verbose)

    def _report(self, error: Exception, verbose: bool) -> int:
        """Print ``error``; return the exit code."""
        print_error(error, verbose, "error" if self.one is None else ONE_HEADING)
        if self.one is None:
            return FAILED
        is_unread = isinstance(error, FileError | FormatError | OSError)
        return self.one.unread if is_unread and not isinstance(error, NotWrittenError) else self.one.failed


def _flush_stdout(code: int) -> int:
    """Flush the standard output; return ``code``, or the exit code for output that cannot be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return _report_stdout(error)
    return code


def _report_stdout(error: OSError) -> int:
    """Report that the standard output failed; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the flush at exit fails too
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    print(f"error: cannot write to the standard output: {error.strerror or error}", file=sys.stderr)
    return FAILED


def for_each_file(paths: Sequence[str], work: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what ``work`` returns for each path.

    With several paths, an error is printed, its file has the result ``{"file": path, "error": message}``, and
    the others are still visited; with one, it is raised.
    """

    def attempt(path: str) -> dict[str, Any]:
        try:
            return work(path)
        except CirclekitError as error:
            print_error(error, verbose=False)
            return {"file": path, "error": str(error)}

    return [work(paths[0])] if len(paths) == 1 else [attempt(path) for path in paths]


def print_error(error: Exception, verbose: bool, heading: str = "error") -> None:
    """Print the message of ``error`` after ``heading``; ``verbose``: also the traceback."""
    if verbose:
        traceback.print_exception(error)
    if isinstance(error, CirclekitError):
        text = str(error)
    elif isinstance(error, MemoryError):
        text = f"out of memory ({error or 'an allocation failed'}); --max-memory sets a limit"
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    else:
        text = f"internal error, please report: {type(error).__name__}: {error}"
    begin = "" if heading == ONE_HEADING and text.startswith(UNREADABLE) else f"{heading}: "
    print(f"{begin}{shortened(printable(text))}", file=sys.stderr)
