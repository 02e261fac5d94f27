# SPDX-License-Identifier: Apache-2.0
"""onecc: run the drivers (one-optimize, ...) that a configuration or workflow file names, in one process.

Words used here: an optimization group is a file with options of one-optimize, such as O1.  A backend is a
compiler for devices, with programs of its own; a target is a device, whose file names its backend.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from circlekit.errors import did_you_mean
from circlekit.toolchain.configuration import BACKEND, ENVIRONMENT, ONECC, Configuration, read_configuration
from circlekit.toolchain.driver import Driver, Invocation, guarded, version_text
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.drivers.importing import run_import
from circlekit.toolchain.option import SWITCH_WORDS, DriverError, StepFailed, UsageFault, naming
from circlekit.toolchain.process_exit import HelpParser
from circlekit.toolchain.session import Session
from circlekit.toolchain.workflow import Step, read_workflow

IMPORTS = "one-import-"
"""The beginning of the names of all import drivers."""

ORDER = (
    "one-optimize", "one-quantize", "one-pack", "one-codegen", "one-profile", "one-partition", "one-infer",
)  # fmt: skip
"""The order in which the drivers of a configuration file run, after import drivers."""

SUBCOMMANDS = {
    "compile to circle model": {
        "import": "Convert given model to circle",
        "optimize": "Optimize circle model",
        "quantize": "Quantize circle model",
        "partition": "Divide a circle model into parts",
    },
    "package circle model": {"pack": "Package circle and metadata into nnpackage"},
    "run backend tools": {
        "codegen": "Code generation tool",
        "profile": "Profile backend model file",
        "infer": "Infer backend model file",
        "init": "Generate an initial configuration file",
    },
}
"""{heading in the help page: {command that may follow ``onecc``: its description}}."""

WITH_BACKEND = ("one-codegen", "one-profile")
"""The drivers to which onecc passes its own options -b and -T."""


def onecc(argv: Sequence[str] | None = None) -> int:
    """Run onecc with the arguments ``argv`` (None: the arguments of the process); return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    session = Session()
    if words and any(words[0] in commands for commands in SUBCOMMANDS.values()):
        name, rest = words[0], words[1:]
        return (
            run_import(rest, session)
            if name == "import"
            else all_drivers()[f"one-{name}"].call(rest, session)
        )
    return guarded("onecc", lambda: _parser(session).print_usage(sys.stderr), lambda: _main(words, session))


def _parser(session: Session) -> argparse.ArgumentParser:
    """Return the parser of onecc's own flags; its help page lists commands, groups and targets."""
    groups = ", ".join(f"-{name}" for name in session.installation.groups())
    targets = ", ".join(session.installation.targets())
    commands = "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:10} {text}" for name, text in names.items())])
        for title, names in SUBCOMMANDS.items()
    )
    parser = HelpParser(
        "onecc",
        "onecc [-h] [-v] [-C CONFIG | -W WORKFLOW] [-b BACKEND | -T TARGET] [-O OPTIMIZATION] "
        "[COMMAND <args>]",
        "Run ONE driver via several commands or configuration file",
        commands,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--version", action="store_true", help="show program's version number and exit")
    parser.add_argument("-V", "--verbose", action="store_true", help="output additional information")
    parser.add_argument("-C", "--config", help="run with configuration file (.cfg, or .toml)")
    parser.add_argument("-S", "--section", help=argparse.SUPPRESS)  # accepted without effect, as in ONE
    parser.add_argument(
        "-O",
        metavar="OPTIMIZATION",
        help=f"optimization name to use (Available optimization options: {groups})",
    )
    parser.add_argument("-W", "--workflow", help="run with workflow file")
    parser.add_argument("-b", "--backend", help="generate code for given backend")
    known = f"Available target: {targets}" if targets else "No available target"
    parser.add_argument("-T", "--target", help=f"run with specific target of the backend ({known})")
    return parser


def _main(words: list[str], session: Session) -> None:
    """Run the steps of the configuration file or workflow file that the command line ``words`` names."""
    arguments = _parser(session).parse_args(words)
    if arguments.version:
        print(version_text("onecc"))
        return
    if not arguments.config and not arguments.workflow:
        raise UsageFault("-C/--config or -W/--workflow argument is required")
    _check(arguments, session)
    _warn_of_ignored(arguments, session)
    session.verbose = arguments.verbose
    if arguments.config:
        chosen = Choice(arguments.O, arguments.backend, arguments.target)
        steps = configured_steps(read_configuration(arguments.config), session, chosen)
    else:
        steps = workflow_steps(arguments.workflow, session)
    run_steps(steps, session)


def _check(arguments: argparse.Namespace, session: Session) -> None:
    """Raise UsageFault, in ONE's words, for a wrong name after -O or options that exclude each other."""
    if arguments.O:
        if " " in arguments.O:
            raise UsageFault("Not allowed to have space in the optimization name")
        if f"O{arguments.O}" not in session.installation.groups():
            known = ", ".join(f"-{name}" for name in session.installation.groups())
            raise UsageFault(f"Invalid optimization option: -O{arguments.O} (there are {known})")
    if arguments.backend and arguments.workflow:
        raise UsageFault("'backend' option can be used only with 'config' option")
    if arguments.backend and arguments.target:
        raise UsageFault(
            "'backend' and 'target' are mutually exclusive option. "
            "'target' option automatically set a backend."
        )


def _warn_of_ignored(arguments: argparse.Namespace, session: Session) -> None:
    """Print a warning for each shown option that has no effect beside the others.

    ONE ignores these options in silence.
    """
    used, ignored = "-W", {"-O": arguments.O, "-T": arguments.target}
    if arguments.config:
        used, ignored = "-C", {"-W": arguments.workflow}
    for flag, value in ignored.items():
        if value:
            session.report(f"WARNING: {flag} {value} has no effect beside {used}", "onecc")


# -- steps ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """A step with checked options, ready to run.

    ``run``: runs the step, prints its errors, and returns its exit code.  It raises DriverError if an import
    program of the user cannot be started.
    ``reads``: the paths of the models that it reads.
    """

    run: Callable[[], int]
    reads: Sequence[str] = ()


@dataclass(frozen=True)
class Choice:
    """The choices on onecc's command line.  They take precedence over those in a configuration file.

    ``group``: the name of an optimization group without its leading O; None: none is chosen.
    """

    group: str | None = None
    backend: str | None = None
    target: str | None = None


def workflow_steps(path: str, session: Session) -> list[Ready]:
    """Return the steps of the workflow file ``path`` in the order to run them, checked as by ``_ready``.

    Raise DriverError for a wrong file, StepFailed for wrong options of a step.
    """
    steps: list[Ready] = []
    for step in read_workflow(path, session.report):
        if step.configuration is None:
            steps.append(_step(step, session))
        else:  # the choices on onecc's command line do not apply to workflows
            steps += configured_steps(read_configuration(step.configuration), session, Choice())
    return steps


def run_steps(steps: Sequence[Ready], session: Session) -> None:
    """Run ``steps`` one after the other.  If a step fails, raise StepFailed and run no further steps."""
    for number, step in enumerate(steps, 1):
        session.models.begin_step([path for later in steps[number:] for path in later.reads])
        code = step.run()
        if code:
            raise StepFailed("onecc", code)


def configured_steps(configuration: Configuration, session: Session, choice: Choice) -> list[Ready]:
    """Return the steps of a configuration file in the order to run them, checked as by ``_ready``.

    Raise DriverError for a wrong file, StepFailed for wrong options of a step.
    """
    if ONECC not in configuration.sections:
        path = configuration.path
        raise DriverError("ImportError", f"[{ONECC}] section is required in configuration file: {path}")
    # the environment variables of this file are for its own steps only
    own = replace(session, environment={**session.environment, **configuration.environment})
    names = _drivers_to_run(configuration, own)
    groups = _groups(configuration, choice, session)
    steps = []
    for name in names:
        words = ["--config", configuration.path, "--section", name]
        if name == "one-optimize" and groups:
            words += ["-O", groups]
        if name in WITH_BACKEND:
            words += ["-b", choice.backend] if choice.backend else []
            words += ["-T", choice.target] if choice.target else []
        steps.append(
            _ready(name, words, own, configuration.path, f"in section [{name}] of {configuration.path}")
        )
    return steps


def _drivers_to_run(configuration: Configuration, session: Session) -> list[str]:
    """Return the drivers that [onecc] switches on, in the order to run them.

    Import drivers and the drivers in ORDER run.  Others, such as one-init, are left out with a warning; ONE
    leaves them out in silence.
    Raise DriverError for an unknown section, and for an unknown key or a wrong value in [onecc].
    """
    known = {**all_drivers(), **dict.fromkeys(session.installation.programs(f"{IMPORTS}*"))}
    sections = configuration.sections
    for name in sections:
        if name not in (ONECC, ENVIRONMENT, BACKEND) and name not in known:
            near = did_you_mean(name, [*known, ONECC, ENVIRONMENT, BACKEND])
            raise DriverError("ValueError", f"{configuration.path}: unknown section [{name}]{near}")
    for key in configuration.own_keys(ONECC):
        if key not in known and key != INCLUDE:
            near = did_you_mean(key, [*known, INCLUDE])
            raise DriverError("ValueError", f"{configuration.path}: [{ONECC}] unknown key {key}{near}")
    on = []
    for key, text in sections[ONECC].items():
        if key not in known:  # ``include``, or a key of [DEFAULT]
            continue
        if text.lower() not in SWITCH_WORDS:
            raise DriverError("ValueError", f"{configuration.path}: [{ONECC}] {key}: Not a boolean: {text}")
        if SWITCH_WORDS[text.lower()]:
            on.append(key)
    names = [
        *sorted(name for name in on if name.startswith(IMPORTS)),
        *(name for name in ORDER if name in on),
    ]
    for name in on:
        if name not in names:
            warning = f"WARNING: {configuration.path}: [{ONECC}] {name} is left out; call the command {name}"
            session.report(warning, "onecc")
    return names


INCLUDE = "include"
"""The key of [onecc] that names optimization groups."""


def _groups(configuration: Configuration, choice: Choice, session: Session) -> str:
    """Return the names of the optimization groups to use, without their leading O, separated by spaces.

    The group of ``choice`` comes last: if two groups set the same option, the later group counts.  Raise
    DriverError for an unknown name.
    """
    names = configuration.sections[ONECC].get(INCLUDE, "").replace(",", " ").split()
    with naming(configuration.path, f"{configuration.path}: [{ONECC}] {INCLUDE}"):
        for name in names:
            if name == "O" or not name.startswith("O"):
                raise DriverError("ValueError", f"Invalid group option: {name}")
            session.installation.group(name)
    return " ".join([*(name[1:] for name in names), *([choice.group] if choice.group else [])])


def _ready(name: str, words: list[str], session: Session, path: str, where: str) -> Ready:
    """Check the command line ``words`` for the driver ``name``; return the step that runs it.

    ``where``: the place in the file that asks for the step.  It is added to the message of an error that does
    not contain ``path``: the configuration file, or ``where`` itself for a step of a workflow.
    If circlekit has no driver ``name``, an import program of the user may have that name; its command line
    is not checked.  If an option is wrong, print the error and raise StepFailed.
    """
    programs = session.installation.programs(name) if name not in all_drivers() else {}
    if programs:
        return Ready(lambda: session.run([str(programs[name]), *words]))
    driver = all_drivers()[name]
    found: list[Invocation] = []

    def resolve() -> None:
        """Put the call of the driver into ``found``; raise an error that can be found before the work."""
        with naming(path, where):
            found.append(driver.resolve(words, session))
            driver.prepare(found[0], session)

    code = guarded(name, lambda: None, resolve)
    if code:
        raise StepFailed(name, code)
    return Ready(
        lambda: guarded(name, lambda: None, lambda: driver.execute(found[0], session)),
        driver.reads(found[0]),
    )


def _step(step: Step, session: Session) -> Ready:
    """Return ``step``, a step of a workflow file that names a driver, checked and ready to run.

    Raise DriverError if there is no such driver; raise the errors of ``words_of`` and ``_ready``.
    """
    driver = all_drivers().get(step.tool)
    if driver is None:
        near = did_you_mean(step.tool, list(all_drivers()))
        raise DriverError("ValueError", f"{step.where}: unknown one-cmd {step.tool!r}{near}")
    return _ready(step.tool, words_of(driver, step.keys, step.where), session, step.where, step.where)


def words_of(driver: Driver, keys: Mapping[str, str], where: str) -> list[str]:
    """Return the words of a command line of ``driver`` for the ``keys`` of a step in a workflow file.

    For a driver that accepts any unknown words, an unknown key gives ``--KEY TEXT``; for other drivers, an
    unknown key is an error.  The words of the key ``command`` come last.  If there is such a key, ``--``
    stands before all words that are not the driver's own.
    ``where``: the place of the step, for errors.  Raise DriverError for an unknown key or a wrong value.
    """
    options = {option.key: option for option in driver.options}
    words: list[str] = []
    foreign: list[str] = []
    for key, text in keys.items():
        option = options.get(key.replace("-", "_"))
        if key == "command":
            continue
        if option is None and driver.foreign_words != "any":
            near = did_you_mean(key, list(options))
            message = f"{driver.name}: the following arguments are unrecognized: {key}"
            raise DriverError("", f"{message} ({where}{near})")  # "": wrong usage
        if option is None:
            foreign += [f"--{key}", text]
            continue
        try:
            words += option.words(option.read(text), is_joined=True)
        except ValueError as error:
            raise DriverError("ValueError", f"{where}: {driver.name}: {key}: {error}") from None
    if "command" in keys:
        foreign = ["--", *foreign, *keys["command"].split()]
    return words + foreign
