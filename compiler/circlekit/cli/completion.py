# SPDX-License-Identifier: Apache-2.0
"""Make the scripts by which a shell completes the words after ``circlekit``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from circlekit.cli.command import Command
from circlekit.passes.engine.registry import every_pass

PASS_METAVARS = ("PASS", "P,P", "pass")
"""Metavars of arguments that name passes."""

PATH_METAVARS = ("DATA", "DATA.h5", "FILE", "FILE.toml", "MODEL", "OUTPUT", "PATH")
"""Metavars of flags whose values are paths; a positional argument without choices is a path, too."""


def completion_script(shell: str, commands: Mapping[str, Command], summaries: Mapping[str, str]) -> str:
    """Return the script for ``shell`` ("bash" or "zsh").

    It completes sub-commands, flags, names of passes, values of flags, and paths.  ``commands`` and
    ``summaries``: the sub-commands and a sentence about each, by name.
    """
    import shtab

    root = argparse.ArgumentParser("circlekit")
    root.add_argument("--version", action="store_true", help="show the version")
    parsers = root.add_subparsers(dest="subcommand")
    for name, command in commands.items():
        parser = command.parser()
        for action in parser._actions:
            if action.help == argparse.SUPPRESS and action.option_strings:
                action.help = ""  # the flag of a pass: the help page does not list it, completion does
            if action.nargs == 0:  # a flag without a value
                continue
            if action.metavar in PASS_METAVARS:
                action.choices = sorted(every_pass())
            elif action.metavar == "DIR":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.choices is None and (not action.option_strings or action.metavar in PATH_METAVARS):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        parsers.add_parser(name, help=summaries[name], parents=[parser], add_help=False)
    return str(shtab.complete(root, shell))
