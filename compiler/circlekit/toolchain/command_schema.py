# SPDX-License-Identifier: Apache-2.0
"""Schema files: Python files that describe the options of a backend's program.

A backend is a compiler for devices, with programs of its own; a target is one of these devices.
With a schema file, the keys of a section in a configuration file become options of the program.  The schema
file defines ``command_schema()``, which returns an ArgumentParser.  As in ONE, it imports the classes below
with ``from onelib import argumentparse``; ``load_schema`` provides that module while the schema file runs.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from circlekit.toolchain.option import SWITCH_WORDS, DriverError


class Action:
    """What an argument of a program is for.  Each purpose is a subclass."""


class DriverName(Action):
    """The name of the program."""


class NormalOption(Action):
    """An option, or a positional argument, that gets its value from a key of a section."""


class TargetOption(Action):
    """The argument that gets the name of the target."""


@dataclass
class Argument:
    """An argument of a program.

    ``names``: its flags, or the name of a positional argument.  ``action``: its purpose.
    ``dtype``: the type of its value; ``bool`` for a switch.
    """

    names: tuple[str, ...]
    action: type[Action]
    dtype: type

    @property
    def keys(self) -> list[str]:
        """The names without dashes."""
        return [name.lstrip("-") for name in self.names]

    @property
    def is_flag(self) -> bool:
        """Whether a flag stands before the value."""
        return self.names[0].startswith("-")


@dataclass
class ArgumentParser:
    """The arguments of a program of a backend.

    ``driver``: the name of the program; None until an argument gives it.
    ``target``: the target for which the program is called; None is written as an empty word.
    ``arguments``: in their order on the command line.
    """

    driver: str | None = None
    target: str | None = None
    arguments: list[Argument] = field(default_factory=list)

    def add_argument(self, *names: str, action: type[Action] = Action, dtype: type = str) -> None:
        """Add an argument (see ``Argument``); raise DriverError, in ONE's words, if it is not valid."""
        known = {key for argument in self.arguments for key in argument.keys}
        dashed = [name.startswith("-") for name in names]
        faults = {
            "Duplicate option names": bool(known & {name.lstrip("-") for name in names}),
            '"action" keyword argument is required': action is Action,
            "Invalid action": action not in (DriverName, NormalOption, TargetOption),
            "Invalid option name": not names,
            "onecc doesn't support multiple driver name": action is DriverName and len(names) > 1,
            "Only normal option can be boolean type": dtype is bool and action is not NormalOption,
            'Boolean type option should start with dash("-")': dtype is bool and not all(dashed),
            "Invalid option names. Only either of option type is allowed: positional or optional":
                action is not DriverName and len(set(dashed)) > 1,
        }  # fmt: skip
        for message, is_wrong in faults.items():
            if is_wrong:
                raise DriverError("RuntimeError", f"{message}: {', '.join(names)}")
        if action is DriverName:
            self.driver = names[0]
        else:
            self.arguments.append(Argument(names, action, dtype))

    def words(self, keys: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """Return (the words of the command line for the ``keys`` of a section, the keys that were not used).

        The key of a switch gives its flag, or no word if the text is a word for off, such as ``false``.
        These keys are not used: unknown ones, keys with an empty text, a second name of one argument, and
        names of the target's argument.
        """
        words: list[str] = []
        used: set[str] = set()
        for argument in self.arguments:
            flag = argument.names[:1] if argument.is_flag else ()
            if argument.action is TargetOption:
                words += [*flag, self.target or ""]
                continue
            given = next((key for key in argument.keys if keys.get(key)), None)
            if given is None:
                continue
            used.add(given)
            if argument.dtype is bool and not SWITCH_WORDS.get(keys[given].lower(), True):
                continue
            words += flag
            if argument.dtype is not bool:
                words.append(keys[given])
        return words, [key for key in keys if key not in used]


def load_schema(path: Path, target: str | None) -> ArgumentParser:
    """Run the schema file ``path``; return the arguments that it describes.

    ``target``: the target for which the program is called, or None.  Raise DriverError if the file cannot be
    run or raises an error, if it has no ``command_schema``, or if that function does not return an
    ArgumentParser with the name of a program.
    """
    with _onelib():
        try:
            names = runpy.run_path(str(path))
            if "command_schema" not in names:
                raise DriverError("RuntimeError", 'You must implement "command_schema" function')
            schema: Any = names["command_schema"]()
        except DriverError as error:
            raise DriverError(error.kind, f"{error.message} ({path})") from None
        except (Exception, SystemExit) as error:  # a user's code may raise anything
            raise DriverError(type(error).__name__, f"{error} ({path})") from error
    if not isinstance(schema, ArgumentParser) or schema.driver is None:
        raise DriverError("RuntimeError", f"expected an ArgumentParser with a DriverName from {path}")
    schema.target = target
    return schema


@contextmanager
def _onelib() -> Iterator[None]:
    """Let the code in the block import this module as ``onelib.argumentparse``."""
    package = ModuleType("onelib")
    module = sys.modules[__name__]
    package.argumentparse = module  # type: ignore[attr-defined]  # a module that exists only here
    before = {name: sys.modules.get(name) for name in ("onelib", "onelib.argumentparse")}
    sys.modules["onelib"], sys.modules["onelib.argumentparse"] = package, module
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old
