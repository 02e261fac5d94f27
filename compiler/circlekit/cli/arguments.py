# SPDX-License-Identifier: Apache-2.0
"""The argument parser that all commands use, and flags that several commands share."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from circlekit.errors import near_miss
from circlekit.ir.resource_limits import parse_size

USAGE_ERROR = 2
"""Exit code for wrong arguments."""


class Parser(argparse.ArgumentParser):
    """A parser in which ``-`` may stand for ``_`` in a flag, and which suggests the flag that was meant."""

    def __init__(self, name: str, description: str, places: str) -> None:
        super().__init__(
            prog=name,
            usage=f"{name} [flags] {places}".rstrip(),
            description=description,
            allow_abbrev=False,
        )
        if "\n" in description:
            self.formatter_class = argparse.RawDescriptionHelpFormatter
        self.add_argument(
            "-V", "--verbose", action="store_true", help="show where in the code an error occurred"
        )
        self.add_argument(
            "--version", action="version", version=f"{name} of circlekit {version('circlekit')}"
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = sys.argv[1:] if args is None else args
        return super().parse_known_args([self._declared_spelling(word) for word in given], namespace)

    def _declared_spelling(self, word: str) -> str:
        if not word.startswith("--"):
            return word
        flag, sign, value = word.partition("=")
        known = {flag_key(name): name for name in self.flags}
        return known.get(flag_key(flag), flag) + sign + value

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
        """Print a help page; argparse ignores errors of the standard output, but they must not be lost."""
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _unknown(self, words: Sequence[str]) -> str:
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not flags:
            return f"too many arguments: {' '.join(words)}"
        return f"unknown flag {flags[0]}" + near_miss(flags[0], self.flags, 3)


def flag_key(flag: str) -> str:
    """Return a form of ``flag`` that does not depend on its spelling with ``-`` or ``_``."""
    return flag.replace("_", "-")


def add_limits(parser: Parser) -> None:
    """Add the flags of commands that run models or create constants; ``run_command`` applies them."""
    parser.add_argument(
        "--max-memory",
        type=_size,
        metavar="SIZE",
        help="limit for the values of a run, or the constants that are created, together: 512M, 8G"
        " (default: half of the memory)",
    )
    parser.add_argument(
        "--max-calls",
        type=count,
        metavar="N",
        help="limit for the subgraphs that the operators of one run execute, so that an endless WHILE ends"
        " (default: 1000000)",
    )


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    """Parse a whole number that is not negative."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text[:40]!r}")
    return int(text)


def non_negative_number(text: str) -> float:
    """Parse a finite number that is not negative."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number that is not negative, got {text[:40]!r}")
    return value


def positive_number(text: str) -> float:
    """Parse a finite number above 0."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text[:40]!r}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
