# SPDX-License-Identifier: Apache-2.0
"""Options of drivers.  One description of an option serves flags, help, configuration files and log lines."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from circlekit.errors import CirclekitError

Values = dict[str, Any]
"""The values of a driver's options, by key: a text, a bool for a switch, a list for a repeated option."""


class Kind(Enum):
    """What an option takes: a text, nothing, or one or more texts each time that it is given."""

    TEXT = auto()
    SWITCH = auto()
    REPEATED = auto()


@dataclass(frozen=True)
class Option:
    """An option of a driver: the key ``name`` in configuration files, the flag ``--name`` in commands.

    ``short``: the short flag, with its dash.  ``default``: the value if the option is not given.  ``parse``:
    raises ValueError for a text that is not accepted.  ``choices``: the accepted texts, () for all.
    ``constants``: flags ``--VALUE`` that set the option to VALUE, {value: help}; then the help shows only
    these flags.  ``exclusive``: of the options with the same name here, at most one may be given.
    ``is_shown``: whether the help lists the option.
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
        """The key of the value; in a configuration file ``-`` and ``_`` are the same."""
        return self.name.replace("-", "_")

    @property
    def flags(self) -> list[str]:
        """The flags on the command line, the short one first."""
        return [*([self.short] if self.short else []), f"--{self.name}"]

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the option to ``parser``; if it is not given, the parsed arguments do not have it."""
        text = self.help.replace("%", "%%") if self.is_shown else argparse.SUPPRESS
        for value, help in self.constants.items():
            parser.add_argument(
                f"--{value}", action="store_const", dest=self.key, const=value, help=help,
                default=argparse.SUPPRESS,
            )  # fmt: skip
        if self.constants:
            text = argparse.SUPPRESS
        keywords: dict[str, Any] = {"dest": self.key, "default": argparse.SUPPRESS, "help": text}
        if self.kind is Kind.SWITCH:
            keywords["action"] = "store_true"
        else:
            keywords["metavar"] = self.name.upper().replace("-", "_")
            if self.choices:
                keywords["choices"] = self.choices
            if self.kind is Kind.REPEATED:
                keywords.update(action="extend", nargs="+")
        parser.add_argument(*self.flags, **keywords)

    def read(self, text: str) -> Any:
        """Return the value of the option for ``text`` in a configuration file; None for an empty text.

        Raise ValueError for a text that the option does not accept.
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

    def words(self, value: Any) -> list[str]:
        """Return the words that give the option ``value`` on a command line; none for None and False."""
        if value is None or value is False:
            return []
        if self.kind is Kind.SWITCH:
            return [f"--{self.name}"]
        if self.constants:
            return [f"--{value}"]
        values = value if self.kind is Kind.REPEATED else [value]
        return [word for text in values for word in (f"--{self.name}", str(text))]


SWITCH_WORDS = {
    **dict.fromkeys(("true", "1", "y", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "n", "no", "off"), False),
}
"""The texts that set a switch in a configuration file, in lower case."""

INPUT_PATH = Option("input_path", "full filepath of the input file", "-i", required=True)
OUTPUT_PATH = Option("output_path", "full filepath of the output file", "-o", required=True)
SAVE_INTERMEDIATE = Option("save_intermediate", "Save intermediate files to output folder", kind=Kind.SWITCH)


def merged(options: Iterable[Option], *levels: Mapping[str, Any]) -> Values:
    """Return the values of ``options`` from several mappings by key.

    The first of ``levels`` that has an option decides, then its default; an option without any is absent.
    The values of a repeated option in all levels are joined.
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

    ``kind``: the name of the Python exception with which ONE's driver ends; it begins the printed line.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class UsageFault(CirclekitError):
    """Wrong or missing options of a driver."""


def one_line(error: CirclekitError) -> str:
    """Return the message of ``error`` and its places, without the lines of the model around them."""
    lines = [line.strip() for text in error.where for line in text.splitlines()[:1]]
    places = ", ".join(line for line in lines if line.startswith(("at ", "in ", "for ")))
    return error.message.splitlines()[0] + (f" ({places})" if places else "")


@contextmanager
def naming(path: str, where: str) -> Iterator[None]:
    """Add ``where`` to errors of the block that do not name the file ``path``, in which it is."""
    try:
        yield
    except (UsageFault, DriverError) as fault:
        if path not in fault.message:
            fault.message += f" ({where})"
        raise


class StepFailed(CirclekitError):
    """A program that a driver ran has failed; its error is already printed.  ``code``: its exit code."""

    def __init__(self, program: str, code: int) -> None:
        super().__init__(f"{program} failed with exit code {code}")
        self.code = code
