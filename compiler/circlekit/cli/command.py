# SPDX-License-Identifier: Apache-2.0
"""A command: it takes arguments, prints errors instead of raising them, and returns an exit code."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circlekit.cli.arguments import Parser, output_path
from circlekit.cli.output.progress_line import ProgressLine
from circlekit.cli.output.terminal import escaped_stdout, is_terminal, printable, shortened
from circlekit.errors import CirclekitError, FileError, FormatError
from circlekit.io.write.save import format_of
from circlekit.ir.resources.resource_limits import limited
from circlekit.toolchain.one_words import UNREADABLE, NotWrittenError
from circlekit.toolchain.process_exit import INTERRUPTED, checking_stdout, flush_stdout, is_about_stdout

FAILED = 1
"""The exit code of a command that fails."""

ONE_HEADING = "ERROR"
"""The first word of most error messages of ONE's commands; messages of other commands begin with "error"."""


@dataclass(frozen=True)
class OneCodes:
    """The exit codes of a command of ONE.

    ``failed``: for failed work, also for NotWrittenError.  ``unread``: for any other error about a file, for
    example if it cannot be read or is not valid.  ``usage``: for wrong arguments.  The defaults are the codes
    of most of ONE's commands.
    """

    failed: int = 255
    unread: int = 1
    usage: int = 255


@dataclass(frozen=True)
class Command:
    """A command: its name, its arguments, and the function that runs it.

    ``synopsis``: the arguments that the usage shows by name, such as "input output" or "--input_model MODEL".
    ``declare`` adds the arguments of this command to a parser, which has those of every command (such as
    --verbose).  ``run`` takes the parsed arguments and returns the exit code.
    ``format``: "circle" or "tflite" for a command that exists once for each format (circlechef, tflchef);
    the parsed arguments then have it as their ``format``.  ``limits``: whether the command has the flags
    --max-memory and --max-calls.  ``one``: the exit codes of a command of ONE, which also reports errors and
    wrong usage as ONE does; None for other commands.
    """

    name: str
    description: str
    synopsis: str
    declare: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]
    format: str = ""
    limits: bool = True
    one: OneCodes | None = None

    def parser(self) -> Parser:
        """Return a parser of the arguments.

        The parsed arguments have the function ``refuse(message)``, which reports wrong usage and exits.
        """
        usage = None if self.one is None else self.one.usage
        parser = Parser(self.name, self.description, self.synopsis, usage)
        parser.set_defaults(refuse=parser.error, max_memory=None, max_calls=None)
        if self.limits:
            parser.add_limits()
        if self.format:
            parser.set_defaults(format=self.format)
        self.declare(parser)
        return parser

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run the command and return the exit code; ``argv``: the arguments, by default those of the process.

        An error is not raised: its message is printed; with ``--verbose``, the traceback is printed first.
        All text that ``run`` prints has its control characters escaped.
        """
        return checking_stdout(lambda: self._code_of(argv), "error", FAILED)

    def _code_of(self, argv: Sequence[str] | None) -> int:
        """Run the command as ``__call__`` does; raise only errors of the standard output."""
        verbose = False
        progress = ProgressLine()
        try:
            parser = self.parser()
            arguments = parser.parse_args(argv)
            verbose = arguments.verbose
            _refuse_overwriting_inputs(parser, arguments)
            progress.is_shown = is_terminal(sys.stderr) and not getattr(arguments, "quiet", False)
            with limited(arguments.max_memory, arguments.max_calls), escaped_stdout(progress.hide), progress:
                code = self.run(arguments)
            flush_stdout()
            return code
        except SystemExit as exit:  # argparse: help, version or wrong usage
            return exit.code if isinstance(exit.code, int) else FAILED
        except KeyboardInterrupt:
            print(printable(progress.interrupted()), file=sys.stderr)
            return INTERRUPTED
        except Exception as error:  # also an internal error of circlekit
            if is_about_stdout(error):
                raise
            return self._report(error, verbose)

    def _report(self, error: Exception, verbose: bool) -> int:
        """Print ``error``; return the exit code."""
        print_error(error, verbose, "error" if self.one is None else ONE_HEADING)
        if self.one is None:
            return FAILED
        is_unread = isinstance(error, FileError | FormatError | OSError)
        return self.one.unread if is_unread and not isinstance(error, NotWrittenError) else self.one.failed


def _refuse_overwriting_inputs(parser: Parser, arguments: argparse.Namespace) -> None:
    """Raise FileError if an output that is not a model file is also an input.

    A model may be written over the model that was read; a command that does not allow this checks it itself.
    """
    values = {action.dest: getattr(arguments, action.dest, None) for action in parser._actions}
    outputs = {a.dest for a in parser._actions if a.type is output_path} | {"output", "output_path"}
    read = [v if isinstance(v, list) else [v] for key, v in values.items() if key not in outputs]
    paths = [path for words in read for path in words if isinstance(path, str)]
    for output in (values.get(key) for key in outputs):
        if isinstance(output, str) and format_of(output) is None:
            for path in paths:
                with suppress(OSError, ValueError):  # no such file, or no path at all
                    if Path(output).is_file() and Path(output).samefile(path):
                        raise FileError(f"{output} is an input; choose another file to write")


def for_each_file(paths: Sequence[str], work: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the result of ``work`` for each path.

    With only one path, an error is raised.  With several paths, a CirclekitError is printed, the result for
    its path is ``{"file": path, "error": message}``, and the work goes on with the next path.
    """

    def attempt(path: str) -> dict[str, Any]:
        try:
            return work(path)
        except CirclekitError as error:
            print_error(error, verbose=False)
            return {"file": path, "error": str(error)}

    return [work(paths[0])] if len(paths) == 1 else [attempt(path) for path in paths]


def print_error(error: Exception, verbose: bool, heading: str = "error") -> None:
    """Print ``heading``, a colon and the message of ``error``; if ``verbose``, first print the traceback.

    As in ONE, ONE_HEADING is left out before a message that begins with UNREADABLE (a file cannot be read).
    """
    if verbose:
        traceback.print_exception(error)
    if isinstance(error, CirclekitError):
        text = str(error)
    elif isinstance(error, MemoryError):
        text = f"out of memory ({str(error) or 'an allocation failed'}); --max-memory sets a limit"
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    else:
        text = f"internal error, please report: {type(error).__name__}: {error}"
    begin = "" if heading == ONE_HEADING and text.startswith(UNREADABLE) else f"{heading}: "
    print(f"{begin}{shortened(printable(text))}", file=sys.stderr)
