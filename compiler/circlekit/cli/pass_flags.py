# SPDX-License-Identifier: Apache-2.0
"""Flags of circle2circle that are passes, and settings of passes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from circlekit.errors import CirclekitError
from circlekit.passes import all_passes
from circlekit.passes.describe import section, summary, table
from circlekit.passes.optimize import pass_names
from circlekit.passes.pipelines import PIPELINES, in_order
from circlekit.rewrite.base import Option, Pass


def add_pass_flags(group: argparse._ArgumentGroup, passes: Mapping[str, type[Pass]]) -> None:
    """A flag for each of ``passes``, and one for each of their options."""
    for name in in_order(passes):
        if all(option.name != name for option in passes[name].options):
            group.add_argument(
                f"--{name}", action="append_const", dest="flags", const=name, help=_text(passes[name])
            )
        for option in passes[name].options:
            _add_option(group, option)


def _add_option(group: argparse._ArgumentGroup, option: Option) -> None:
    keywords: dict[str, Any] = {"dest": f"setting {option.name}", "default": argparse.SUPPRESS}
    keywords["help"] = option.help.replace("%", "%%")
    if not option.metavar:
        group.add_argument(f"--{option.name}", action="store_true", **keywords)
        return
    metavar, parse = option.metavar, _parser_of(option)
    group.add_argument(f"--{option.name}", metavar=metavar, type=parse, **keywords)


def _parser_of(option: Option) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return option.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def settings_in(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line has."""
    prefix = "setting "
    return {n.removeprefix(prefix): v for n, v in vars(arguments).items() if n.startswith(prefix)}


def asked_passes(arguments: argparse.Namespace) -> list[str]:
    """Pipelines first, then single passes: the order of the flags has no effect."""
    settings = settings_in(arguments)
    chosen = {
        *(arguments.flags or ()),
        *(name for name in (all_passes() if settings else ()) if name in settings),
    }
    pipelines = sorted(chosen & set(PIPELINES))
    return [*pipelines, *in_order(chosen - set(pipelines))]


def names(text: str) -> list[str]:
    """The names of passes and pipelines in a list with commas."""
    found = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"names of passes are wanted, not {text!r}")
    try:
        pass_names(found)
    except CirclekitError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return found


def _text(item: type[Pass]) -> str:
    return summary(item).replace("%", "%%")


def list_passes(in_full: bool) -> int:
    """Print a line for each pass, or all that their classes tell."""
    known = all_passes()
    lines = (line for name in in_order(known) for line in (*section(known[name]), ""))
    for line in lines if in_full else table(known):
        print(line)
    return 0
