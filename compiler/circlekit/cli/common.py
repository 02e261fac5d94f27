# SPDX-License-Identifier: Apache-2.0
"""What the commands share: flags, and how an error ends one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn, TextIO

from circlekit.errors import CirclekitError

FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
"""Exit codes; the last two are those of a shell for the signals INT and PIPE."""


class _Formatter(argparse.HelpFormatter):
    """As wide as the terminal.  argparse asks ``shutil``, with each flag, and that is slow to import."""

    def __init__(self, prog: str, **keywords: Any) -> None:
        super().__init__(prog, **{"width": _columns() - 2, **keywords})


def _columns() -> int:
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


class Parser(argparse.ArgumentParser):
    """A parser that knows ``--some-flag`` as ``--some_flag``, and what a mistyped flag may have meant."""

    def __init__(self, name: str, description: str, places: str) -> None:
        super().__init__(
            prog=name, usage=f"{name} [flags] {places}".rstrip(), description=description, allow_abbrev=False,
            formatter_class=_Formatter,
        )  # fmt: skip
        self.add_argument(
            "-V", "--verbose", action="store_true", help="show where in the code an error arose"
        )
        self.add_argument("--version", action=_Version, help="show the version and leave")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = sys.argv[1:] if args is None else args
        return super().parse_known_args([self._spelled(word) for word in given], namespace)

    def _spelled(self, word: str) -> str:
        """A long flag as it was declared, whichever of ``-`` and ``_`` it is written with."""
        if not word.startswith("--"):
            return word
        flag, sign, value = word.partition("=")
        known = {flag_key(name): name for name in self._option_string_actions}
        return known.get(flag_key(flag), flag) + sign + value

    @property
    def flags(self) -> list[str]:
        """Every flag, as it was declared."""
        return list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and what was perhaps meant; leaves with 2."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            message = self._unknown(unknown.split())
        self.exit(USAGE, f"error: {message} ({self.prog} --help lists the flags)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """A help page that cannot be written is an error, of which argparse says nothing."""
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _unknown(self, words: Sequence[str]) -> str:
        from circlekit.errors import near_miss

        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not flags:
            return f"too many arguments: {' '.join(words)}"
        return f"unknown flag {flags[0]}" + near_miss(flags[0], self._option_string_actions, 3)


def add_limits(parser: Parser) -> None:
    """The flags of a command that folds constants, makes them, or runs models."""
    parser.add_argument(
        "--max-memory", type=_size, metavar="SIZE",
        help="what the values of a run, or the constants that are made, may take together: 512M, 8G"
        " (default: half of the memory); what needs more is refused before it is allocated",
    )  # fmt: skip
    parser.add_argument(
        "--max-calls", type=counted, metavar="N",
        help="graphs that the operators of one run may run, so that a WHILE without end has one"
        " (default: 1000000)",
    )  # fmt: skip


def _size(text: str) -> int:
    from circlekit.ir.resource_limits import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def counted(text: str) -> int:
    """The type of an argument that is a whole number from 0 up."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise argparse.ArgumentTypeError(f"a whole number is wanted, not {text[:40]!r}")
    return int(text)


def flag_key(flag: str) -> str:
    """Equal for all ways in which a flag may be written."""
    return flag.replace("_", "-")


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **keywords: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **keywords)

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        from importlib.metadata import version

        print(f"{parser.prog} of circlekit {version('circlekit')}")
        parser.exit()


def run_command(
    parser: Callable[[], Parser], argv: Sequence[str] | None, command: Callable[[argparse.Namespace], int]
) -> int:
    """Parse, run, and turn every end into an exit code, every error into lines without a traceback."""
    verbose = False
    try:
        arguments = parser().parse_args(argv)
        verbose = arguments.verbose
        with _limits_of(arguments), _printable_stdout():
            code = command(arguments)
        code = _flushed(code)
    except SystemExit as leaving:
        return _flushed(leaving.code if isinstance(leaving.code, int) else FAILED)
    except OSError as error:  # most that come of files are FileErrors
        if error.filename is None:
            return _without_stdout(error)
        print(f"error: {printable(str(error.filename))}: {error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # whatever it is, the user gets a line and a code
        print_error(error, verbose)
        return FAILED
    return code


def _flushed(code: int) -> int:
    """``code``, unless what was printed, a help page too, cannot be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return _without_stdout(error)
    return code


def _without_stdout(error: OSError) -> int:
    """The exit code where the standard output takes no more."""
    _drop_stdout()
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    print(f"error: standard output cannot be written: {error.strerror or error}", file=sys.stderr)
    return FAILED


def _limits_of(arguments: argparse.Namespace) -> AbstractContextManager[Any]:
    """What ``add_limits`` lets a user set; nothing for a command without it."""
    if not hasattr(arguments, "max_memory"):
        return nullcontext()
    from circlekit.ir.resource_limits import limited

    return limited(arguments.max_memory, arguments.max_calls)


@contextmanager
def _printable_stdout() -> Iterator[None]:
    """Whatever a command prints of a model is ``printable``."""
    stdout = sys.stdout
    sys.stdout = stdout if stdout is None else _Printable(stdout)
    try:
        yield
    finally:
        sys.stdout = stdout


def terminal() -> TextIO:
    """The standard output as it is, for what steers a terminal on purpose."""
    stream: Any = sys.stdout
    return stream.stream if isinstance(stream, _Printable) else stream


class _Printable:
    """A text stream that escapes what could steer a terminal; all but ``write`` is that of ``stream``."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _drop_stdout() -> None:
    """Send what is still to be printed nowhere, or Python's own flush at the end fails again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str, kept: str = "\n\t") -> str:
    """``text`` for a terminal: whatever could steer it, and what no stream can encode, as an escape.

    Names in a model are the words of whoever made the file.  ``kept``: what stays besides.
    """
    if text.isascii() and text.replace("\n", "").isprintable() and "\n" in kept:
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, most: int = 2000) -> str:
    """Every line of ``text`` cut to a length that can be read: shapes, and names, may have any."""
    return "\n".join(
        x if len(x) <= most else f"{x[:most]}... ({len(x)} characters)" for x in text.split("\n")
    )


def is_watched(stream: TextIO | None) -> bool:
    """Whether a person looks at ``stream``; a process may have been started without one."""
    return stream is not None and stream.isatty()


def print_error(error: Exception, verbose: bool) -> None:
    """One line where it fits, with the places below it; the traceback only for those who ask."""
    if verbose:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, CirclekitError):
        text = str(error)
    elif isinstance(error, MemoryError):
        text = (
            f"the memory is full ({error or 'no more can be allocated'}); --max-memory limits what is taken"
        )
    else:
        text = f"internal error, please report: {type(error).__name__}: {error}"
    print(f"error: {shortened(printable(text))}", file=sys.stderr)
