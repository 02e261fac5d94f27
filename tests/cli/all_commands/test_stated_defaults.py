# SPDX-License-Identifier: Apache-2.0
"""The default that a help page states for a flag is the default that the parser uses."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from circlekit.cli import front_door
from circlekit.cli.command import Command
from tests.cli.scripts import SCRIPTS


def every_command() -> dict[str, Command]:
    """Return all sub-commands of circlekit and all other installed commands, by name."""
    found = {f"circlekit {name}": front_door.find(name) for name in front_door.SUMMARIES}
    for name, place in SCRIPTS.items():
        module, function = place.split(":")
        command = getattr(import_module(module), function)
        if isinstance(command, Command):
            found[name] = command
    return found


COMMANDS = every_command()
DEFAULT = re.compile(r"\(default: ([^\s),;]+)\)")


@pytest.mark.parametrize("name", COMMANDS)
def test_stated_defaults(name: str) -> None:
    for action in COMMANDS[name].parser()._actions:
        stated = DEFAULT.search(action.help or "")
        if stated is None or not action.default:  # without a value, the command itself chooses the default
            continue
        default = f"{action.default:g}" if isinstance(action.default, float) else str(action.default)
        assert stated.group(1) == default, action.option_strings
