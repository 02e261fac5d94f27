# SPDX-License-Identifier: Apache-2.0
"""one-infer: run a model with the program of a backend, or with an installed runtime."""

from __future__ import annotations

import sys
from collections.abc import Callable

from circlekit.toolchain.driver import Driver, Invocation
from circlekit.toolchain.drivers.backends import run_program
from circlekit.toolchain.inference import RUNTIMES, infer
from circlekit.toolchain.option import Option, UsageFault, Values
from circlekit.toolchain.session import Session


def _program(values: Values) -> str:
    """Return the name of the program to run."""
    return str(values.get("driver") or f"{values['backend']}-infer")


def _check(values: Values) -> None:
    """Raise UsageFault unless the options name a program."""
    if "driver" not in values and "backend" not in values:
        raise UsageFault("the following arguments are required: -d/--driver")


def _words(invocation: Invocation) -> list[str]:
    """Return the arguments of the program: those on the command line, then those in the key ``command``."""
    return [*invocation.backend_words, *str(invocation.values.get("command", "")).split()]


def _run(invocation: Invocation, session: Session) -> None:
    """Run the program, and after it the script of ``post-process``, if there is one."""
    values = invocation.values
    program = _program(values)
    words = _words(invocation)
    built_in = _built_in(program, session)
    if built_in is not None:
        with session.program(program, words):
            for line in built_in(words):
                session.say(line)
    else:
        run_program(session, program, words)
    if "post_process" in values:
        session.require([sys.executable, *str(values["post_process"]).split()], "one-infer")


def _built_in(program: str, session: Session) -> Callable[[list[str]], list[str]] | None:
    """Return a function that does the work of ``program`` if it is NAME-infer for a NAME in RUNTIMES.

    Return None otherwise, and if a program with this name is installed beside the commands.
    """
    runtime = {f"{name}-infer": name for name in RUNTIMES}.get(program)
    if runtime is None or session.installation.programs(program):
        return None
    return lambda words: infer(runtime, words, session.load)


def _prepare(invocation: Invocation, session: Session) -> None:
    """Raise DriverError if the program is not found."""
    program = _program(invocation.values)
    if _built_in(program, session) is None:
        session.installation.find_program(program)


one_infer = Driver(
    "one-infer",
    "command line tool to infer model",
    lambda: [
        Option(
            "driver",
            f"program that infers; built in: {', '.join(f'{name}-infer' for name in RUNTIMES)}",
            "-d",
        ),
        Option("backend", "use the program BACKEND-infer", is_shown=False),
        Option("post-process", "Python script with arguments, run after the program"),
        Option("command", "arguments for the program", is_shown=False),
    ],
    _run,
    check=_check,
    foreign_words="after_dashes",
    log="",
    usage="one-infer [-h] [-v] [-C CONFIG] [-d DRIVER] [--post-process POST_PROCESS] [--] "
    "[COMMANDS FOR BACKEND DRIVER]",
    prepare=_prepare,
    reads=_words,  # one of them is the path of the model
)
