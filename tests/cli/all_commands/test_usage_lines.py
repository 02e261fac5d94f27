# SPDX-License-Identifier: Apache-2.0
"""The usage line of a command names the positional arguments that the help page lists."""

from __future__ import annotations

import argparse
import re

import pytest

from tests.cli.all_commands.test_stated_defaults import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_usage_line_has_the_positional_arguments(name: str) -> None:
    parser = COMMANDS[name].parser()
    usage = set(re.findall(r"[\w|]+", parser.format_usage().partition("[flags]")[2]))
    for action in parser._actions:
        if not action.option_strings and action.help != argparse.SUPPRESS:
            shown = "|".join(action.choices) if action.choices else action.metavar or action.dest
            assert shown in usage
