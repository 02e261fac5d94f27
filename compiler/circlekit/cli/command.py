# SPDX-License-Identifier: Apache-2.0
"""Code shared by all commands: description, argument parser, exit codes, escaping of terminal output."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NoReturn, TextIO

from circlekit.cli.progress_line import ProgressLine
from circlekit.errors import CirclekitError, near_miss
from circlekit.io.schema import FORMATS
from circlekit.ir.resource_limits import limited, parse_size
from circlekit.ir.text.columns import PAGE_COLUMNS, paragraphs, wrapped

USAGE_ERROR = 2
"""Exit code for wrong arguments."""

MODEL_HELP = "a .circle or .tflite file, or a model as text"


class Parser(argparse.ArgumentParser):
    """A parser that accepts ``-`` for ``_`` in flags, and suggests similar flags for an unknown one.

    ``load_flags``: called before help is printed or an unknown flag is refused; it may add flags.
    """

    def __init__(self, name: str, description: str, positionals: str) -> None:
        super().__init__(
            prog=name,
            usage=f"{name} [flags] {positionals}".rstrip(),
            description=description,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        self.load_flags: Callable[[], None] = lambda: None
        self.add_switch("-V", "--verbose", help="show where in the code an error occurred")
        package = f"circlekit {version('circlekit')}"
        text = package if name == "circlekit" else f"{name} of {package}"
        self.add_argument("--version", action="version", version=text)

    def add_limits(self) -> None:
        """Add the flags that limit memory and calls."""
        self.add_argument(
            "--max-memory",
            type=argument_type(parse_size),
            metavar="SIZE",
            help="limit, as 512M or 8G (default: half of the memory)",
        )
        self.add_argument(
            "--max-calls",
            type=count,
            metavar="N",
            help="limit of subgraph calls in a run (default: 1000000)",
        )

    def add_format(self, help: str) -> None:
        """Add ``--format``; None if it is not given."""
        self.add_argument("--format", choices=tuple(FORMATS), help=help)

    def add_output(self, help: str) -> None:
        """Add the path to write, the last argument or what stands behind ``-o``; ``output_of`` returns it."""
        self.add_argument("output", nargs="?", help=help)
        self.add_argument(
            "-o", "--output", dest="output_path", metavar="OUTPUT", help="output, if it is no argument"
        )

    def add_switch(self, *flags: str, help: str) -> None:
        """Add a flag without a value."""
        self.add_argument(*flags, action="store_true", help=help)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words in which flags may stand between the positional arguments."""
        words = list(sys.argv[1:] if args is None else args)
        is_final = "--" in words  # which argparse handles only if no flag stands between arguments
        return (super().parse_args if is_final else self.parse_intermixed_args)(words, namespace)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, after ``load_flags`` if it is needed, and with every flag spelled as it was declared."""
        words = list(sys.argv[1:] if args is None else args)
        own = words.index("--") if "--" in words else len(words)  # what follows is for another command
        requested = {flag_key(word.partition("=")[0]) for word in words[:own] if word.startswith("-")}
        if requested & {"-h", "--help"} or not requested <= {flag_key(flag) for flag in self.flags}:
            self.load_flags()
            self.load_flags = lambda: None
        declared = {flag_key(flag): flag for flag in self.flags}
        for index, word in enumerate(words[:own]):
            flag, sign, value = word.partition("=")
            if word.startswith("--"):
                words[index] = declared.get(flag_key(flag), flag) + sign + value
        return super().parse_known_args(words, namespace)

    @property
    def flags(self) -> list[str]:
        """Every flag, as it was declared."""
        return list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and exit with USAGE_ERROR."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            message = self._unknown(unknown.split())
        self.exit(USAGE_ERROR, f"error: {message} ({self.prog} --help lists the flags)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a help page; unlike in argparse, errors of the standard output are raised."""
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _unknown(self, words: Sequence[str]) -> str:
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not flags:
            return f"too many arguments: {' '.join(words)}"
        return f"unknown flag {flags[0]}" + near_miss(flags[0], self.flags, 3)


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps help texts between words only; indented paragraphs of a description stay as they are."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(f"{indent}{line}".rstrip() for line in paragraphs(text, width - len(indent)))


def output_of(arguments: argparse.Namespace) -> str:
    """Return the path to write, from the arguments that ``Parser.add_output`` adds; refuse none and two."""
    given = [path for path in (arguments.output, arguments.output_path) if path is not None]
    if len(given) != 1:
        arguments.refuse(f"expected one output, as the last argument or behind -o, got {len(given)}")
    return str(given[0])


def add_inputs(parser: Parser, purpose: str) -> None:
    """Add ``--inputs``; ``purpose``: what is done with the inputs, for the help page."""
    parser.add_argument(
        "--inputs",
        metavar="DATA",
        help=f"{purpose} of this file or folder (npz, npy, h5, raw), on all its records",
    )


def flag_key(flag: str) -> str:
    """Return a form of ``flag`` that does not depend on its spelling with ``-`` or ``_``."""
    return flag.replace("_", "-")


def argument_type(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a type for argparse that shows the message of a ValueError of ``parse`` to the user."""

    def parse_argument(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_argument


def input_file(word: str) -> str:
    """Return the path of the file that an argument names; ``-`` is the standard input."""
    return "/dev/stdin" if word == "-" else word


def _number(kind: type[int] | type[float], expected: str, fits: Callable[[float], bool]) -> Any:
    """Return a type for argparse: a finite ``kind`` that ``fits`` accepts; ``expected``: its description."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan  # satisfies no condition
        if not fits(value) or value == math.inf:
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text[:40]!r}")
        return value

    return parse


count = _number(int, "an integer of at least 0", lambda number: number >= 0)
positive_count = _number(int, "an integer above 0", lambda number: number > 0)
non_negative_number = _number(float, "a number that is not negative", lambda number: number >= 0)
positive_number = _number(float, "a number above 0", lambda number: number > 0)

FAILED, INTERRUPTED, BROKEN_PIPE = 1, 130, 141
"""Exit codes; the last two are those that shells use for the signals INT and PIPE."""

MAX_LINE_CHARACTERS = 2000
"""Longer lines of error messages are cut."""


@dataclass(frozen=True)
class Command:
    """A command: its arguments, and what it does with them.

    ``positionals``: the positional arguments, for the usage.  ``declare`` adds all arguments to a parser.
    ``run`` returns the exit code.  ``format``: for commands that exist once per file format (circlechef,
    tflchef), circle or tflite; ``run`` finds it in the arguments.  ``limits``: whether the command takes
    limits of memory and calls.
    """

    name: str
    description: str
    positionals: str
    declare: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]
    format: str = ""
    limits: bool = True

    def parser(self) -> Parser:
        """Return a parser; its result has ``refuse``: a function that reports wrong usage and exits."""
        parser = Parser(self.name, self.description, self.positionals)
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
            with limited(arguments.max_memory, arguments.max_calls), _escaped_stdout(progress.hide), progress:
                code = self.run(arguments)
            return _flush_stdout(code)
        except SystemExit as exit:
            return _flush_stdout(exit.code if isinstance(exit.code, int) else FAILED)
        except OSError as error:  # without a file name, it is the standard output that failed
            if error.filename is None:
                return _report_stdout(error)
            print_error(error, verbose)
            return FAILED
        except KeyboardInterrupt:
            print(printable(progress.interrupted()), file=sys.stderr)
            return INTERRUPTED
        except Exception as error:  # a fault in circlekit ends with a message and an exit code too
            print_error(error, verbose)
            return FAILED


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


def print_error(error: Exception, verbose: bool) -> None:
    """Print the message of ``error``; ``verbose``: also the traceback."""
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
    print(f"error: {shortened(printable(text))}", file=sys.stderr)


# -- terminals ---------------------------------------------------------------------------------


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether ``stream`` is a terminal; None: the process was started without that stream."""
    return stream is not None and stream.isatty()


def text_columns() -> int:
    """Return the width of pages of text: that of the terminal, 80 columns without one; COLUMNS overrides."""
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
def _escaped_stdout(before: Callable[[], None]) -> Iterator[None]:
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
