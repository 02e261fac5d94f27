# SPDX-License-Identifier: Apache-2.0
"""Read configuration files: INI as in ONE, or TOML.  The result is {section: {key: text}}.

A section gives the options of a driver, one of ONE's one-* commands, and has the driver's name.  With its
option ``--section``, a driver reads another section instead.  Three sections belong to no driver: see ONECC.
The keys of [DEFAULT] in an INI file belong to every section that knows them, and to [Environment], which has
no fixed keys; other sections ignore them.
"""

from __future__ import annotations

import configparser
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circlekit.errors import did_you_mean
from circlekit.io.parse_json import parse_json
from circlekit.toolchain.option import DriverError, Option
from circlekit.toolchain.user_paths import expanded

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ONECC, ENVIRONMENT, BACKEND = "onecc", "Environment", "backend"
"""Sections that belong to no driver.

ONECC says which drivers run.  ENVIRONMENT sets environment variables.  BACKEND names the target: the device
for which the model is compiled.
"""


@dataclass
class Configuration:
    """A configuration file.

    ``sections``: {section: {key: text}}.  Each section also has the keys of [DEFAULT] in an INI file that it
    does not set itself; [DEFAULT] is left out.
    ``defaults``: the keys of [DEFAULT].
    """

    path: str
    sections: dict[str, dict[str, str]]
    defaults: Collection[str] = ()

    def section(self, name: str) -> dict[str, str]:
        """Return the section ``name``; raise DriverError if the file does not have it."""
        if name not in self.sections:
            near = did_you_mean(name, list(self.sections))
            raise DriverError(
                "AssertionError", f"configuration file must have '{name}' section: {self.path}{near}"
            )
        return self.sections[name]

    @property
    def environment(self) -> dict[str, str]:
        """The variables in the section [Environment]."""
        return self.sections.get(ENVIRONMENT, {})

    @property
    def target(self) -> str | None:
        """The target in the section [backend]; None if there is none."""
        return self.sections.get(BACKEND, {}).get("target") or None

    def own_keys(self, name: str) -> list[str]:
        """Return the keys of the section ``name`` without those of [DEFAULT].

        Raise DriverError if there is no such section.
        """
        return [key for key in self.section(name) if key not in self.defaults]

    def values(self, name: str, options: Collection[Option], *, is_open: bool = False) -> dict[str, Any]:
        """Return {key of an option: its value} for those of ``options`` that the section ``name`` gives.

        ``is_open``: whether keys that are no options are ignored; if False, they raise DriverError.  Also
        raise DriverError if there is no such section, and for wrong values.
        """
        known = {option.key: option for option in options}
        unknown = [key for key in self.own_keys(name) if key.replace("-", "_") not in known]
        if unknown and not is_open:
            near = did_you_mean(unknown[0], list(known))
            where = f"in section [{name}] of {self.path}"
            raise DriverError(  # "": the exit code is that of wrong usage
                "", f"the following arguments are unrecognized: {' '.join(unknown)} ({where}{near})"
            )
        return dict(self._read(name, known))

    def _read(self, name: str, options: Mapping[str, Option]) -> Iterator[tuple[str, Any]]:
        """Yield (key, value) for each of ``options`` in the section; raise DriverError for wrong values."""
        for key, text in self.sections[name].items():
            option = options.get(key.replace("-", "_"))
            try:
                if option is not None:
                    yield option.key, option.read(text)
            except ValueError as error:
                raise DriverError("ValueError", f"{self.path}: [{name}] {key}: {error}") from None


def read_configuration(path: str) -> Configuration:
    """Read a configuration file: TOML if its name ends in .toml, else INI.

    Raise DriverError, in ONE's words, for a missing or damaged file.
    """
    text = read_text(path, "Not found given configuration file")
    is_toml = Path(path).suffix.lower() == ".toml"
    return Configuration(path, _toml(text, path)) if is_toml else read_ini(text, path)


def read_text(path: str, words: str) -> str:
    """Return the UTF-8 text in the file at ``path``; ``~`` in the path stands for a home directory.

    ``words``: the beginning of the message if the file cannot be read.  Raise DriverError if the file cannot
    be read, or is not UTF-8.
    """
    try:
        return Path(expanded(path)).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DriverError("UnicodeDecodeError", f"{path}: expected text in UTF-8: {error}") from None
    except FileNotFoundError:
        problem = "no such file"
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        problem = getattr(error, "strerror", None) or str(error)
    raise DriverError("FileNotFoundError", f"{words}: {path}: {problem}")


def read_ini(text: str, path: str) -> Configuration:
    """Return the configuration in the text of an INI file.

    ``text``: the content of the file.  ``path``: its path, for messages.
    ``#`` and ``;`` begin comments, within a line only after white space.  Keys are case-sensitive.  In a
    text, ``%(key)s`` stands for the text of that key, and ``%%`` for ``%``.
    Raise DriverError for a damaged file.
    """
    parser = configparser.ConfigParser(inline_comment_prefixes=("#", ";"))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # the documented way to keep the case
    try:
        parser.read_string(text, source=path)
        sections = {name: dict(parser[name]) for name in parser.sections()}
        return Configuration(path, sections, [*parser.defaults()])
    except configparser.Error as error:
        message = " ".join(str(error).split())
        message = message if path in message else f"{path}: {message}"
        raise DriverError(type(error).__name__, message) from None


def _toml(text: str, path: str) -> dict[str, dict[str, str]]:
    """Return the sections of a TOML file: {section: {key: text}}; [DEFAULT] is a section like any other."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers too long, lists nested too deeply
        raise DriverError("ParsingError", f"{path}: {error}") from None
    loose = [name for name, table in tables.items() if not isinstance(table, dict)]
    if loose:
        raise DriverError(
            "ParsingError", f"{path}: expected only sections, such as [{ONECC}], got {loose[0]}"
        )
    return {
        name: {key: text_of(value, f"{path}: [{name}] {key}") for key, value in table.items()}
        for name, table in tables.items()
    }


def text_of(value: Any, where: str) -> str:
    """Return the text that an INI file would have for ``value`` from a TOML or JSON file.

    The text of a list is the texts of its items with commas between.
    ``where``: the place of the value, for the message.  Raise DriverError for a table, for null, and for a
    list in a list.
    """
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, list | dict) or item is None for item in items):
        expected = "expected a text, a number, true or false, or a list of these"
        raise DriverError("ParsingError", f"{where}: {expected}")
    return ",".join(map(str, items))


def read_workflow_json(path: str) -> Any:
    """Return the content of a workflow file.

    Raise DriverError, in ONE's words, if the file cannot be read or is not JSON.
    """
    text = read_text(path, "Not found given workflow file")
    try:
        return parse_json(text)
    except ValueError as error:
        raise DriverError("ImportError", f"Invalid workflow file: {path}: {error}") from None
