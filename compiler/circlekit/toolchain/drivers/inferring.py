# SPDX-License-Identifier: Apache-2.0
"""one-infer: run a model with the program of a backend, or with a runtime that circlekit itself can call.

A backend is a compiler for devices; its program BACKEND-infer runs a model.
"""

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
    if not values.get("driver") and not values.get("backend"):  # the option --backend is hidden
        raise UsageFault("the following arguments are required: -d/--driver")


def _words(invocation: Invocation) -> list[str]:
    """Return the arguments of the program.

    First come those after ``--`` on the command line, then those of the option ``command``.
    """
    return [*invocation.backend_words, *str(invocation.values.get("command", "")).split()]


def _run(invocation: Invocation, session: Session) -> None:
    """Run the program, and then the Python script that the option ``post-process`` names, if any."""
    values = invocation.values
    program = _program(values)
    words = _words(invocation)
    built_in = _built_in(program, session)
    if built_in is not None:
        with session.program(program, words):  # prints an error as a program would, and logs the call
            for line in built_in(words):
                session.say(line)
    else:
        run_program(session, program, words)
    script = str(values.get("post_process", "")).split()
    if script:  # without words, Python would run the standard input
        session.require([sys.executable, *script], "one-infer")


def _built_in(program: str, session: Session) -> Callable[[list[str]], list[str]] | None:
    """Return circlekit's own function for ``program``: it gets the arguments and returns lines to print.

    Such a function exists for NAME-infer with a NAME in RUNTIMES; for any other program return None.  A
    program of the same name in the folder of the commands, or in ``backends`` beside it, has precedence: if
    there is one, return None.
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
    reads=_words,  # one of these words is the path of the model; the others do no harm
)
