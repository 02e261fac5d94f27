# SPDX-License-Identifier: Apache-2.0
"""The argument parser of all commands, and the types of their arguments."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from circlekit.errors import UnsupportedError, did_you_mean
from circlekit.io.schema import FORMATS
from circlekit.ir.resources.byte_sizes import parse_size
from circlekit.ir.text.columns import paragraphs, wrapped
from circlekit.targets.findings import choose_targets

USAGE_ERROR = 2
"""Exit code for wrong arguments."""

MODEL_HELP = "a .circle or .tflite file, or a model as text"


class Parser(argparse.ArgumentParser):
    """A parser that accepts ``-`` for ``_`` in flags, and suggests similar flags for an unknown one.

    ``load_flags``: called before help is printed or an unknown flag is refused; it may add flags.
    ``one_usage``: the exit code of wrong usage if this is a command of ONE, which then prints its help, too.
    """

    def __init__(self, name: str, description: str, positionals: str, one_usage: int | None = None) -> None:
        super().__init__(
            prog=name,
            usage=f"{name} [flags] {positionals}".rstrip(),
            description=description,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        self.one_usage = one_usage
        self.load_flags: Callable[[], None] = lambda: None
        self.add_switch("-V", "--verbose", help="show where in the code an error occurred")
        package = f"circlekit {version('circlekit')}"
        text = package if name == "circlekit" else f"{name} of {package}"
        if one_usage is not None:
            text = f"{name} version {version('circlekit')} ({package})"
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
        """Add the path to write, which is the last argument or follows ``-o``; ``output_of`` returns it."""
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
        has_separator = "--" in words  # parse_intermixed_args does not handle it
        return (super().parse_args if has_separator else self.parse_intermixed_args)(words, namespace)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words whose flags may be spelled with ``-`` or ``_``; call ``load_flags`` first if needed."""
        words = list(sys.argv[1:] if args is None else args)
        end = words.index("--") if "--" in words else len(words)  # what follows is for another command
        requested = {flag_key(word.partition("=")[0]) for word in words[:end] if word.startswith("-")}
        if requested & {"-h", "--help"} or not requested <= {flag_key(flag) for flag in self.flags}:
            self.load_flags()
            self.load_flags = lambda: None
        declared = {flag_key(flag): flag for flag in self.flags}
        for index, word in enumerate(words[:end]):
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
        if self.one_usage is not None:
            self.exit(self.one_usage, f"ERROR: Invalid argument. {message}\n{self.format_help()}")
        self.exit(USAGE_ERROR, f"error: {message} ({self.prog} --help lists the flags)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a help page; unlike in argparse, errors of the standard output are raised."""
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _unknown(self, words: Sequence[str]) -> str:
        """Return the error for ``words`` that no argument takes."""
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not flags:
            return f"too many arguments: {' '.join(words)}"
        return f"unknown flag {flags[0]}" + did_you_mean(flags[0], self.flags, 3)


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps help texts between words only; indented paragraphs of a description stay as they are."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(f"{indent}{line}".rstrip() for line in paragraphs(text, width - len(indent)))


def output_of(arguments: argparse.Namespace) -> str:
    """Return the path to write, which ``Parser.add_output`` declared; exit if none or two were given."""
    given = [path for path in (arguments.output, arguments.output_path) if path is not None]
    if len(given) != 1:
        arguments.refuse(f"expected one output, as the last argument or after -o, got {len(given)}")
    return str(given[0])


def add_inputs(parser: Parser, purpose: str) -> None:
    """Add ``--inputs``; ``purpose``: what is done with the inputs, for the help page."""
    parser.add_argument(
        "--inputs",
        metavar="DATA",
        help=f"{purpose} of this file or folder (npz, npy, h5, raw), on all its records",
    )


def add_model_flags(parser: Parser) -> None:
    """Add ``--input_model`` and ``--output_model``, as ONE's commands for recorded ranges have them."""
    parser.add_argument("--input_model", required=True, metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--output_model", required=True, type=output_path, metavar="MODEL",
        help="the file to write; circle, unless it ends in .tflite",
    )  # fmt: skip


def comma_separated(text: str | None) -> list[str]:
    """Return the words of ``text`` between commas, without spaces around them and without empty ones."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


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


TARGET_HELP = "runtimes that must run it, or none (default: by format)"


def add_target(parser: Parser, help: str = TARGET_HELP) -> None:
    """Add ``--target``: names separated by commas, None if it is not given."""
    parser.add_argument("--target", type=argument_type(_targets), metavar="T,T", help=help)


def _targets(text: str) -> str:
    """Return ``text`` if it names targets; raise ValueError if one is unknown."""
    try:
        choose_targets(text, "")
    except UnsupportedError as error:
        raise ValueError(error.message) from None
    return text


def input_file(word: str) -> str:
    """Return the path of the file that an argument names; ``-`` is the standard input."""
    return "/dev/stdin" if word == "-" else word


def output_path(word: str) -> str:
    """Return the path that an argument names; refuse ``-``, for results that need a file or a folder."""
    if word == "-":
        raise argparse.ArgumentTypeError("expected a file or a folder, got -, the standard output")
    return word


def _number(kind: type[int] | type[float], expected: str, fits: Callable[[float], bool]) -> Any:
    """Return a type for argparse that parses a finite number of type ``kind`` for which ``fits`` is true.

    ``expected``: what the error for all other texts says.
    """

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
finite_number = _number(float, "a finite number", math.isfinite)
positive_count = _number(int, "an integer above 0", lambda number: number > 0)
non_negative_number = _number(float, "a number that is not negative", lambda number: number >= 0)
positive_number = _number(float, "a number above 0", lambda number: number > 0)
