# SPDX-License-Identifier: Apache-2.0
"""The argument parser of all commands, and the types of their arguments."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NoReturn

from circlekit.cli.output.terminal import printable
from circlekit.errors import CirclekitError, did_you_mean
from circlekit.io.schema import FORMATS
from circlekit.io.write.save import check_extension
from circlekit.ir.resources.byte_sizes import parse_size
from circlekit.ir.text.columns import paragraphs, wrapped
from circlekit.targets.target_choice import choose_targets
from circlekit.toolchain.process_exit import USAGE_ERROR, HelpParser

MODEL_HELP = "a .circle or .tflite file, or a model as text"


class Parser(HelpParser):
    """A parser of the arguments of one command.

    A flag may be spelled with ``-`` or ``_``.  The error for an unknown flag suggests similar flags.  Words
    are the parts of the command line, which may be flags, values or positional arguments.

    ``synopsis``: the arguments that the usage shows by name, such as "input output" or "--input_model MODEL".
    ``load_flags``: a function that adds more flags.  It may be slow, so it is called only if a word asks for
    help, or begins with ``-`` and is not a known flag.
    ``one_usage``: for a command of ONE, the exit code for wrong usage; the message then begins as ONE's
    messages do.  None for other commands.
    """

    def __init__(self, name: str, description: str, synopsis: str, one_usage: int | None = None) -> None:
        super().__init__(
            prog=name,
            usage=f"{name} [flags] {synopsis}".rstrip(),
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
        """Add the flags that limit the memory and the number of graph calls."""
        self.add_argument(
            "--max-memory",
            type=argument_type(parse_size),
            metavar="SIZE",
            help="memory limit, such as 8G (default: half of the memory)",
        )
        self.add_argument(
            "--max-calls",
            type=count,
            metavar="N",
            help="limit of graph calls in a run (default: 1000000)",
        )

    def add_format(self, help: str) -> None:
        """Add ``--format``: circle or tflite, or None without the flag."""
        self.add_argument("--format", choices=tuple(FORMATS), help=help)

    def add_output(self, help: str, type: Callable[[str], str] = str) -> None:
        """Let the user give the path to write as the last argument or after ``-o``.

        ``type``: checks the path.  ``output_of`` returns the path from the parsed arguments.
        """
        self.add_argument("output", nargs="?", type=type, help=help)
        self.add_argument(
            "-o", "--output", dest="output_path", type=type, metavar="OUTPUT",
            help="in place of the argument output",
        )  # fmt: skip

    def add_switch(self, *flags: str, help: str) -> None:
        """Add a flag without a value."""
        self.add_argument(*flags, action="store_true", help=help)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words; flags may stand between the positional arguments, unless the words contain ``--``."""
        words = list(sys.argv[1:] if args is None else args)
        has_separator = "--" in words  # parse_intermixed_args fails for such words
        return (super().parse_args if has_separator else self.parse_intermixed_args)(words, namespace)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words whose flags may be spelled with ``-`` or ``_``.

        Before that, call ``load_flags`` if the words require it (see the class).
        """
        words = list(sys.argv[1:] if args is None else args)
        end = words.index("--") if "--" in words else len(words)  # words after -- are not flags
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
        """All flags in their declared spelling, such as ``--max-memory``."""
        return list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        """Print ``message`` and exit with USAGE_ERROR, or with ``one_usage`` for a command of ONE."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            message = self._unknown(unknown.split())
        heading = "error:" if self.one_usage is None else "ERROR: Invalid argument."
        code = USAGE_ERROR if self.one_usage is None else self.one_usage
        self.exit(code, printable(f"{heading} {message} ({self.prog} --help lists the flags)\n"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError if ``value`` is not a choice of ``action``; the error names similar choices."""
        if action.choices is not None and value not in action.choices:
            choices, hint = ", ".join(action.choices), did_you_mean(value, action.choices)
            raise argparse.ArgumentError(action, f"expected one of {choices}, got {value!r}{hint}")

    def _unknown(self, words: Sequence[str]) -> str:
        """Return the message of the error for ``words`` that are no arguments of the command."""
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not flags:
            return f"too many arguments: {' '.join(words)}"
        return f"unknown flag {flags[0]}" + did_you_mean(flags[0], self.flags, limit=3)


class _HelpFormatter(argparse.HelpFormatter):
    """A formatter that wraps lines only at spaces; descriptions are formatted by ``paragraphs``."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(f"{indent}{line}".rstrip() for line in paragraphs(text, width - len(indent)))


def output_of(arguments: argparse.Namespace) -> str:
    """Return the path to write that one of the two arguments of ``Parser.add_output`` gives.

    If none or both are given, report wrong usage and exit.  (``Command`` sets ``arguments.refuse``.)
    """
    given = [path for path in (arguments.output, arguments.output_path) if path is not None]
    if len(given) != 1:
        arguments.refuse(f"expected one output, as the last argument or after -o, got {len(given)}")
    return str(given[0])


@contextmanager
def refusing(arguments: argparse.Namespace) -> Iterator[None]:
    """Return a context in which a CirclekitError is reported as wrong usage; then the command exits."""
    try:
        yield
    except CirclekitError as error:
        arguments.refuse(error.message)


def add_inputs(parser: Parser, purpose: str) -> None:
    """Add ``--inputs``; ``purpose``: the beginning of its help text, such as "run on the inputs"."""
    parser.add_argument(
        "--inputs",
        metavar="DATA",
        help=f"{purpose} of this file or folder (npz, npy, h5, raw), on all its records",
    )


def add_scheduler(parser: Parser, *aliases: str) -> None:
    """Add ``--scheduler``, with ``aliases``: the address of a Dask cluster, or None without the flag."""
    parser.add_argument(
        "--scheduler",
        *aliases,
        metavar="ADDRESS",
        help="run on the Dask cluster at this address (default: local processes)",
    )


def add_model_flags(parser: Parser) -> None:
    """Add ``--input_model`` and ``--output_model``, the flags of ONE's record-minmax and mpqsolver."""
    parser.add_argument("--input_model", required=True, metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--output_model", required=True, type=output_path, metavar="MODEL",
        help="the file to write; circle, unless it ends in .tflite or .lite",
    )  # fmt: skip


def comma_separated(text: str | None) -> list[str]:
    """Return the words of ``text`` between commas, stripped of spaces; leave out empty words.

    For None return [].
    """
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def flag_key(flag: str) -> str:
    """Return ``flag`` with ``-`` for each ``_``, so that both spellings are equal."""
    return flag.replace("_", "-")


def argument_type(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``parse`` as a type for argparse: its ValueError or CirclekitError is reported to the user."""

    def parse_argument(text: Any) -> Any:
        try:
            return parse(text)
        except (CirclekitError, ValueError) as error:
            message = error.message if isinstance(error, CirclekitError) else str(error)
            raise argparse.ArgumentTypeError(message) from None

    return parse_argument


TARGET_HELP = (
    "runtimes that have to run the model; none: no runtime (default: litert for .tflite, luci for .circle)"
)


def add_target(parser: Parser, help: str = TARGET_HELP) -> None:
    """Add ``--target``: names of targets, separated by commas; None without the flag."""
    parser.add_argument("--target", type=argument_type(_targets), metavar="T,T", help=help)


def _targets(text: str) -> str:
    """Return ``text`` if all its names are targets; raise UnsupportedError if a name is unknown."""
    choose_targets(text, "")  # the format matters only where no target is named
    return text


def input_file(word: str) -> str:
    """Return the path in the argument ``word``; for ``-``, the path of the standard input."""
    return "/dev/stdin" if word == "-" else word


def output_path(word: str) -> str:
    """Return the path in the argument ``word``; refuse ``-``.

    This is the type of an argument for results that cannot go to the standard output.
    """
    if word == "-":
        raise argparse.ArgumentTypeError("expected a file or a folder, got -, the standard output")
    return word


def model_path(word: str) -> str:
    """Return the path in the argument ``word``, of a model to write in the format of its extension.

    Refuse ``-`` and unknown extensions; a path without extension is accepted.
    """
    argument_type(check_extension)(output_path(word))
    return word


def _number(kind: type[int] | type[float], expected: str, fits: Callable[[float], bool]) -> Any:
    """Return a type for argparse: a number of the type ``kind``, not inf, for which ``fits`` returns True.

    ``expected``: the words of the error for all other texts, such as "a finite number".
    """

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan  # for which no ``fits`` returns True
        if not fits(value) or value == math.inf:
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text[:40]!r}")
        return value

    return parse


count = _number(int, "an integer of at least 0", lambda number: number >= 0)
finite_number = _number(float, "a finite number", math.isfinite)
integer = _number(int, "an integer", lambda number: isinstance(number, int))  # any integer, but not nan
positive_count = _number(int, "an integer above 0", lambda number: number > 0)
non_negative_number = _number(float, "a finite number that is not negative", lambda number: number >= 0)
positive_number = _number(float, "a finite number above 0", lambda number: number > 0)
