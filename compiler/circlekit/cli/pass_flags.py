# SPDX-License-Identifier: Apache-2.0
"""Flags of circle2circle that are passes, and their settings; passes are imported when one is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from circlekit.cli.catalog import Flags, Setting
from circlekit.errors import CirclekitError


def add_pass_flags(group: argparse._ArgumentGroup, passes: Iterable[Flags]) -> None:
    """A flag for each of ``passes``, and one for each of their options."""
    for item in passes:
        if all(setting.name != item.name for setting in item.settings):
            group.add_argument(
                f"--{item.name}",
                action="append_const",
                dest="flags",
                const=item.name,
                help=_text(item.summary),
            )
        for setting in item.settings:
            _add_setting(group, setting)


def _add_setting(group: argparse._ArgumentGroup, setting: Setting) -> None:
    keywords: dict[str, Any] = {"dest": f"setting {setting.name}", "default": argparse.SUPPRESS}
    keywords["help"] = _text(setting.help)
    if not setting.metavar:
        group.add_argument(f"--{setting.name}", action="store_true", **keywords)
        return
    parse = _parser_of(setting.name)
    group.add_argument(f"--{setting.name}", metavar=setting.metavar, type=parse, **keywords)


def _text(text: str) -> str:
    return text.replace("%", "%%")  # of which argparse makes one again


def _parser_of(setting: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        from circlekit.passes.names import all_options

        try:
            return all_options()[setting].parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def settings_in(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line has."""
    prefix = "setting "
    return {n.removeprefix(prefix): v for n, v in vars(arguments).items() if n.startswith(prefix)}


def asked_passes(arguments: argparse.Namespace) -> list[str]:
    """Pipelines first, then single passes: the order of the flags has no effect."""
    from circlekit.passes import all_passes
    from circlekit.passes.pipelines import PIPELINES, in_order

    settings = settings_in(arguments)
    chosen = {
        *(arguments.flags or ()),
        *(name for name in (all_passes() if settings else ()) if name in settings),
    }
    pipelines = sorted(chosen & set(PIPELINES))
    return [*pipelines, *in_order(chosen - set(pipelines))]


def names(text: str) -> list[str]:
    """The names of passes and pipelines in a list with commas."""
    from circlekit.passes.names import pass_names

    found = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"names of passes are wanted, not {text!r}")
    try:
        pass_names(found)
    except CirclekitError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return found


def pass_name(text: str) -> str:
    """The name of one pass, in which ``-`` may stand for ``_``."""
    from circlekit.passes.names import passes_with, unknown_name

    name = text.replace("-", "_")
    known = passes_with([name])
    if name not in known:
        raise argparse.ArgumentTypeError(unknown_name("pass", text, known))
    return name


def list_passes(in_full: bool) -> int:
    """Print a line for each pass, or all that their classes tell."""
    from circlekit.passes import all_passes
    from circlekit.passes.describe import section, table
    from circlekit.passes.pipelines import in_order

    known = all_passes()
    lines = (line for name in in_order(known) for line in (*section(known[name]), ""))
    for line in lines if in_full else table(known):
        print(line)
    return 0
