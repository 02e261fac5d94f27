# SPDX-License-Identifier: Apache-2.0
"""Options and errors of drivers, which are ONE's one-* commands.

An ``Option`` declares a flag with its help text (``add_to``), reads its value from a configuration file
(``read``), and writes it as words of a command line (``words``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from circlekit.errors import CirclekitError

Values = dict[str, Any]
"""{key of an option: its value}: a text, a bool for a switch, a list of texts for a repeated option."""


class Kind(Enum):
    """What follows the flag of an option.

    TEXT: one text.  SWITCH: nothing.  REPEATED: one or more texts; the flag may be given several times.
    """

    TEXT = auto()
    SWITCH = auto()
    REPEATED = auto()


@dataclass(frozen=True)
class Option:
    """An option of a driver: ``name`` in configuration files, the flag ``--name`` on command lines.

    In configuration files, ``-`` and ``_`` in names are the same.
    ``help``: its text on the help page.  ``short``: the short flag with its dash, such as ``-i``.
    ``kind``: what follows the flag.
    ``default``: the value if the option is not given; None: there is no value then.
    ``required``: whether it must be given.
    ``parse``: converts a text; raises ValueError for a wrong text.  ``Values`` keep the text itself.
    ``choices``: the accepted texts; (): all.
    ``constants``: {value: help} of additional flags ``--VALUE`` that set the option to VALUE.  If there are
    any, the help page shows them in place of ``--name``.
    ``exclusive``: the name of a group of options of which at most one may be given.
    ``is_shown``: whether the help page lists the option.
    """

    name: str
    help: str = ""
    short: str = ""
    kind: Kind = Kind.TEXT
    default: str | None = None
    required: bool = False
    parse: Callable[[str], object] = str
    choices: tuple[str, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    exclusive: str = ""
    is_shown: bool = True

    @property
    def key(self) -> str:
        """The key of the option in ``Values``: its name with ``_`` for ``-``."""
        return self.name.replace("-", "_")

    @property
    def flags(self) -> list[str]:
        """The flags on the command line, the short one first."""
        return [*([self.short] if self.short else []), f"--{self.name}"]

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the option to ``parser``; if it is not given, the parsed arguments have no attribute for it."""
        text = self.help.replace("%", "%%") if self.is_shown else argparse.SUPPRESS
        for value, help in self.constants.items():
            parser.add_argument(
                f"--{value}", action="store_const", dest=self.key, const=value, help=help.replace("%", "%%"),
                default=argparse.SUPPRESS,
            )  # fmt: skip
        if self.constants:
            text = argparse.SUPPRESS
        keywords: dict[str, Any] = {"dest": self.key, "default": argparse.SUPPRESS, "help": text}
        if self.kind is Kind.SWITCH:
            keywords["action"] = "store_true"
        else:
            keywords["metavar"] = self.name.upper().replace("-", "_")
            keywords["type"] = self._checked
            if self.choices:
                keywords["choices"] = self.choices
            if self.kind is Kind.REPEATED:
                keywords.update(action="extend", nargs="+")
        parser.add_argument(*self.flags, **keywords)

    def _checked(self, text: str) -> str:
        """Return ``text``, which is from a command line; raise an error of argparse if it is not accepted."""
        try:
            self.parse(text)
        except ValueError as error:
            is_number = self.parse in (int, float)  # for numbers, argparse's own words, which ONE prints
            message = f"invalid {self.parse.__name__} value: {text!r}" if is_number else str(error)
            raise argparse.ArgumentTypeError(message) from None
        return text

    def read(self, text: str) -> Any:
        """Return the value for ``text``, which is from a configuration file; None for an empty text.

        Raise ValueError for a text that is not accepted.
        """
        if not text:
            return None
        if self.kind is Kind.SWITCH:
            if text.lower() not in SWITCH_WORDS:
                raise ValueError(f"expected True or False, got {text!r}")
            return SWITCH_WORDS[text.lower()]
        if self.choices and text not in self.choices:
            raise ValueError(f"expected one of {', '.join(self.choices)}, got {text!r}")
        self.parse(text)
        return [text] if self.kind is Kind.REPEATED else text

    def words(self, value: Any, is_joined: bool = False) -> list[str]:
        """Return the words of a command line that set the option to ``value``; [] for None and False.

        ``is_joined``: write flag and text as one word, ``--name=text``.  A driver takes a text that begins
        with ``-`` only in this form; ONE's programs do not know it.
        """
        if value is None or value is False:
            return []
        if self.kind is Kind.SWITCH:
            return [f"--{self.name}"]
        texts = value if self.kind is Kind.REPEATED else [value]
        if is_joined:
            return [f"--{self.name}={text}" for text in texts]
        return [word for text in texts for word in (f"--{self.name}", str(text))]


SWITCH_WORDS = {
    **dict.fromkeys(("true", "1", "y", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "n", "no", "off"), False),
}
"""{text in a configuration file, in lower case: value of the switch}."""

INPUT_PATH = Option("input_path", "full filepath of the input file", "-i", required=True)
OUTPUT_PATH = Option("output_path", "full filepath of the output file", "-o", required=True)
SAVE_INTERMEDIATE = Option("save_intermediate", "Save intermediate files to output folder", kind=Kind.SWITCH)


def merged(options: Iterable[Option], *levels: Mapping[str, Any]) -> Values:
    """Return the values of ``options``, joined from several ``levels`` {key: value}.

    The first level that has a value for an option counts; if none has, the default counts; without a default
    the option is absent.  For a repeated option, the values of all levels are joined.
    """
    values: Values = {}
    for option in options:
        given = [level[option.key] for level in levels if level.get(option.key) is not None]
        if option.kind is Kind.REPEATED:
            given = [[text for texts in given for text in texts]] if given else []
        value = given[0] if given else option.default
        if value is not None:
            values[option.key] = value
    return values


# -- errors --------------------------------------------------------------------------------------


class DriverError(CirclekitError):
    """A driver cannot do its work.

    ``kind``: the word before the message in the printed line.  In most cases it is the name of the Python
    exception with which ONE's driver ends.  "": ONE's driver reports wrong usage; the printed line has the
    word ``error``, and the exit code is that of wrong usage.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class UsageFault(CirclekitError):
    """A driver was called with wrong options, or without required ones.

    Before the message, the usage line is printed.
    """


def one_line(error: CirclekitError) -> str:
    """Return the first line of the message of ``error`` and, in parentheses, its places.

    A place is the first line of a text in ``error.where``, if it begins with "at", "in" or "for", such as
    ``at net.circle > main``.  Other lines, such as the text of the model there, are left out.
    """
    lines = [line.strip() for text in error.where for line in text.splitlines()[:1]]
    places = ", ".join(line for line in lines if line.startswith(("at ", "in ", "for ")))
    return error.message.splitlines()[0] + (f" ({places})" if places else "")


@contextmanager
def naming(path: str, where: str) -> Iterator[None]:
    """Append ``where`` to the message of a UsageFault or DriverError that the ``with`` block raises.

    ``where``: a place in a configuration or workflow file.
    ``path``: this file, or ``where`` again; if the message contains it, the message stays as it is.
    """
    try:
        yield
    except (UsageFault, DriverError) as fault:
        if path not in fault.message:
            fault.message += f" ({where})"
        raise


class StepFailed(CirclekitError):
    """A program, or a step of onecc, has failed and has printed its error.  ``code``: its exit code."""

    def __init__(self, program: str, code: int) -> None:
        super().__init__(f"{program} failed with exit code {code}")
        self.code = code
