# SPDX-License-Identifier: Apache-2.0
"""Drivers: ONE's one-* commands.  A driver is a list of options and a function that does the work.

The command onecc runs several drivers, its steps, in one process.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

from circlekit.errors import CirclekitError
from circlekit.toolchain.configuration import Configuration, read_configuration
from circlekit.toolchain.option import (
    DriverError,
    Kind,
    Option,
    StepFailed,
    UsageFault,
    Values,
    merged,
    naming,
    one_line,
)
from circlekit.toolchain.process_exit import (
    INTERRUPTED,
    USAGE_ERROR,
    HelpParser,
    checking_stdout,
    flush_stdout,
    is_about_stdout,
)
from circlekit.toolchain.session import FAILED, Session

STANDARD = (
    Option("version", "show program's version number and exit", "-v", Kind.SWITCH),
    Option("verbose", "output additional information to stdout or stderr", "-V", Kind.SWITCH),
    Option("config", "run with configuration file (.cfg, or .toml)", "-C"),
    Option("section", "section of the configuration file to read", "-S", is_shown=False),
)
"""The options that most drivers have (see ``Driver.standard``); configuration files have no keys for them."""


@dataclass
class Invocation:
    """A call of a driver with checked options.

    ``values``: the values of all options: from the command line, the configuration file, ``Driver.group``, or
    defaults.
    ``command``: only the values that the command line gives.
    ``backend_words``: the words of the command line that are passed on to a program of a backend (a compiler
    for devices).
    ``configuration``: the configuration file, None if there is none.
    ``section``: the section of this file that the driver reads, {key: text}; {} without a file.
    """

    driver: Driver
    values: Values
    command: Values
    backend_words: list[str]
    configuration: Configuration | None = None
    section: dict[str, str] = field(default_factory=dict)

    def flags(self, *names: str) -> list[str]:
        """Return the words of a command line for the options ``names`` with their values."""
        known = {option.key: option for option in self.driver.options}
        return [word for name in names for word in known[name].words(self.values.get(name))]


@dataclass(frozen=True)
class Driver:
    """A command of ONE, such as one-optimize.

    ``name``, ``description``: for the help page.
    ``declare``: returns the options without those of STANDARD.
    ``run``: does the work.
    ``check``: raises UsageFault if values of options do not fit together.
    ``usage``: the usage line; None: the line of argparse.
    ``foreign_words``: which words of the command line become ``backend_words``:

    - "no": none
    - "after_dashes": the words after ``--``
    - "any": the words after ``--``; if there is no ``--``, all unknown words

    ``log``: the name of an option whose value is a path.  The log file is this path with ``.log`` appended.
    Empty: no log.
    ``standard``: the names of the options of STANDARD that the driver has.
    ``has_open_section``: whether its section in a configuration file may have keys that are no options.
    ``group``: returns further values, such as those of an optimization group.  An option gets such a value if
    neither the command line nor the configuration file gives one.  Its first argument: the values that the
    command line and the configuration file give.
    ``details``: returns the end of the help page.
    ``prepare``: raises errors before the work.  onecc calls it for all steps before it runs the first step.
    ``reads``: returns the paths of the models that the driver reads.  If an earlier step of onecc writes one
    of these, the model also stays in memory.
    """

    name: str
    description: str
    declare: Callable[[], Sequence[Option]]
    run: Callable[[Invocation, Session], None]
    check: Callable[[Values], None] = field(default=lambda values: None)
    usage: str | None = None
    foreign_words: str = "no"
    log: str = "output_path"
    standard: tuple[str, ...] = ("version", "verbose", "config", "section")
    has_open_section: bool = False
    group: Callable[[Values, Session], Mapping[str, Any]] = field(default=lambda values, session: {})
    details: Callable[[Session], str] = field(default=lambda session: "")
    prepare: Callable[[Invocation, Session], None] = field(default=lambda invocation, session: None)
    reads: Callable[[Invocation], list[str]] = field(
        default=lambda invocation: [str(invocation.values.get("input_path", ""))]
    )

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run with the arguments ``argv``, None for those of the process; return the exit code."""
        return self.call(sys.argv[1:] if argv is None else argv, Session())

    def call(self, words: Sequence[str], session: Session) -> int:
        """Run with the arguments ``words`` in ``session``; print errors; return the exit code."""
        return guarded(
            self.name,
            lambda: self.parser(session).print_usage(sys.stderr),
            lambda: self.execute(self.resolve(words, session), session),
        )

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """The options of the driver, without those of STANDARD."""
        return tuple(self.declare())

    def parser(self, session: Session) -> argparse.ArgumentParser:
        """Return the parser of the command line."""
        parser = HelpParser(
            self.name, self.usage, self.description, self.details(session),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        groups: dict[str, argparse._ActionsContainer] = {}
        for option in (*(o for o in STANDARD if o.name in self.standard), *self.options):
            if option.exclusive and option.exclusive not in groups:
                groups[option.exclusive] = parser.add_mutually_exclusive_group()
            option.add_to(groups[option.exclusive] if option.exclusive else parser)
        return parser

    # -- from words to values --------------------------------------------------------------------

    def resolve(self, words: Sequence[str], session: Session) -> Invocation:
        """Return the call for the command line ``words``, with values from a configuration file and defaults.

        The environment variables of the configuration file are added to ``session``.  Raise UsageFault or
        DriverError for wrong options or a wrong configuration file.  Raise SystemExit for wrong flags,
        ``--help`` and ``--version``.
        """
        own, rest = self._split(list(words), session)
        command = vars(own)
        standard = {name: command.pop(name) for name in self.standard if name in command}
        if "version" in standard:
            print(version_text(self.name), flush=True)
            raise SystemExit(0)
        path, section = standard.get("config"), standard.get("section", self.name)
        configuration = None if path is None else read_configuration(path)
        session.verbose = session.verbose or "verbose" in standard
        if configuration is None:
            return Invocation(self, self._values(command, {}, session), command, rest)
        given = configuration.values(section, self.options, is_open=self.has_open_section)
        session.environment.update(configuration.environment)
        with naming(configuration.path, f"in section [{section}] of {path}"):
            values = self._values(command, given, session)
        return Invocation(self, values, command, rest, configuration, configuration.section(section))

    def _values(self, command: Values, given: Mapping[str, Any], session: Session) -> Values:
        """Return the checked values of the options.

        The first of these that gives an option counts: ``command`` (the command line), ``given`` (the
        configuration file), the driver's ``group``, the default.
        """
        values = merged(self.options, command, given, self.group({**given, **command}, session))
        self._require(values)
        self.check(values)
        return values

    def _split(self, words: list[str], session: Session) -> tuple[argparse.Namespace, list[str]]:
        """Parse ``words``; return (the values of the driver's options, the words for another program)."""
        parser = self.parser(session)
        if self.foreign_words == "no":
            return parser.parse_args(words), []
        end = words.index("--") if "--" in words else len(words)
        if self.foreign_words == "any" and end == len(words):
            return parser.parse_known_args(words)
        return parser.parse_args(words[:end]), words[end + 1 :]

    def _require(self, values: Values) -> None:
        """Raise UsageFault if a required option has no value."""
        missing = ["/".join(o.flags) for o in self.options if o.required and o.key not in values]
        if missing:
            raise UsageFault(f"the following arguments are required: {' '.join(missing)}")

    # -- the work --------------------------------------------------------------------------------

    def execute(self, invocation: Invocation, session: Session) -> None:
        """Run the driver; copy its output to the log file, if there is one."""
        output = invocation.values.get(self.log)
        with session.logging(str(output)) if output else nullcontext():
            self.run(invocation, session)


def guarded(name: str, print_usage: Callable[[], None], work: Callable[[], None]) -> int:
    """Call ``work``; return the exit code.  Print an error of ``work`` as ONE's driver ``name`` does.

    ``print_usage``: is called before the message of a UsageFault.
    """
    return checking_stdout(lambda: _code_of(name, print_usage, work), f"{name}: OSError", FAILED)


def _code_of(name: str, print_usage: Callable[[], None], work: Callable[[], None]) -> int:
    """Call ``work`` as ``guarded`` does; raise only errors of the standard output."""
    try:
        work()
        flush_stdout()
        return 0
    except StepFailed as failure:  # its message was printed already
        return failure.code
    except UsageFault as fault:
        print_usage()
        return _print(f"{name}: error: {fault.message}", USAGE_ERROR)
    except DriverError as error:  # without a kind, it stands for wrong usage
        kind = f"{error.kind}: " if error.kind else "error: "
        return _print(f"{name}: {kind}{error.message}", FAILED if error.kind else USAGE_ERROR)
    except CirclekitError as error:
        return _print(f"{name}: {type(error).__name__}: {one_line(error)}", FAILED)
    except SystemExit as exit:
        code = 0 if exit.code is None else exit.code
        return code if isinstance(code, int) else FAILED
    except KeyboardInterrupt:
        return _print(f"{name}: interrupted", INTERRUPTED)
    except Exception as error:  # a defect of circlekit also ends with one line and an exit code
        if is_about_stdout(error):
            raise
        if "-V" in sys.argv or "--verbose" in sys.argv:
            traceback.print_exc()
        return _print(f"{name}: {type(error).__name__}: {error}", FAILED)


def print_text(name: str, text: str, end: str = "\n") -> int:
    """Print ``text`` and ``end`` as the whole work of the driver ``name``; return the exit code."""
    return guarded(name, lambda: None, lambda: print(text, end=end))


def _print(line: str, code: int) -> int:
    """Print ``line`` to standard error; return ``code``."""
    print(line, file=sys.stderr, flush=True)
    return code


def version_text(name: str) -> str:
    """Return the text that ``--version`` of the driver ``name`` prints."""
    return f"{name} version {version('circlekit')}\ncirclekit, licensed under the Apache License, Version 2.0"
