# SPDX-License-Identifier: Apache-2.0
"""one-codegen and one-profile: run programs of a backend.

A backend is a compiler for devices; its programs are named BACKEND-compile and BACKEND-profile.  A target is
one of the devices; a file of the installation names the backend of each target.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from circlekit.toolchain.command_schema import load_schema
from circlekit.toolchain.configuration import Configuration
from circlekit.toolchain.driver import Driver, Invocation
from circlekit.toolchain.option import Option, StepFailed, UsageFault
from circlekit.toolchain.session import Session

OPTIONS = (
    Option("backend", "backend name to use", "-b"),
    Option("target", "run with specific target of the backend", "-T"),
)


def run_program(session: Session, name: str, words: list[str]) -> None:
    """Run the program ``name`` of a backend with the arguments ``words``.

    Raise StepFailed if it fails, DriverError if it is not found.
    """
    program = session.installation.find_program(name)
    if isinstance(program, Path):
        session.require([str(program), *words], name)
        return
    try:
        code: object = program(words)  # a function that a Python package provides
    except SystemExit as end:  # argparse, for example, exits for -h
        code = end.code
    if isinstance(code, str):
        print(code, file=sys.stderr)
    if code:
        raise StepFailed(name, code if isinstance(code, int) else 1)


def _run(suffix: str, invocation: Invocation, session: Session) -> None:
    """Run the programs that ``plan`` returns."""
    for name, words in plan(suffix, invocation, session):
        run_program(session, name, words)


def _prepare(suffix: str, invocation: Invocation, session: Session) -> None:
    """Raise the errors of ``plan``, and DriverError if one of the programs is not found; run nothing."""
    for name, _ in plan(suffix, invocation, session, is_dry=True):
        session.installation.find_program(name)


def plan(
    suffix: str, invocation: Invocation, session: Session, *, is_dry: bool = False
) -> list[tuple[str, list[str]]]:
    """Return (name, arguments) of each program to run.  The name is ``BACKEND-suffix``, or the schema file's.

    The arguments come from the first of the following that exists.  "The section" is the driver's section in
    the configuration file.

    1. ``backend_words``, the words of the command line that are for the backend.  If there is a configuration
       file, they count only if the command line also names the backend.
    2. The schema file (see ``command_schema``) of the target's backend.  It names the program, and turns the
       keys of the section into arguments.  If the section has a key ``command``, the schema file is not used:
       the program ``BACKEND-suffix`` of the target's backend gets the words of this key.
    3. The section.  If it has a key ``backends``, a list, the arguments of each backend are in the key with
       the name of the backend.  All backends run, unless the command line chooses one.  Without the key
       ``backends``, the arguments are in the key ``command``.

    With a target, ``--target NAME`` comes before the arguments, unless a schema file makes them.
    ``is_dry``: print no warning about keys that the schema file does not use.
    Raise UsageFault, in ONE's words, if something is missing or does not fit; DriverError if the file of the
    target is missing or wrong.
    """
    if {"backend", "target"} <= invocation.command.keys():
        raise UsageFault("'backend' option and 'target' option cannot be used simultaneously.")
    section = invocation.section
    backend, target = invocation.command.get("backend"), _target(invocation)
    named = section.get("backends", "").split(",") if section.get("backends") else []
    _check_backends(section, named, backend)
    if not (backend or section.get("backend") or named or target):
        raise UsageFault("the following arguments are required: [-b/--backend | -T/--target]")
    front = ["--target", target] if target else []
    if invocation.backend_words and (invocation.configuration is None or backend):
        chosen = backend or session.installation.backend_of(str(target))
        return [(f"{chosen}-{suffix}", [*front, *invocation.backend_words])]
    if invocation.configuration is None:
        raise UsageFault("commands for the backend is missing.")
    if not backend and target:
        chosen = session.installation.backend_of(target)
        command = {"compile": "codegen"}.get(suffix, suffix)  # schema files are named after the command
        schema = session.installation.schema_file(chosen, command)
        if schema is not None and not section.get("command"):
            return [
                _by_schema(schema, target, invocation.configuration, section, None if is_dry else session)
            ]
        # if there is no schema file, a backend that the section names has precedence over the target's
        has_backend = bool(section.get("backend") or named)
        if schema is not None or not has_backend:
            return [(f"{chosen}-{suffix}", [*front, *_command(section, invocation.configuration)])]
    if not named:
        chosen = str(backend or section["backend"])
        return [(f"{chosen}-{suffix}", [*front, *_command(section, invocation.configuration)])]
    return [
        (f"{name}-{suffix}", [*front, *section[name].split()])
        for name in ([str(backend)] if backend else named)
    ]


def _target(invocation: Invocation) -> str | None:
    """Return the target on the command line.

    If the command line names neither a target nor a backend, return the target of the configuration file.
    Return None if there is no target.
    """
    given = invocation.command.get("target")
    if given is None and invocation.configuration is not None and not invocation.command.get("backend"):
        given = invocation.configuration.target
    return None if given is None else str(given)


def _check_backends(section: dict[str, str], named: list[str], backend: object) -> None:
    """Raise UsageFault if the keys of a section do not fit together.

    ``named``: the backends in its key ``backends``.  ``backend``: the one on the command line, or None.
    """
    if section.get("backend") and named:
        raise UsageFault("'backend' option and 'backends' option cannot be used simultaneously.")
    if backend and section.get("backend") and backend != section["backend"]:
        raise UsageFault(f"Not found the command of given backend: {backend}")
    if section.get("backend") and not section.get("command"):
        raise UsageFault("'command' key is missing in the configuration file.")
    for name in named:
        if not section.get(name):
            raise UsageFault(f"Not found the command for {name}")
    if backend and named and backend not in named:
        raise UsageFault(f"Not found the command of given backend: {backend}")


def _command(section: dict[str, str], configuration: Configuration) -> list[str]:
    """Return the words of the key ``command``; raise UsageFault if it is missing."""
    if not section.get("command"):
        raise UsageFault(f"'command' key is missing in the configuration file. ({configuration.path})")
    return section["command"].split()


def _by_schema(
    schema: Path,
    target: str,
    configuration: Configuration,
    section: dict[str, str],
    session: Session | None,
) -> tuple[str, list[str]]:
    """Return (name, arguments) of the program that a schema file describes, for the keys of ``section``.

    If the schema file does not use a key of the section (see ``ArgumentParser.words``), other than those of
    [DEFAULT], print a warning in ``session``, and run the program with ``-h`` to show its options.  If
    ``session`` is None, do neither.
    """
    parser = load_schema(schema, target)
    words, unused = parser.words(section)
    unknown = [key for key in unused if key not in configuration.defaults]
    driver = str(parser.driver)
    if unknown and session is not None:
        session.say(f"WARNING: there are invalid options {unknown}")
        run_program(session, driver, ["-h"])
    return driver, words


def _driver(name: str, description: str, suffix: str) -> Driver:
    """Return a driver that runs the programs ``BACKEND-suffix``."""

    def details(session: Session) -> str:
        """Return a line for the help page that lists the installed programs."""
        found = ", ".join(session.installation.backends(f"-{suffix}"))
        return f"available backend drivers: {found}" if found else "There is no available backend driver."

    return Driver(
        name, description, lambda: OPTIONS, partial(_run, suffix), foreign_words="any", log="",
        has_open_section=True,
        usage=f"{name} [-h] [-v] [-C CONFIG] [-b BACKEND | -T TARGET] [--] [COMMANDS FOR BACKEND]",
        details=details,
        prepare=partial(_prepare, suffix),
        reads=lambda invocation: [],  # the programs read their files themselves
    )  # fmt: skip


one_codegen = _driver("one-codegen", "command line tool for code generation", "compile")
one_profile = _driver("one-profile", "command line tool for profiling backend model", "profile")
