# SPDX-License-Identifier: Apache-2.0
"""The flags of circle2circle that stand for passes and their settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from circlekit.cli.command import argument_type
from circlekit.errors import CirclekitError
from circlekit.passes.engine.describe import section, summary, table
from circlekit.passes.engine.registry import all_passes, pass_names, passes_with, unknown_name
from circlekit.passes.pipelines import PIPELINES, in_order
from circlekit.rewrite.base import Pass

PREFIX = "setting "
"""Begins the attributes of the parsed arguments that hold settings of passes."""


def add_pass_flags(group: argparse._ArgumentGroup, passes: Mapping[str, type[Pass]]) -> None:
    """Add a flag for each of ``passes`` and for each of their settings."""
    for name in in_order(passes):
        options = passes[name].options
        if all(option.name != name for option in options):
            text = summary(passes[name]).replace("%", "%%")
            group.add_argument(f"--{name}", action="append_const", dest="flags", const=name, help=text)
        for option in options:
            keywords: dict[str, Any] = {"dest": PREFIX + option.name, "default": argparse.SUPPRESS}
            keywords["help"] = option.help.replace("%", "%%")
            if option.metavar:
                keywords.update(metavar=option.metavar, type=argument_type(option.parse))
            else:
                keywords["action"] = "store_true"
            group.add_argument(f"--{option.name}", **keywords)


def settings_in(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of passes on the command line, by name."""
    return {n.removeprefix(PREFIX): v for n, v in vars(arguments).items() if n.startswith(PREFIX)}


def asked_passes(arguments: argparse.Namespace) -> list[str]:
    """Return the requested pipelines, then the passes; the order of the flags has no influence."""
    chosen = {*(arguments.flags or ()), *(settings_in(arguments).keys() & all_passes().keys())}
    pipelines = sorted(chosen & PIPELINES.keys())
    return [*pipelines, *in_order(chosen.difference(pipelines))]


def names(text: str) -> list[str]:
    """Parse a list of passes and pipelines, separated by commas; ``-`` may stand for ``_``."""
    found = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"expected names of passes, got {text!r}")
    try:
        pass_names(found)
    except CirclekitError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return found


def pass_name(text: str) -> str:
    """Parse the name of one pass; ``-`` may stand for ``_``."""
    name = text.replace("-", "_")
    known = passes_with([name])
    if name not in known:
        raise argparse.ArgumentTypeError(unknown_name("pass", text, known))
    return name


def list_passes(in_full: bool) -> int:
    """Print a line for each pass, or all that is known about each."""
    known = all_passes()
    if in_full:
        print("\n".join(line for name in in_order(known) for line in (*section(known[name]), "")))
    else:
        print(table(known))
    return 0
